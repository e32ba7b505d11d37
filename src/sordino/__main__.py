"""`python -m sordino` is `sordino`."""

from sordino.cli import main

main()
