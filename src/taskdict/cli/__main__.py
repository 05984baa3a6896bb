"""``python -m taskdict.cli``."""

import sys

from taskdict.cli import main

sys.exit(main())
