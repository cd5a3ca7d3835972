"""The command ``vicinal``: what the library does, for tables in files.

Only click is imported until a command runs, so that help and shell completion are quick.
"""

from vicinal._public import listing as _listing

__all__ = ["main"]
__dir__ = _listing(__name__)


def main() -> None:
    """Run the command line, and exit with a code that says how it went."""
    try:
        import click  # noqa: F401
    except ImportError:
        raise SystemExit(
            "The command vicinal needs more packages: pip install 'vicinal[cli]'"
        ) from None
    from vicinal.cli._group import vicinal

    vicinal.main(prog_name="vicinal")
