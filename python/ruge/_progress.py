"""Progress: a bar where somebody looks, a callback where a program asks."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ruge.errors import MissingPackage

#: Called with stage, done, total and a note. A bool turns the bar of tqdm on or off.
Hear = Callable[[str, int, int, str], object]
Progress = bool | Hear | None

#: Seconds before a bar is shown: what is done by then needs none.
SHORT = 0.5


@contextlib.contextmanager
def callback(progress: Progress) -> Iterator[Hear | None]:
    """The function that hears of progress, or nothing."""
    if callable(progress):
        yield progress
        return
    looks = hasattr(sys, "ps1") or (sys.stderr is not None and sys.stderr.isatty())
    if progress is False or (progress is None and not looks):
        yield None
        return
    try:
        with warnings.catch_warnings():
            # Without ipywidgets a notebook gets the bar of a terminal, which does as well.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise MissingPackage(
                "a progress bar needs tqdm, which is not installed",
                remedy="install it, as with `pip install ruge[progress]`, or give progress=False or a function",
            ) from None
        yield None
        return
    bar: Any = tqdm(leave=False, delay=SHORT)
    shown_from = time.monotonic() + SHORT

    def hear(stage: str, done: int, total: int, note: str) -> None:
        bar.set_description(f"{stage} {note}".strip(), refresh=False)
        bar.total = total or None
        bar.n = done
        if time.monotonic() >= shown_from:
            bar.refresh()

    try:
        yield hear
    finally:
        bar.close()
