"""The command ``ruge``, as the wheel installs it."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Does what the command line asks for."""
    # The command listens for signals itself; Python's own handler would never run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ruge import _core
    from ruge.errors import RugeError

    try:
        return _core.main(["ruge", *sys.argv[1:]])
    except RugeError as error:
        # The command says itself what went wrong; this is a panic.
        print(f"ruge: {error}", file=sys.stderr)
        return 101
