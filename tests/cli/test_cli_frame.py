"""The command line as a whole: what it imports, how it ends, and what it says about mistakes."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("click")

from vicinal.cli import _group


def modules_after(*words, code=0):
    """The top-level modules that a command line imports in a new process, and what it says."""
    script = (
        "import json, sys\n"
        "from vicinal.cli import main\n"
        f"sys.argv = ['vicinal', *{list(words)!r}]\n"
        "try: main()\n"
        f"except SystemExit as end: assert (end.code or 0) == {code}, end.code\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1])), done.stderr


HEAVY = {"joblib", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "rich", "scipy",
         "safetensors", "sklearn", "plotly"}  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["completion", "bash"]])
def test_help_imports_only_click(words):
    loaded, _ = modules_after(*words)
    assert "click" in loaded
    assert not loaded & HEAVY


#: a command line for each file that a command reads; none of them exists but here.csv
ABSENT = [
    "fit none.csv", "fit here.csv --resume none.vic", "evaluate none.csv", "embed none.csv",
    "transform none.vic here.csv", "transform none.vic none.csv", "predict none.vic here.csv",
    "neighbours none.vic here.csv", "info none.vic", "plot none.csv",
    "plot here.csv --model none.vic",
    "plot here.csv --test none.csv", "report none.csv", "report here.csv --model none.vic",
    "report here.csv --test none.csv",
]  # fmt: skip


@pytest.mark.parametrize("line", ABSENT)
def test_absent_files_are_refused_before_anything_large_is_imported(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.csv").write_text("a,b\n1,2\n")
    (tmp_path / "model.vic").write_text("what `fit` writes by default, and would ask about")
    loaded, errors = modules_after(*line.split(), code=1)
    assert "here is no " in errors
    assert "none." in errors
    assert not loaded & HEAVY


def test_without_click_it_says_what_to_install():
    code = "import sys; sys.modules['click'] = None\nfrom vicinal.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'vicinal[cli]'")
    assert "Traceback" not in done.stderr


def test_python_m_vicinal_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "vicinal", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("vicinal, version ")


def test_help_lists_every_command_and_the_exit_codes(run):
    shown = run("--help").stdout
    for names in _group.COMMANDS.values():
        for name in names:
            assert f"\n  {name} " in shown
    for code in ("0", "1", "2", "3", "4", "130", "141"):
        assert f"\n  {code} " in shown


def test_nothing_but_the_name_shows_the_help():
    done = subprocess.run([sys.executable, "-m", "vicinal"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nExit codes:\n" in done.stdout


def test_near_command_is_named(run):
    done = run("complete", code=2)
    assert "Did you mean 'completion'?" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run, shell):
    done = run("completion", shell)
    assert "_VICINAL_COMPLETE" in done.stdout
    data = json.loads(run("completion", shell, "--json").stdout)
    assert data["script"] in done.stdout


def test_wrong_use_is_json_too(run):
    done = run("completion", "tcsh", "--json", code=2)
    assert json.loads(done.stdout)["exit_code"] == 2
