"""Models for runtimes without Python: the extra ``onnx``.

Importing this module registers all estimators with skl2onnx, if that is installed.
"""

from contextlib import suppress as _suppress

from vicinal._public import listing as _listing
from vicinal.onnx.export import feed, register, to_onnx

__all__ = ["feed", "register", "to_onnx"]
__dir__ = _listing(__name__)

with _suppress(ImportError):  # each function says what to install
    register()
