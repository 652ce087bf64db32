"""Progress: a bar where somebody looks, a callback where a program asks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: Called with stage, done, total and a note. A bool turns the bar of tqdm on or off.
Hear = Callable[[str, int, int, str], object]
Progress = bool | Hear | None


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
        from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise ImportError("a progress bar needs tqdm; install it, as with `pip install ruge[progress]`") from None
        yield None
        return
    bar: Any = tqdm(leave=False)

    def hear(stage: str, done: int, total: int, note: str) -> None:
        bar.set_description(f"{stage} {note}".strip(), refresh=False)
        bar.total = total or None
        bar.n = done
        bar.refresh()

    try:
        yield hear
    finally:
        bar.close()
