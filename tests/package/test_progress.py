"""What a user sees of a running fit: time left, searches, compilation, narrow and other displays.

On a clock of our own: times are exact, and nothing waits.
"""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from vicinal import NCA, _clock
from vicinal.callbacks import Progress
from vicinal.callbacks._display import _NotebookLines
from vicinal.core.types import Activity
from vicinal.fit import report as support
from vicinal.fit.report import Reports, SearchStep

pytestmark = pytest.mark.skipif(not support.HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")


class Clock:
    """A clock that moves only when told to."""

    def __init__(self, monkeypatch):
        self.seconds = 1000.0
        monkeypatch.setattr(_clock, "now", lambda: self.seconds)

    def wait(self, seconds):
        self.seconds += seconds

    def compile(self, seconds):
        _clock.count_compilation(True)
        self.wait(seconds)
        _clock.count_compilation(False)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def console():
    rich = pytest.importorskip("rich.console")
    return rich.Console(file=io.StringIO(), width=200)


def terminal(width):
    rich = pytest.importorskip("rich.console")
    options = {"force_terminal": True, "force_interactive": True, "color_system": None}
    return rich.Console(file=io.StringIO(), width=width, legacy_windows=False, **options)


class Shown:
    """A fit of which Progress shows what it is told."""

    def __init__(self, console, interval=0.0, limit=200):
        self.progress = Progress(console, interval=interval)
        self.console = console
        self.context = SimpleNamespace(max_subtasks=limit, parent=None)
        self.estimator = type("NCA", (), {"history_": {}})()
        self.progress.setup(self.estimator, self.context)

    def tell(self, *args, **kwargs):
        self.progress.on_fit_activity(self.estimator, self.context, Activity(*args, **kwargs))

    def iterate(self, loss=None, score=None):
        self.estimator.history_ = {"loss": [loss], "validation_score": [score]}
        task = SimpleNamespace(parent=self.context)
        self.progress.on_fit_task_end(self.estimator, task)

    def end(self):
        self.progress.on_fit_task_end(self.estimator, self.context)
        self.progress.teardown(self.estimator, self.context)

    @property
    def lines(self):
        return self.console.file.getvalue().splitlines()


def test_compilation_is_left_out_of_the_time_left(clock, console):
    shown = Shown(console, limit=11)
    clock.compile(60.0)
    clock.wait(2.0)
    shown.iterate(loss=0.5)
    assert "at most 0:20 left" in shown.lines[-1]  # ten more of two seconds


def test_work_before_the_first_iteration_is_left_out_of_the_time_left(clock, console):
    shown = Shown(console, limit=11)
    shown.tell("preparing the start")
    clock.wait(100.0)
    shown.tell(total=11)
    clock.wait(3.0)
    shown.iterate(loss=0.5)
    assert "at most 0:30 left" in shown.lines[-1]


def test_no_time_left_is_shown_while_the_end_takes_long(clock, console):
    shown = Shown(console, limit=2)
    for _ in range(2):
        clock.wait(1.0)
        shown.iterate(loss=0.5)
    assert "left" not in shown.lines[-1]
    shown.tell("correcting the scale of the map")
    assert shown.lines[-1].endswith(": correcting the scale of the map")
    shown.tell("computing the final loss")
    clock.wait(10.0)
    shown.end()
    assert "finished in 0:12" in shown.lines[-1]
    assert not any("0:00" in line for line in shown.lines)


@pytest.mark.parametrize("interval", [0.0, 60.0])
def test_a_word_when_something_compiles(clock, console, interval):
    shown = Shown(console, interval)
    shown.iterate(loss=0.5)
    shown.tell("compiling for this machine")
    assert shown.lines[-1].endswith(": compiling for this machine")  # however recent the last


@pytest.mark.parametrize("words", ["interrupted", "stopped by the time budget"])
def test_the_last_line_says_how_the_fit_ended(clock, console, words):
    shown = Shown(console)
    shown.iterate(loss=0.5)
    clock.wait(5.0)
    shown.tell(words, ends=True)
    shown.end()
    assert f"{words} after 0:05" in shown.lines[-1]
    assert "finished" not in console.file.getvalue()


def test_an_interrupt_without_a_result_is_called_so(clock, console):
    shown = Shown(console)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        shown.progress.teardown(shown.estimator, shown.context)
    assert "interrupted after 0:00" in shown.lines[-1]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_narrow_terminal_keeps_a_bar_and_one_line(clock, width):
    shown = Shown(terminal(width))
    clock.wait(2.0)
    shown.iterate(loss=0.123456, score=-0.4674)
    shown.progress._display.close()
    lines = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "\n", shown.console.file.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", lines) if "1/200" in line]
    assert all(len(line) <= width for line in lines)
    assert shown.progress._display.bar.bar_width >= 2
    assert "< 6:38 left" in lines[-1] or (width >= 80 and "at most 6:38 left" in lines[-1])
    assert "  loss 0.123456" in lines[-1]
    assert ("held out 0.4674" in lines[-1]) == (width == 60)
    assert ("held-out loss 0.4674" in lines[-1]) == (width >= 80)


def test_a_notebook_replaces_its_line(clock, monkeypatch):
    shown = []

    def display(data, raw, display_id):
        shown.append(data["text/plain"])

        def update(data, raw):
            shown[-1] = data["text/plain"]

        return SimpleNamespace(update=update)

    module = ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    notebook = SimpleNamespace(is_interactive=False, is_jupyter=True)
    fit = Shown(notebook)
    assert isinstance(fit.progress._display, _NotebookLines)
    for _ in range(3):
        clock.wait(1.0)
        fit.iterate(loss=0.5)
    fit.end()
    assert len(shown) == 1
    assert "iteration 3/200  finished in 0:03" in shown[0]


def test_a_search_shows_candidate_fold_best_and_time(clock, console):
    shown = Shown(console, limit=None)
    reporter = SimpleNamespace(
        begin=lambda part: shown.progress.on_fit_activity(shown.estimator, shown.context, part)
    )
    reports = Reports("NCA", 0, reporter)
    reports.searching(SearchStep({"alpha": 0.1}, 1, 3, 1, 2))
    assert shown.lines[-1].endswith(": candidate 1/3: alpha=0.1, fold 1/2")
    clock.wait(2.0)
    reports.searching(SearchStep({"alpha": 0.1}, 1, 3, 2, 2))
    shown.iterate()  # an iteration of the search is none of the fit
    clock.wait(2.0)
    reports.searching(SearchStep({"alpha": 0.01}, 2, 3, 1, 2, ({"alpha": 0.1}, 0.947)))
    assert shown.lines[-1].endswith(
        ": candidate 2/3: alpha=0.01, fold 1/2  at most 0:08 left  best alpha=0.1 (94.7 %)"
    )
    shown.tell(total=50)
    shown.iterate(loss=0.5)
    assert "iteration 1/50" in shown.lines[-1]


def test_a_slow_search_prints_where_it_stands(clock, capsys):
    reports = Reports("NCA", 1)
    for fold in range(1, 6):
        reports.searching(SearchStep({"alpha": 0.1}, 1, 8, fold, 5))
        clock.wait(4.0)
    said = capsys.readouterr().out.splitlines()
    assert said == ["[NCA] candidate 1/8: alpha=0.1, fold 4/5  at most 2:28 left"]


def test_compilation_is_counted_once_and_told(clock):
    told = []
    before = _clock.compiled_seconds()
    with _clock.watch_compilation(lambda: told.append(clock.seconds)):
        _clock.count_compilation(True)
        clock.compile(2.0)  # a helper inside a kernel
        clock.wait(1.0)
        _clock.count_compilation(False)
    clock.compile(5.0)
    assert _clock.compiled_seconds() - before == 8.0
    assert told == [1000.0]


def test_a_fit_shows_its_search_and_its_end(console):
    X, y = load_iris(return_X_y=True)
    model = NCA(2, alpha="auto", cv=2, random_state=0, early_stopping=True)
    model.set_callbacks(Progress(console, interval=0)).fit(X, y)
    said = console.file.getvalue()
    assert re.search(r"candidate 1/\d+: alpha=0\.1, fold 1/2", said)
    assert re.search(r"fold 2/2  at most \d+:\d\d left  best alpha=[\d.]+ \(\d+\.\d %\)", said)
    assert "preparing the start" in said
    assert re.search(r"iteration 1/\d+  at most .* left  loss .*  held-out loss \d", said)
    assert "computing the final loss" in said
    assert "finished in" in said.splitlines()[-1]


def test_an_interrupted_fit_is_not_called_finished(console):
    X, y = load_iris(return_X_y=True)

    class Interrupts(Progress):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            if context.parent is not None and context.task_id == 3:
                raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        NCA(2, random_state=0, alpha=3e-3).set_callbacks(Interrupts(console, interval=0)).fit(X, y)
    assert "interrupted after" in console.file.getvalue().splitlines()[-1]


def test_a_held_out_score_is_printed_as_a_loss(capsys):
    X, y = load_iris(return_X_y=True)
    model = NCA(2, early_stopping=True, random_state=0, verbose=1, alpha=3e-3).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    heading = next(i for i, line in enumerate(lines) if "held-out loss" in line)
    printed = lines[heading + 1 :][: len(model.history_["loss"])]
    printed = [float(line.split()[4]) for line in printed]
    np.testing.assert_allclose(printed, -np.array(model.history_["validation_score"]), atol=1e-6)
