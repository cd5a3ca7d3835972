"""A time budget is kept by everything that a fit does, on a clock that only its work moves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from vicinal import KNCA, LMNN, NCA, _clock
from vicinal.core.problem import Problem
from vicinal.fit.context import Budget
from vicinal.maps import Periodic
from vicinal.models.votes import VotingModel
from vicinal.neighborhoods import Nearest
from vicinal.samplers import MiniBatches, StochasticQueries, Subsample
from vicinal.solvers import SGD
from vicinal.starts import Random
from vicinal.starts.annealing import Annealing
from vicinal.targets import Labels

N = 300
PAIR = 1e-4  # seconds on our clock: all pairs take nine


class Work:
    """A clock that evaluations move, by the pairs they compute."""

    def __init__(self, monkeypatch):
        self.seconds, self.first = 0.0, None
        monkeypatch.setattr(_clock, "now", lambda: self.seconds)
        evaluate, score, embed = Problem.evaluate, Problem.score, Problem.embed

        def slow_evaluate(problem, theta, batch=None):
            rows = problem.rows if batch is None or batch.rows is None else batch.rows
            queries = rows if batch is None or batch.queries is None else batch.queries
            listed = getattr(problem.pairs, "indices", None)
            pairs = len(rows) * len(queries) if listed is None else len(listed)
            self.seconds += pairs * PAIR * (problem.dtype == np.float64 or 0.5)
            if self.first is None:
                self.first = self.seconds
            return evaluate(problem, theta, batch)

        def slow_score(problem, theta, queries, penalty=True):
            n = len(problem.rows)
            self.seconds += 0.4 * PAIR * n * (n if queries is None else len(queries))
            return score(problem, theta, queries, penalty)

        def slow_embed(problem, theta):
            self.seconds += 1e-4 * len(problem.X)
            return embed(problem, theta)

        monkeypatch.setattr(Problem, "evaluate", slow_evaluate)
        monkeypatch.setattr(Problem, "score", slow_score)
        monkeypatch.setattr(Problem, "embed", slow_embed)


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 100)  # float32 first, as on large data
    return Work(monkeypatch)


def table(n=N):
    rng = np.random.RandomState(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 0.7 * np.eye(4)[y], y


FITS = {
    "exact": NCA(2, alpha=3e-3, tol=0.0, max_iter=10**4, sampling="full"),
    "early stopping": NCA(
        2, alpha=3e-3, tol=0.0, max_iter=10**4, sampling="full", early_stopping=True
    ),
    "batches": NCA(2, alpha=3e-3, sampling=MiniBatches(60, clusters="random"), max_iter=10**4),
    "scored batches": NCA(
        2,
        alpha=3e-3,
        sampling=MiniBatches(60, clusters="random"),
        max_iter=10**4,
        early_stopping=True,
    ),
    "sub-sample": NCA(2, alpha=3e-3, sampling=Subsample(100), tol=0.0, max_iter=10**4),
    "queries": NCA(2, alpha=3e-3, sampling=StochasticQueries(30), max_iter=10**4),
    "sgd": NCA(
        2, alpha=3e-3, sampling=MiniBatches(60, clusters="random"), solver=SGD(), max_iter=10**4
    ),
    "lists": NCA(2, alpha=3e-3, neighborhood=Nearest(20), tol=0.0, max_iter=10**4),
    "starts": NCA(2, alpha=3e-3, init=Random(n_init=50), tol=1e-3, sampling="full"),
    "annealing": NCA(1, alpha=3e-3, init=Annealing(), max_iter=20, sampling="full"),
    "search": NCA(2, alpha="auto", cv=2, sampling="full"),
    "knca": KNCA(2, alpha=3e-3, k=3, tol=0.0, max_iter=10**4, sampling="full"),
    "lmnn": LMNN(2, k=3, tol=0.0, max_iter=10**4),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Annealing was stopped")
def test_a_budget_is_kept_to_a_tenth_beyond_the_first_evaluation(name, work):
    budget = 200.0
    model = FITS[name].set_params(time_budget=budget, random_state=0).fit(*table())
    assert work.seconds <= 1.1 * budget + work.first
    assert model.n_iter_ > 1
    assert np.isfinite(model.loss_)
    assert model.score(*table()) > 0.4


@pytest.mark.parametrize("name", FITS)
def test_without_any_time_a_fit_ends_soon_after_its_first_evaluations(name, work):
    X, y = table()
    with pytest.warns() as told:
        FITS[name].set_params(time_budget=1e-3, random_state=0).fit(X, y)
    assert any(issubclass(warning.category, ConvergenceWarning) for warning in told)
    one = N * N * PAIR
    assert work.seconds <= 6 * one


class SlowMap:
    """A clock that only a map moves: three seconds to embed the rows of `wide`."""

    def __init__(self, monkeypatch):
        self.seconds = 0.0
        monkeypatch.setattr(_clock, "now", lambda: self.seconds)
        forward = Periodic.forward

        def slow(mapping, theta, X, dtype=np.float64):
            seconds = 0.01 * len(X)
            self.seconds += seconds
            Z, pull = forward(mapping, theta, X, dtype)

            def slow_pull(dZ):
                self.seconds += 2 * seconds
                return pull(dZ)

            return Z, slow_pull

        monkeypatch.setattr(Periodic, "forward", slow)

    def fit(self, budget, **parameters):
        """A map and what was warned of."""
        self.seconds, mapping = 0.0, Periodic(n_frequencies=2, width=1)
        model = NCA(2, mapping=mapping, time_budget=budget, random_state=0, **parameters)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(*wide())
        return model, " ".join(str(warning.message) for warning in told)


def wide():
    X, y = table()
    return np.hstack([X, np.random.RandomState(1).normal(size=(N, 96))]), y


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("budget", [1.0, 10.0, 20.0, 60.0, 200.0])
def test_a_map_that_is_slow_to_embed_keeps_to_the_budget(monkeypatch, budget, early_stopping):
    """Or the rows are embedded ten times: for a start, one step, a loss, and the model."""
    slow = SlowMap(monkeypatch)
    slow.fit(budget, early_stopping=early_stopping)
    assert slow.seconds <= max(1.1 * budget, 30.0)


def test_what_there_is_no_time_for_is_left_out_and_said(monkeypatch):
    slow = SlowMap(monkeypatch)
    hasty, told = slow.fit(1.0)
    assert "the 1 seconds of 'time_budget' were used up after 0 iterations" in told
    assert (
        "The 1 seconds of 'time_budget' were not enough for the correction of the scale of the map "
        "and feature_importances_: increase 'time_budget'."
    ) in told
    with pytest.raises(AttributeError, match="a fit whose 'time_budget' left no time for it"):
        hasty.feature_importances_  # noqa: B018
    assert hasty.score(*wide()) > 0.5
    patient, told = slow.fit(200.0)
    assert "not enough" not in told
    assert patient.feature_importances_.sum() == pytest.approx(1.0)
    hasty.set_params(time_budget=None, max_iter=2).fit(*wide())
    assert hasty.feature_importances_.sum() == pytest.approx(1.0)


def test_most_of_the_budget_is_used(work):
    NCA(2, alpha=0.0, tol=0.0, max_iter=10**4, sampling="full", time_budget=200.0).fit(*table())
    assert work.seconds > 150.0


def test_a_step_is_cut_off_inside_its_line_search(work):
    """The evaluations of a step are many at first: the rules between steps would be too late."""
    X, y = table()
    model = NCA(2, alpha=0.0, tol=0.0, init=1e-3 * np.eye(2, 4), sampling="full", time_budget=60.0)
    with pytest.warns(ConvergenceWarning, match="60 seconds of 'time_budget' were used up"):
        model.fit(X, y)
    assert work.seconds <= 66.0


def test_compilation_of_the_second_precision_is_foreseen(work, monkeypatch):
    """Code for float64 takes as long to compile as that for float32 did."""
    compiled, precisions = [0.0], set()
    evaluate = Problem.evaluate

    def compiling(problem, theta, batch=None):
        if problem.dtype not in precisions:
            precisions.add(problem.dtype)
            work.seconds += 100.0
            compiled[0] += 100.0
        return evaluate(problem, theta, batch)

    monkeypatch.setattr(Problem, "evaluate", compiling)
    monkeypatch.setattr(_clock, "compiled_seconds", lambda: compiled[0])
    with pytest.warns(ConvergenceWarning, match="time_budget"):
        NCA(2, alpha=0.0, tol=1e-2, sampling="full", time_budget=200.0).fit(*table())
    assert precisions == {np.float32}


def test_the_final_loss_uses_fewer_rows_if_there_is_little_time():
    budget = Budget(10.0, 0.0)
    assert budget.loss_rows(2000) == 2000  # nothing has been measured
    assert budget.correction(1000)[1] == 1000
    budget._finish = budget_of(embed=0.01, query=1e-3)
    assert budget.loss_rows(2000) == 490  # half a second
    evaluations, rows = budget.correction(1000)
    assert evaluations * (0.01 + rows * 1e-3) <= 1.5
    assert 2.0 < budget.reserve(1000, 2000) < 3.0
    assert Budget(None, 0.0).loss_rows(2000) == 2000


def budget_of(**times):
    from vicinal.fit.context import Finish

    return Finish(**times)


def test_a_choice_of_voters_stops_at_the_deadline(monkeypatch):
    X, y = table(640)
    labels = Labels(y, None, classes=np.arange(3))
    whole = VotingModel(X, labels, "auto", k=3)
    seconds = [0.0]
    monkeypatch.setattr(_clock, "now", lambda: seconds[0])
    timed, asked = VotingModel(X, labels, "auto", k=3), []
    search = timed.index.kneighbors

    def slow(queries, *args, **kwargs):
        seconds[0] += 1.0
        asked.append(len(queries))
        return search(queries, *args, **kwargs)

    monkeypatch.setattr(timed.index, "kneighbors", slow)
    timed.choose_voters(deadline=3.0)
    assert asked == [40, 40, 40]
    assert 1 <= timed.n_neighbors <= 50
    whole.choose_voters(None)
    again = VotingModel(X, labels, "auto", k=3)
    again.choose_voters(deadline=np.inf)
    assert whole.n_neighbors == again.n_neighbors  # in chunks or not
