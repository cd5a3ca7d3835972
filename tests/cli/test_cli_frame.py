"""The command line as a whole: what it imports, how it ends, and what it says about mistakes."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("click")

from vicinal.cli import _group


def modules_after(*words):
    """The top-level modules that a command line imports in a new process."""
    code = (
        "import json, sys\n"
        "from vicinal.cli import main\n"
        f"sys.argv = ['vicinal', *{list(words)!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["completion", "bash"]])
def test_help_imports_only_click(words):
    loaded = modules_after(*words)
    assert "click" in loaded
    heavy = {"joblib", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "rich", "scipy",
             "safetensors", "sklearn", "plotly"}  # fmt: skip
    assert not loaded & heavy


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
