"""Matplotlib, imported when a figure is made, and the colours."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "pyplot"]

# Okabe and Ito's palette for colour-blind readers, with its yellow darkened for a white page, and
# two more colours because ten classes are common.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#BFAE00",
            "#6A3D9A", "#999999")  # fmt: skip


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "vicinal.plotting needs the package matplotlib: pip install matplotlib"
        ) from error
    return plt
