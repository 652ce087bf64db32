"""Whole jobs in a folder: the commands ``ruge run``, ``ruge demo`` and ``ruge combine``, with their results as values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ruge.errors import RugeError
from ruge.model import Model, load


class Run:
    """The folder of a job, and what came out of it (``json`` is the command's ``--json``)."""

    def __init__(self, found: dict[str, Any], out: str) -> None:
        self.json = found
        self.out = out

    @property
    def report(self) -> str:
        """The path of the report, one HTML page."""
        return os.path.join(self.out, "report.html")

    def model(self, *, evaluated: bool = False) -> Model:
        """The model to deploy, or the one that the figures describe."""
        return load(self.out, evaluated=evaluated)

    def __repr__(self) -> str:
        return f"Run({self.out!r})"


def run(
    data: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    force: bool = False,
    resume: bool = False,
    **settings: Any,
) -> Run:
    """The whole job on a path, as ``ruge run``: mine, train with and without rules, evaluate, explain, report."""
    words = ["run", os.fspath(data), "--out", os.fspath(out), *_flags({"force": force, "resume": resume, **settings})]
    return Run(_command(words), os.fspath(out))


def demo(*, out: str | os.PathLike[str] = "runs/demo", force: bool = False) -> Run:
    """The whole job on the embedded graph."""
    return Run(_command(["demo", "--out", os.fspath(out), *_flags({"force": force})]), os.fspath(out))


def combine(model: str | os.PathLike[str], *, out: str | os.PathLike[str], **settings: Any) -> Model:
    """Adds rules and evidence to a trained model, as ``ruge combine``."""
    _command(["combine", os.fspath(model), "--out", os.fspath(out), *_flags(settings)])
    return load(out)


def _flags(settings: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def _command(words: list[str]) -> dict[str, Any]:
    # A process of its own: stages are kept in the folder, and Ctrl-C reaches it as it reaches this one.
    child = subprocess.Popen(
        [sys.executable, "-m", "ruge", *words, "--json", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        stdout, stderr = child.communicate()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    if child.returncode in (130, 143):
        raise KeyboardInterrupt(stderr.strip())
    if child.returncode != 0:
        message, _, remedy = stderr.strip().removeprefix("error: ").partition("\n  remedy: ")
        raise RugeError(message, remedy=remedy or None)
    found: dict[str, Any] = json.loads(stdout)
    return found
