"""Every test of an objective runs over both engines."""

from common.engines import engine  # noqa: F401
