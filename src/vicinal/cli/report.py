"""``vicinal report``: a page to explore and to show to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._command import option
from vicinal.cli._console import Console

__all__ = ["command"]

EXAMPLES = """
vicinal report data.csv --label species -o report.html
vicinal report data.csv --label species --model model.vic -o report.html
vicinal report train.csv --label digit --images 8x8 --title "Digits" -o digits.html
"""
