"""Every test of an objective runs over both engines."""

from engine_common import engine  # noqa: F401
