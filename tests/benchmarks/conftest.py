"""A toy experiment with its own module, page and store."""

import importlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

TOY = """
from reproduce.framework.experiment import Claim, Experiment

def jobs(splits):
    for split in range(splits or 3):
        yield {"data": "toy", "split": split, "log": LOG}

def work(data, split, log):
    with open(log, "a") as file:
        file.write(f"{split}\\n")
    if split == FAILS:
        raise ValueError(f"split {split} fails")
    return {"square": split * split, "words": "a, b", "curve": [0.5, split], "Z": [[1.0]]}

def parts(done):
    squares = sorted(each.result["square"] for each in done)
    return dict(squares=squares)

def draw(done, folder):
    (folder / "toy.png").write_text(str(len(done)))

def claims(done):
    yield Claim("squares grow", "seen", f"{len(done)} of 3")

toy = Experiment("toy", "A toy", jobs, work, parts, draw, drawn=("Z",), claims=claims)
"""

PAGE = """The squares {squares} are found. They grow.

{table}

---
{facts}
"""


def in_threads(workers, mp_context):
    return ThreadPoolExecutor(workers)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A runner of the toy: ``toy(splits=..., reuse=...)``; what it did and wrote."""
    modules = tmp_path / "modules"
    (modules / "pages").mkdir(parents=True)
    (modules / "pages" / "toy.md").write_text(PAGE)
    monkeypatch.syspath_prepend(str(modules))
    # workers are new processes, which take their path from the parent's
    from reproduce.framework import runner

    log = tmp_path / "log"

    def make(fails=-1, change=""):
        # a name of its own for each variant, so that Python imports it anew
        name = f"toy_{abs(hash((tmp_path, fails, change)))}"
        source = TOY.replace("LOG", repr(str(log))).replace("FAILS", str(fails))
        path = modules / f"{name}.py"
        path.write_text(source.replace('    return {"square', f'{change}    return {{"square'))
        importlib.invalidate_caches()
        return importlib.import_module(name).toy

    def run(splits=None, reuse=False, sets=None, output=tmp_path / "out", processes=False,
            **variant):  # fmt: skip
        log.write_text("")
        pool = ProcessPoolExecutor if processes else in_threads  # which start at once
        monkeypatch.setattr(runner, "ProcessPoolExecutor", pool)
        options = SimpleNamespace(
            splits=splits, sets=sets, reuse=reuse, jobs=1,
            store=tmp_path / "store", output=output, where=None,
        )  # fmt: skip
        run.folder = runner.run(make(**variant), options)
        return log.read_text().split()

    run.make = make
    run.log = log
    run.store = tmp_path / "store" / "toy.jsonl"
    run.report = tmp_path / "out" / "toy.md"
    run.csv = tmp_path / "out" / "data" / "toy.csv"
    return run
