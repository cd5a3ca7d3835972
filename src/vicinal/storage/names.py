"""Names of the classes that a file may hold.

A name never changes, so that old files can be read; where the class lives may change.  Nothing is
imported until a class is needed.
"""

from __future__ import annotations

from importlib import import_module


def _listed(prefix: str, module: str, classes: str) -> dict[str, str]:
    return {f"{prefix}{name}": f"vicinal.{module}:{name}" for name in classes.split()}


#: stable name -> "module:class"
HOMES: dict[str, str] = {
    # estimators
    **_listed("", "estimators.nca", "NCA"),
    **_listed("", "estimators.knca", "KNCA"),
    **_listed("", "estimators.lmnn", "LMNN"),
    **_listed("", "estimators.chi2_lmnn", "Chi2LMNN"),
    **_listed("", "estimators.mcml", "MCML"),
    **_listed("", "estimators.mlkr", "MLKR"),
    **_listed("", "estimators.nca_regressor", "NCARegressor"),
    **_listed("", "estimators.pair_nca", "PairNCA"),
    **_listed("", "estimators.ksne", "KSNE"),
    **_listed("", "estimators.lfda", "LFDA"),
    **_listed("", "estimators.covariance", "Covariance RCA"),
    **_listed("", "estimators.itml", "ITML"),
    **_listed("", "estimators.mmc", "MMC"),
    **_listed("", "estimators.sdml", "SDML"),
    **_listed("", "estimators.lsml", "LSML"),
    **_listed("", "estimators.from_labels", "FromLabels"),
    **_listed("", "estimators.vote", "MetricVote MetricVoteRegressor"),
    **_listed(
        "metric_learn.", "compat._row_learners", "NCA LMNN MLKR LFDA RCA RCA_Supervised Covariance"
    ),
    **_listed(
        "metric_learn.", "compat._tuple_learners",
        "ITML MMC SDML LSML ITML_Supervised MMC_Supervised SDML_Supervised LSML_Supervised",
    ),
    # what an estimator is told to use
    **_listed("solver.", "solvers.descent", "BoldDriver SGD Momentum Adam"),
    **_listed("solver.", "solvers.quasi_newton", "LBFGS ConjugateGradient"),
    **_listed("solver.", "solvers.projected", "ProjectedGradient"),
    **_listed("schedule.", "solvers.schedules", "Constant InverseTime Cosine"),
    **_listed("sampler.", "samplers.parts", "Full Subsample MiniBatches StochasticQueries"),
    **_listed("neighborhood.", "neighborhoods.parts", "Nearest RandomPairs Tree"),
    **_listed("kernel.", "densities", "Gaussian Student Laplace Compact"),
    **_listed(
        "start.", "starts.starts", "Identity Random PCA Whiten LDA RCA Auto Given"
    ),
    **_listed("start.", "starts.bins", "BinIdentity RandomBins BinGroups AutoBins"),
    **_listed("start.", "starts.annealing", "Annealing"),
    **_listed("map.", "maps.linear", "Linear Diagonal Simplex Points"),
    **_listed("map.", "maps.periodic", "Periodic"),
    **_listed("map.", "maps.mlp", "MLP"),
    **_listed("map.", "maps.bins", "Bins"),
    **_listed("map.", "torch.maps", "TorchMap"),
    # what was learnt
    **_listed("fitted.", "maps.fitted", "FittedLinear FittedMap FittedMaps"),
    **_listed("rows.", "_features", "Features Limits Bend"),
    **_listed("rows.", "fit.method", "RowNumbers"),
    **_listed("rows.", "estimators._regressor", "Outputs"),
    **_listed("rows.", "models.equal_rows", "EqualRows"),
    **_listed("target.", "targets.labels", "Labels"),
    **_listed("target.", "targets.matches", "Matches"),
    **_listed("target.", "targets.numbers", "Numbers NearNumbers LabelDistributions"),
    **_listed("target.", "targets.affinities", "Affinities"),
    **_listed("model.", "models.posterior", "NCAModel KNCAModel"),
    **_listed("model.", "models.soft", "DistributionModel MatchModel PartnerModel"),
    **_listed("model.", "models.votes", "VotingModel Chi2VotingModel"),
    **_listed("model.", "models.regression", "RegressionModel"),
    **_listed("model.", "models.stored", "Elsewhere"),
    **_listed("model.", "models.vote", "VoteModel VoteRegressionModel Ballots"),
    **_listed("model.", "models.picture", "Picture Target"),
    # how it was learnt, and where a fit stands
    **_listed("fit.", "fit.plan", "Plan"),
    **_listed("fit.", "fit.cost", "Cost"),
    **_listed("fit.", "fit.search", "Choice"),
    **_listed("fit.", "fit.trials", "Trial"),
    **_listed("fit.", "fit.resume", "ResumeState"),
    **_listed("fit.", "fit.context", "EndedRun BestRun"),
    **_listed("fit.", "fit.stream", "Stream Reservoir"),
    **_listed("fit.", "core.problem", "Problem"),
    **_listed("fit.", "core.state", "Best FitState Round Window"),
    **_listed("fit.", "core.types", "Sampling"),
    **_listed("state.", "solvers.descent", "BoldDriverState SGDState MomentumState AdamState"),
    **_listed("state.", "solvers.quasi_newton", "LBFGSState CGState"),
    **_listed("state.", "solvers.projected", "ProjectedGradientState"),
    **_listed("loss.", "objectives.nca", "NCALoss"),
    **_listed("loss.", "objectives.knca", "KNCALoss"),
}  # fmt: skip

_BY_HOME = {home: name for name, home in HOMES.items()}
#: the pipeline of `make_learner`, and what it puts before an estimator besides steps of
#: scikit-learn; types of numbers
_BESIDES = [
    "numpy.dtype",
    "vicinal.learner.dates.DateColumns",
    "vicinal.learner.pipeline.Learner",
    "vicinal.learner.preparation.Preparation",
    "vicinal.learner.text.TextColumns",
    "vicinal.learner.values.ColumnValues",
]
#: types that a fitted estimator may hold, for ``skops.io.load(file, trusted=...)``; none of them
#: runs code from a file.  Modules of torch are code: their owner alone can trust a file with one.
TRUSTED_TYPES: list[str] = sorted(
    [home.replace(":", ".") for name, home in HOMES.items() if name != "map.TorchMap"] + _BESIDES
)


def name_of(kind: type) -> str | None:
    """The stable name of a class, None if a file may not hold it."""
    return _BY_HOME.get(f"{kind.__module__}:{kind.__qualname__}")


def class_of(name: str) -> type:
    """The class with a stable name."""
    home = HOMES.get(name) if isinstance(name, str) else None
    if home is None:
        raise ValueError(f"{str(name)[:60]!r} is not a class that a model file may hold")
    module, _, qualname = home.partition(":")
    return getattr(import_module(module), qualname)
