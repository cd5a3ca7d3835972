"""Model files: one file for a fitted model, without pickle.  See docs/model_files.md."""

from vicinal._public import listing as _listing
from vicinal.storage.container import FileError, read, write
from vicinal.storage.model import describe, load, read_object, save, write_object

__all__ = ["FileError", "describe", "load", "read", "read_object", "save", "write", "write_object"]
__dir__ = _listing(__name__)
