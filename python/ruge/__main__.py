"""``python -m ruge`` is the command ``ruge``."""

import sys

from ruge._cli import main

if __name__ == "__main__":
    sys.exit(main())
