"""`python -m inweights`, and the command `inweights`: nothing is imported before Ctrl-C is looked after."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line; also an interrupt while it is being imported ends with one line."""
    try:
        from inweights.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
