"""`python -m inweights`."""

from inweights.cli import main

main()
