"""t-SNE, kt-SNE and kSNE: pictures of unlabelled data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import capped, single_threaded_blas
from vicinal._validation import check_rows, shaped
from vicinal.affinities.build import check_table
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.stages import FitResult
from vicinal.core.training import train
from vicinal.core.types import Array, Auto, File, Map, MapName, MatrixLike, Seed, Solver, SolverName
from vicinal.fit.cost import Cost, check_cost, embedding_cost, plan_in_words
from vicinal.fit.embedding import (
    Fit,
    check_init,
    check_mapping,
    check_parameters,
    first_theta,
    fit_to_continue,
    given_metric,
    iterations_left,
    learnt_attributes,
    prepare,
    short_indices,
    state_before,
    warn_if_cut,
)
from vicinal.fit.report import (
    CallbackSupportMixin,
    IterationReport,
    IterationReporter,
    Reports,
    callbacks_of,
    with_callbacks,
)
from vicinal.fit.resume import (
    STOPPED,
    ResumeState,
    past_fit,
    seed_of,
    take_over,
    unchanged_on_error,
)
from vicinal.models.picture import Picture
from vicinal.storage.model import SaveMixin


class KSNE(
    SaveMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    r"""t-SNE, kt-SNE and kSNE: pictures of unlabelled data that place new rows.

    Each row chooses a set of k other rows: set s with a probability proportional to
    :math:`\prod_{j \in s} w_{ij}`, in the data with Gaussian weights of the perplexity asked for,
    in the picture with :math:`w_{ij} = 1 / (1 + \|z_i - z_j\|^2)` (kt-SNE) or
    :math:`\exp(-\|z_i - z_j\|^2)` (kSNE).  The rows are placed so that they choose the same sets:
    what is minimised is the mean over the rows of the divergence of the two distributions of sets
    [Tarlow2013]_,

    .. math:: \sum_j p^k_{ij} \delta_{ij} + \log e_k(w_i) - H_i,
              \qquad \delta_{ij} = -\log w_{ij}.

    ``KSNE(k=1)`` is t-SNE [vanDerMaaten2008]_, and with ``kernel="gaussian"`` SNE; only each row is
    normalised by itself.  Labels are never needed.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the picture.
    k : int, default=1
        Size of the neighbourhoods; 1 is t-SNE.  A larger k is for rows whose nearest one tells
        little, such as repeated measurements.  Of n rows, k is at most n - 2 (with a warning).
    kernel : {"cauchy", "gaussian"}, default="cauchy"
        kt-SNE or kSNE.
    perplexity : float, default=30.0
        How many rows a row chooses among if it chooses one: the width of the Gaussian weights.  At
        most a third of the other rows (with a warning).
    kappa : float, default=0.0
        Constant that is added to all weights in the picture (Uni-SNE).
    metric : str or callable, default="euclidean"
        Any metric of :func:`sklearn.metrics.pairwise_distances`.  "precomputed": X holds distances,
        dense, or sparse if only those of neighbours are known.  "precomputed_affinities": X holds
        the weights :math:`w_{ij}` of the data, and ``perplexity`` is not used.
    metric_params : dict, default=None
        Further arguments of the metric.
    max_missing : float, default=0.05
        Largest share of the marginals :math:`p^k` that lists of neighbours may leave out, in
        [0, 0.5].  Up to 500 rows nothing is left out.
    mapping : {"points", "linear", "diagonal", "periodic"} or map, default="points"
        "points" places each row freely; `transform` places further rows one by one.  A map, such as
        "linear" or a network, embeds all rows by one function, which is `transform` then.
    init : {"auto", "pca", "spectral", "random"} or array, default="auto"
        The start: principal components, eigenvectors of the graph of the marginals, random places,
        or an array of shape (n_samples, n_components).  Of all but the last the standard deviation
        of the first column is 1e-4.  "auto" is "pca", or "spectral" if X holds distances or
        weights.  For a map: its first matrix, of shape (n_components, n_features), by "pca",
        "random", or given.
    early_exaggeration : float or "auto", default="auto"
        Factor of the attraction during the first iterations.  "auto": 12 for free points; 1, for
        none, if a map is learnt.
    early_exaggeration_iter : int, default=250
        Number of those iterations.  They end sooner if they shrink the picture to a thousandth of
        its start, as happens with few rows or a large k: they would only forget the start.
    exaggeration : float, default=1.0
        Factor of the attraction afterwards.
    max_iter : int, default=750
        Largest number of iterations, those with early exaggeration included.
    learning_rate : float or "auto", default="auto"
        Rate of both stages.  "auto": ``n_samples / (4 * k * exaggeration)``, with the exaggeration
        of the stage.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum", "adam", \
            "sgd"} or part, default="auto"
        "auto": momentum of 0.8 with gains, as in t-SNE; if a map is learnt, L-BFGS, or Adam where
        sums are interpolated.  See :mod:`vicinal.solvers`.
    n_iter_without_progress : int, default=300
        Stop after this many iterations without a lower loss.
    min_grad_norm : float, default=1e-7
        Stop when the norm of the gradient is smaller.
    method : {"auto", "exact", "fft"}, default="auto"
        How the repulsion is summed.  "fft" interpolates on a grid: for the Cauchy kernel without
        ``kappa``, in one or two dimensions.  "auto" does so for more than 1,750 rows, and refuses
        exact sums that would take longer than ten seconds of one core; "exact" accepts them.
    warm_start : bool, default=False
        If the last fit was of the same rows and parameters, go on from its end: complete it if it
        was interrupted, else make ``max_iter`` more iterations.
    n_jobs : int or None, default=None
        Largest number of threads of a fit, and of `transform`; None and -1: all cores.  The result
        is the same for any number.
    device : {None, "cpu", "cuda", "cuda:N"}, default=None
        Where the forces of a fit are summed.  None and "cpu" are the CPU.  On a GPU, all pairs are
        compared; repulsion is summed in float32, or with method="exact" in float64.  Affinities,
        the start and new rows are computed on the CPU in any case.  docs/howto/gpu.md says what
        runs on a GPU.
    random_state : int, RandomState or None, default=None
        Draws the start if it is random, and noise in that of "spectral".
    verbose : int, default=0
        1 prints what is planned, what it costs, and each iteration.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The places of the training rows.  Callbacks find the present places here during the fit.
    kl_divergence_ : float
        The divergence, without exaggeration.
    components_ : ndarray of shape (n_components, n_features)
        The matrix of a linear map; there is none for free points.
    affinities_ : Affinities
        The marginals of the data: ``affinities_.matrix`` is sparse, ``affinities_.missing`` is the
        share that was left out, as measured.
    k_, perplexity_ : int, float
        As used.
    learning_rate_ : float, schedule or None
        The rate of the last stage; None if the solver finds its own.
    n_iter_ : int
        Number of iterations.
    history_ : dict of lists
        For each iteration: ``loss`` (with its exaggeration), ``grad_norm``, ``seconds``, and
        ``chain_rows``, the number of rows whose sums could not be interpolated.
    n_components_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had string names.

    Notes
    -----
    The same rows, parameters and seed give the same bits, for any number of threads, on one family
    of processors.  On another one the last digits of sums differ, and the picture with them: expect
    its trustworthiness within 0.005 and its divergence within some per cent.

    Memory grows with ``n_samples`` times the length of the lists (a hundred neighbours), besides
    a grid of the size of the picture; `estimate_cost` states it.  Free points keep a reference to
    the training rows, which `transform` compares new rows with, also in a pickle.

    See also `docs/theory/ksne.md`.

    References
    ----------
    .. [Tarlow2013] D. Tarlow, K. Swersky, L. Charlin, I. Sutskever, R. Zemel, "Stochastic k-
       Neighborhood Selection for Supervised and Unsupervised Learning", ICML 2013.
    .. [vanDerMaaten2008] L. van der Maaten, G. Hinton, "Visualizing Data using t-SNE", JMLR 9,
       2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import KSNE
    >>> X = load_iris().data
    >>> model = KSNE(k=3, perplexity=20, max_iter=60).fit(X[::2])
    >>> model.embedding_.shape
    (75, 2)
    >>> model.transform(X[1::2]).shape
    (75, 2)
    """

    _resume: ResumeState | None = None
    _map: Any = None
    _picture: Picture | None = None

    def __init__(
        self,
        n_components: int = 2,
        k: int = 1,
        *,
        kernel: Literal["cauchy", "gaussian"] = "cauchy",
        perplexity: float = 30.0,
        kappa: float = 0.0,
        metric: str | Callable[..., float] = "euclidean",
        metric_params: dict[str, Any] | None = None,
        max_missing: float = 0.05,
        mapping: MapName | Literal["points"] | Map = "points",
        init: str | ArrayLike = "auto",
        early_exaggeration: float | Auto = "auto",
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        max_iter: int = 750,
        learning_rate: float | Auto = "auto",
        solver: SolverName | Solver = "auto",
        n_iter_without_progress: int = 300,
        min_grad_norm: float = 1e-7,
        method: Literal["auto", "exact", "fft"] = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.kernel = kernel
        self.perplexity = perplexity
        self.kappa = kappa
        self.metric = metric
        self.metric_params = metric_params
        self.max_missing = max_missing
        self.mapping = mapping
        self.init = init
        self.early_exaggeration = early_exaggeration
        self.early_exaggeration_iter = early_exaggeration_iter
        self.exaggeration = exaggeration
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.solver = solver
        self.n_iter_without_progress = n_iter_without_progress
        self.min_grad_norm = min_grad_norm
        self.method = method
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, *, resume_from: File | None = None
    ) -> Self:
        """Embed the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; or, of shape (n_samples, n_samples), distances or weights: see ``metric``.
        y : object, default=None
            Ignored: labels are never needed.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose`` and ``n_jobs`` may differ.

        Returns
        -------
        self : KSNE
        """
        return self._fit(X, resume_from)

    def fit_transform(
        self, X: MatrixLike, y: ArrayLike | None = None, *, resume_from: File | None = None
    ) -> Array:
        """Embed the rows of X and return their places.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As in `fit`.
        y : object, default=None
            Ignored.
        resume_from : path, default=None
            As in `fit`.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, resume_from=resume_from).embedding_

    def transform(self, X: MatrixLike) -> Array:
        """Place rows in the finished picture, each by itself.

        A row that is equal to a training row gets its place (that of the first, if several are
        equal).  Any other row minimises its own loss over the training rows, which stay where they
        are; its place does not depend on the other rows of X.  If a map was learnt, it is applied.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; or, of shape (n_samples, n_training_samples), their distances to the training
            rows, or weights: see ``metric``.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "embedding_")
        X = short_indices(check_rows(self, X, reset=False))
        with single_threaded_blas(), capped(self.n_jobs):
            return self._map.transform(X) if self._picture is None else self._picture.places(X)

    def estimate_cost(self, X: MatrixLike) -> Cost:
        """Memory and time of a fit on this data, before it is begun.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``, of which
            each iteration needs one.
        """
        check_parameters(self)
        return embedding_cost(self, shaped(X))

    @unchanged_on_error
    def _fit(self, X: MatrixLike, resume_from: File | None) -> Self:
        """Validate, affinities, start, stages, train, store."""
        given, resumes = X, resume_from is not None
        check_parameters(self)
        if resumes:
            take_over(self, resume_from)
        X = short_indices(check_rows(self, X, ensure_min_samples=2))
        X = check_table(X, self.metric)
        init, mapping = check_init(self, X), check_mapping(self, X)
        check_cost(self, X.shape[0])
        past = past_fit(self, resumes)
        seed = seed_of(self) if past is None else past.seed
        leaves = state_before(self, X, seed, resumes)
        past = fit_to_continue(self, leaves, resume_from)
        reports = Reports(type(self).__name__, self.verbose)
        reports.say(plan_in_words(self, X, given))
        with single_threaded_blas(), capped(self.n_jobs), reports.watching_compilation():
            reports.report = IterationReporter(
                self,
                given,
                max_iter=self.max_iter,
                reconstruction_attributes=lambda report: self._attributes(fit, leaves, report),
            )
            if resumes and past is not None and not past.cut:  # nothing is left to do
                return self._close(reports, "finished")
            reports.doing("computing the affinities")
            reports.say("computing the affinities")
            fit, theta = prepare(self, X, mapping), None
            n_iter = iterations_left(past, self.max_iter)
            if past is None:
                reports.doing("preparing the start")
                rng = rng_for(seed, "start")
                theta = first_theta(fit.problem, init, X, self.n_components, rng)
            result = train(
                fit.stages,
                theta,
                None if past is None else past.state,
                max_iter=n_iter,
                on_iteration=self._on_iteration(reports),
                completes=past is not None and past.cut,
            )
            if resumes:
                result.n_iter += self.max_iter - n_iter
            self._store(fit, leaves, result)
        self._close(reports, result.reason)
        warn_if_cut(self, result)
        return self

    def _close(self, reports: Reports, reason: str) -> Self:
        """Report the end of the fit; what callbacks have saved is kept for ``warm_start`` alone."""
        reports.close(reason)
        self._resume = self._resume if self.warm_start else None
        return self

    def _on_iteration(self, reports: Reports) -> Callable[..., bool]:
        """Reports each iteration; callbacks find the picture at hand in ``embedding_``."""
        report = reports.on_iteration()
        watched = bool(callbacks_of(self))

        def on_iteration(info: Iteration, problem: Problem, snapshot: object) -> bool:
            if watched:
                self.embedding_ = problem.embed(info.theta)
            return report(info, problem, snapshot)

        return on_iteration

    def _store(self, fit: Fit, leaves: ResumeState | None, result: FitResult) -> None:
        """Set the fitted attributes."""
        self.history_, self.n_iter_ = result.history, max(1, result.n_iter)
        self.__dict__.pop("components_", None)
        self.__dict__.update(
            learnt_attributes(self, fit, result.theta, result.problem, result.value)
        )
        self._resume = None
        if leaves is not None:
            self._resume = leaves._replace(state=result.state, cut=result.reason in STOPPED)

    def _attributes(
        self, fit: Fit, leaves: ResumeState | None, report: IterationReport
    ) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        assert report.snapshot is not None
        best = report.snapshot.best()
        attributes = learnt_attributes(self, fit, best.theta, report.problem, best.value)
        attributes["n_iter_"] = max(1, report.info.iteration)
        named = ("n_features_in_", "feature_names_in_")
        attributes |= {name: value for name, value in vars(self).items() if name in named}
        if leaves is not None:
            attributes["_resume"] = leaves._replace(state=report.snapshot.state(), cut=True)
        return attributes

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = given_metric(self.metric)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
