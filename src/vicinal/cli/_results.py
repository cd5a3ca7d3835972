"""Tables that commands write: mapped rows, predictions, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vicinal.cli._console import Console
from vicinal.cli._tables import Table, write_table
from vicinal.cli._work import known_columns, named_columns, spoken_columns


def mapped(model: Any, table: Table, keep: Sequence[str]) -> Any:
    """The rows in the learnt space, as a data frame."""
    with spoken_columns(table):
        return embedded(model, model.transform(known_columns(model, table)), table, keep)


def embedded(model: Any, places: Any, table: Table, keep: Sequence[str]) -> Any:
    """Places of the rows as a data frame, after the columns that are kept."""
    import pandas as pd

    frame = pd.DataFrame(places, columns=_dimensions(model, places.shape[1]))
    return _beside(table, keep, frame)


def _dimensions(model: Any, number: int) -> list[str]:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    names = getattr(last, "get_feature_names_out", None)
    if names is None:
        return [f"dim{j + 1}" for j in range(number)]
    return [str(name) for name in names()]


def predicted(
    model: Any, table: Table, proba: bool, keep: Sequence[str]
) -> tuple[Any, tuple[str, float] | None]:
    """Predictions as a data frame, and their score if the table has the truth."""
    import pandas as pd

    with spoken_columns(table):
        X = known_columns(model, table)
        guesses = model.predict(X)
        frame = pd.DataFrame({"prediction": guesses})
        if proba:
            shares = model.predict_proba(X)
            for name, share in zip(model.classes_, shares.T, strict=True):
                frame[f"p({name})"] = share
    return _beside(table, keep, frame), _score(model, table, guesses)


def _score(model: Any, table: Table, guesses: Any) -> tuple[str, float] | None:
    if table.y is None:
        return None
    if hasattr(model, "classes_"):
        from sklearn.metrics import accuracy_score

        return "accuracy", float(accuracy_score(table.y, guesses))
    from sklearn.metrics import r2_score

    return "r2", float(r2_score(table.y, guesses))


def _beside(table: Table, keep: Sequence[str], frame: Any) -> Any:
    """The kept columns of the table, the label among them, and then the frame."""
    import pandas as pd

    whole = table.X
    if table.label is not None:
        whole = whole.assign(**{str(table.label): table.y})
    kept = named_columns(keep, whole, "--keep")
    return pd.concat([whole[kept].reset_index(drop=True), frame], axis=1)


def write(
    console: Console, frame: Any, output: str, data: str, safe: bool,
    facts: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write a table; with --json, an object about it, which holds the rows if there is no file."""
    told = {"data": data, "n_rows": len(frame), "columns": list(frame.columns), **(facts or {})}
    if console.as_json and output == "-":
        console.result("", {**told, "rows": frame.to_numpy().tolist()})
        return
    write_table(output, frame, safe=safe)
    if output != "-":
        console.result(f"Wrote {len(frame)} rows to {output}.", {**told, "output": output})
