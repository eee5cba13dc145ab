"""``python -m optimargin`` is the command ``optimargin``."""

from optimargin.cli import main

main()
