"""Pages that show what was learnt: self-contained HTML, to be explored in a browser."""

from vicinal._public import listing as _listing
from vicinal.reporting.contents import Contents
from vicinal.reporting.make import Report, report
from vicinal.reporting.recording import Recorder

__all__ = ["Contents", "Recorder", "Report", "report"]
__dir__ = _listing(__name__)
