"""``python -m vicinal`` is the command ``vicinal``."""

from vicinal.cli import main

main()
