"""The package as a whole: what an import costs, what is public, and what the files say of it."""

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import vicinal

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def modules_loaded_by(statement: str) -> set[str]:
    """The top-level packages that a statement imports in a new interpreter."""
    code = (
        "import json, sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({m.partition('.')[0] for m in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


HEAVY = {"joblib", "llvmlite", "numba", "numpy", "scipy", "sklearn"}
OPTIONAL = {
    "dask",
    "faiss",
    "matplotlib",
    "onnx",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "skl2onnx",
    "torch",
}


def test_import_is_light():
    loaded = modules_loaded_by("import vicinal; dir(vicinal); vicinal.__version__")
    assert "vicinal" in loaded
    assert not loaded & (HEAVY | OPTIONAL)


def test_a_small_fit_loads_no_compiler():
    rows = [[0, 0], [1, 1], [0, 1], [5, 5], [4, 5], [5, 4]]
    loaded = modules_loaded_by(f"import vicinal; vicinal.NCA(2).fit({rows}, [0, 0, 0, 1, 1, 1])")
    assert "sklearn" in loaded
    assert not loaded & {"llvmlite", "numba"}


def test_every_name_loads_without_optional_packages():
    hide = (
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {OPTIONAL}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    loaded = modules_loaded_by(f"{hide}from vicinal import *")
    assert "sklearn" in loaded
    assert not loaded & OPTIONAL


def test_all_and_dir_list_the_same_names():
    assert len(vicinal.__all__) == len(set(vicinal.__all__))
    assert sorted(vicinal.__all__) == [name for name in dir(vicinal) if not name.startswith("_")]
    assert "__version__" in dir(vicinal)


@pytest.mark.parametrize("name", vicinal.__all__)
def test_public_name_resolves(name):
    value = getattr(vicinal, name)
    if name != "TRUSTED_TYPES":  # a list
        assert value.__name__.rpartition(".")[2] == name
    assert value.__doc__
    assert getattr(vicinal, name) is value


def test_type_checkers_see_the_same_names():
    tree = ast.parse(read("src/vicinal/__init__.py"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    assert [ast.unparse(block.test) for block in blocks] == ["_TYPE_CHECKING"]
    seen = [alias.name for statement in blocks[0].body for alias in statement.names]
    assert sorted(seen) == sorted(vicinal.__all__)


@pytest.mark.parametrize("name", [n for n in vicinal.__all__ if n not in vicinal._HOMES])
def test_issue_14_modules_list_their_public_names_alone(name):
    """Tab completion on a module shows no module that it imports."""
    module = getattr(vicinal, name)
    assert [n for n in dir(module) if not n.startswith("__")] == sorted(module.__all__)
    assert "__doc__" in dir(module)
    for public in module.__all__:
        assert hasattr(module, public)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="module 'vicinal' has no attribute 'nothing'"):
        vicinal.nothing  # noqa: B018
    assert not hasattr(vicinal, "import_module")


@pytest.mark.parametrize("name", ["TSNE", "tSNE"])
def test_who_looks_for_t_sne_is_told_of_ksne(name):
    message = "is KSNE with k=1. Write vicinal.KSNE"
    with pytest.raises(AttributeError, match=message):
        getattr(vicinal, name)
    with pytest.raises(ImportError, match=message):
        exec(f"from vicinal import {name}")
    assert not hasattr(vicinal, name)


BRITISH = re.compile("neighbour|colour|grey|centre|label(led|ling)|[a-z]{3}[nmlrt]is(e|ed|ation)$")


def identifiers(name, part):
    """What users type of a public part: its name, parameters, methods and fields."""
    yield name
    for each in (part, *(getattr(part, method) for method in dir(part) if method[0] != "_")):
        if callable(each):
            try:
                yield from inspect.signature(each).parameters
            except (TypeError, ValueError):
                continue
    if inspect.isclass(part):
        yield from (word for word in (*dir(part), *vars(part).get("__annotations__", {})))


def test_what_users_type_is_spelt_as_in_scikit_learn():
    """CONTRIBUTING.md, Names: identifiers are American, prose is British."""
    found = set(vicinal.__all__)
    for name in vicinal.__all__:
        part = getattr(vicinal, name)
        parts = {n: getattr(part, n) for n in part.__all__} if hasattr(part, "__all__") else {}
        for each in ({name: part} | parts).items():
            found.update(identifiers(*each))
    found = {word for word in found if word[0] != "_"}
    assert {"neighborhood", "NeighborsDisplay", "unlabeled", "minimize"} <= found
    assert not {word for word in found if BRITISH.search(word)}


def test_version_is_the_same_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(dev|a|b|rc)\d+)?", vicinal.__version__)
    assert metadata.version("vicinal") == vicinal.__version__
    headings = re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.M)
    assert next(h for h in headings if h != "Unreleased") == vicinal.__version__
    assert re.search(r"^version: (.+)$", read("CITATION.cff"), re.M)[1] == vicinal.__version__


def test_type_hints_are_shipped():
    assert Path(vicinal.__file__).with_name("py.typed").exists()


def test_readme_gives_the_two_commands():
    """The two commands stand in code, and no other target of make does."""
    code = re.findall(r"```.*?```|`[^`\n]+`", read("README.md"), re.S)
    targets = re.findall(r"^\W*make ([a-z-]+)", "\n".join(code), re.M)
    assert set(targets) == {"demo", "test"}


def test_make_targets_in_the_texts_exist():
    targets = set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.M))
    assert {"demo", "test", "lint", "bench", "test-oldest", "test-nojit"} <= targets
    for name in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"`make ([a-z-]+)", read(name))) <= targets, name


def test_oldest_constraints_are_the_lower_bounds():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for extra in ("ann", "cli", "onnx", "plot", "progress", "report", "test"):
        wanted += extras[extra]
    bounds = dict(r.split(">=") for r in wanted if not r.startswith("vicinal["))
    pins = dict(
        line.split("==")
        for line in read("tools/constraints-oldest.txt").splitlines()
        if line and not line.startswith("#")
    )
    for name in ("joblib", "threadpoolctl", "llvmlite"):  # come along with the others
        assert pins.pop(name)
    assert pins == bounds


def test_layers():
    """Parts import downwards only."""
    pytest.importorskip("importlinter")
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert tool is not None
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_machine_paths():
    """No tracked file speaks of the machine it was written on."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    folders = "|".join(["work", "root", "tmp/probe"])
    path = re.compile(rf"(?<![\w.-])/(?:{folders})\b")
    found = []
    for name in filter(None, listing.stdout.split("\0")):
        file = ROOT / name
        data = file.read_bytes() if file.is_file() else b""
        if b"\0" not in data and path.search(data.decode("utf-8", errors="replace")):
            found.append(name)
    assert found == []
