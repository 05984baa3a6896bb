"""``python -m taskdict``: the command line."""

import sys

from taskdict.cli import main

if __name__ == "__main__":
    sys.exit(main())
