"""What this package offers; the packages behind it are imported when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import ModelProto


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    output: str = "auto",
    zipmap: bool = False,
    target_opset: int | None = None,
) -> ModelProto:
    """A fitted estimator or pipeline as an ONNX model, for runtimes without Python.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of vicinal, or a pipeline of it with steps that skl2onnx knows, such as
        :func:`vicinal.make_learner` makes.
    X : array or data frame, default=None
        A few rows, which tell the types of the inputs.  An array gives one input, named "X"; a data
        frame gives one input of shape (n, 1) for each column, with the name of the column.  Numbers
        are float32 where all of X is, else float64.  None: one input, in the precision that the
        estimator was fitted in; a pipeline that was fitted to a data frame needs X.
    output : {"auto", "transform", "predict"}, default="auto"
        "transform": the embedded rows.  "predict": labels and class probabilities, as "label" and
        "probabilities", or predicted numbers.  "auto": "predict" where the last step can predict
        for single rows.
    zipmap : bool, default=False
        Whether the probabilities are a list of dictionaries by class instead of an array; for
        inputs in float32 only.
    target_opset : int, default=None
        Version of ONNX's operators, at least 19; None: the newest that skl2onnx supports.

    Returns
    -------
    onnx.ModelProto
        Its metadata hold the version of vicinal, the estimator, the classes and the names of the
        features.

    Notes
    -----
    Graphs compute in the precision of their inputs.  In float64 they agree with ``transform``,
    ``predict`` and ``predict_proba`` to about 1e-12 for ordinary data.  In float32 probabilities
    differ by 1e-6 or so, more if the embedded rows are spread widely, and a label may differ where
    two classes are nearly equally likely; rows are centred before anything else, so data far from
    the origin lose nothing more.  Missing values, which estimators refuse, give probabilities of
    NaN, next to a label that means nothing.

    Each row is compared with all stored training rows, one row after the other.  Memory is that of
    a few arrays of the stored rows' size, for any number of rows, and the model has the size of
    these rows; time is proportional to them, without the shortcuts of ``predict``.  Votes are those
    of the same training rows, also where some of them are equal; of different rows at exactly the
    same distance others may be chosen.

    The rule "draw", modules of torch, the pictures of :class:`vicinal.KSNE` without a map, and
    labels and categories that are whole numbers beyond the range of their types in ONNX (int64, and
    the precision of the inputs) are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from onnxruntime import InferenceSession
    >>> from sklearn.datasets import load_iris
    >>> import vicinal
    >>> X, y = load_iris(return_X_y=True)
    >>> model = vicinal.NCA(alpha=1e-3, random_state=0).fit(X, y)
    >>> session = InferenceSession(vicinal.to_onnx(model).SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> bool(np.abs(probabilities - model.predict_proba(X)).max() < 1e-10)
    True
    """
    _need_packages("to_onnx")
    from vicinal.onnx._registry import converted

    return converted(model, X, output, zipmap, target_opset)


def feed(graph: ModelProto, X: Any) -> dict[str, Any]:
    """The inputs of a model from an array or a data frame, as onnxruntime takes them.

    Parameters
    ----------
    graph : onnx.ModelProto
    X : array or data frame
        Rows, with the columns that the model was converted for.

    Returns
    -------
    inputs : dict of ndarrays
        For ``InferenceSession.run``.

    Examples
    --------
    >>> import pandas as pd
    >>> import vicinal
    >>> from vicinal.onnx import feed
    >>> X = pd.DataFrame({"a": [1.0, 2.0, 4.0, 3.0], "b": [0.0, 1.0, 1.0, 0.0]})
    >>> graph = vicinal.to_onnx(vicinal.LFDA().fit(X, [0, 0, 1, 1]), X)
    >>> sorted(feed(graph, X))
    ['a', 'b']
    """
    _need_packages("feed")
    from vicinal.onnx._inputs import values_of

    return values_of(graph, X)


def register() -> None:
    """Register all estimators with skl2onnx; importing ``vicinal.onnx`` does so.

    Most of our estimators are transformers and classifiers at once.  In the middle of a pipeline,
    in a ``FeatureUnion`` or in a ``ColumnTransformer`` they transform; as the last step they
    predict, unless the option ``{"output": "transform"}`` asks for the points.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skl2onnx
    >>> import vicinal.onnx
    >>> from vicinal import LFDA
    >>> X, y = load_iris(return_X_y=True)
    >>> vicinal.onnx.register()
    >>> graph = skl2onnx.to_onnx(make_pipeline(StandardScaler(), LFDA()).fit(X, y), X)
    >>> [output.name for output in graph.graph.output]
    ['variable']
    """
    _need_packages("register")
    from vicinal.onnx._registry import register_all

    register_all()


def _need_packages(owner: str) -> None:
    try:
        import onnx  # noqa: F401
        import skl2onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"vicinal.onnx.{owner} needs onnx and skl2onnx: pip install 'vicinal[onnx]'"
        ) from error
