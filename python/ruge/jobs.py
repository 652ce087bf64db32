"""Whole jobs in a folder: ``ruge run``, ``ruge demo``, ``ruge combine`` and ``ruge search``."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from ruge import _core
from ruge._cuda import preload
from ruge._notebook import Page
from ruge._progress import Progress, callback
from ruge.graph import Graph, called
from ruge.model import Model, load, spec_text
from ruge.results import Row, Table, rows_of
from ruge.rules import Rules


class Run:
    """The folder of a job, and what came out of it. ``json`` is what ``ruge run --json`` prints."""

    def __init__(self, found: Row, out: str) -> None:
        self.json = found
        self.out = out

    @property
    def report(self) -> Page:
        """The path of the report, one HTML page; a notebook shows the page."""
        return Page(os.path.join(self.out, "report.html"))

    @property
    def metrics(self) -> Table:
        """Filtered ranking on the held-out facts: the model without rules, with them, and with rules and evidence when ranking."""
        names = self.json["systems"]
        systems = [(name, self.json[names[name]]) for name in ("unguided", "guided")]
        if self.json["with_rules"]:
            systems.append(("with_rules", self.json["with_rules"]))
        if self.json["rules_only"]:
            systems.append(("rules_only", self.json["rules_only"]))
        rows = [
            {"system": name, "mrr": found["mrr"], **{f"hits{n}": x for n, x in (found.get("hits") or {}).items()}}
            for name, found in systems
        ]
        return Table(rows, ("system", "mrr", "hits1", "hits3", "hits5", "hits10"))

    def model(self, *, evaluated: bool = False, device: str = "cpu") -> Model:
        """The model to deploy, or the one that the figures describe."""
        return load(self.out, evaluated=evaluated, device=device)

    def __repr__(self) -> str:
        lines = [f"Run({self.out!r})"]
        names = {
            "unguided": "the model alone",
            "guided": "guided by rules",
            "with_rules": "and with rules when ranking",
            "rules_only": "the guiding rules alone",
        }
        for row in self.metrics:
            if row.mrr is not None:
                lines.append(f"  {names[row.system]:<28} MRR {row.mrr:.3f}")
        lines.append(f"  report: {self.report}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"{self.metrics._repr_html_()}<p>{Page(self.report)._repr_html_()}</p>"


def run(
    data: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    only: str | None = None,
    from_: str | None = None,
    evaluate_only: bool = False,
    samples: int = 3,
    spec: dict[str, Any] | str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Run:
    """The whole job, as ``ruge run``: mine, train with and without rules, evaluate, train the model to deploy, propose, report.

    ``data`` is a :class:`Graph` or what one is made from. Settings are sized to the data; ``settings`` are the flags of the command,
    with ``_`` for ``-``; ``rules`` may also be :class:`Rules`, which are kept beside the folder. Finished stages are skipped, and an interrupted run continues when it is called again.
    """
    graph = data if isinstance(data, Graph) else Graph(data, seed=settings.get("seed") or 0)
    if out is None:
        name = os.path.basename(os.path.normpath(called(data))) if isinstance(data, (str, os.PathLike)) else "graph"
        out = os.path.join("runs", name.split(".")[0] or "data")
    preload(settings.get("device"))
    rules = settings.get("rules")
    if isinstance(rules, Rules):
        # Beside the folder, under a name that is the same when the run is continued.
        settings["rules"] = f"{os.fspath(out)}.rules.tsv"
        rules.write(settings["rules"], force=True)
    elif rules is not None:
        settings["rules"] = os.fspath(rules)
    with callback(progress) as hear:
        found = _core.run(
            graph._core,
            called(graph),
            json.dumps(settings),
            spec_text(spec),
            os.fspath(out),
            force,
            resume,
            (only, from_),
            evaluate_only,
            samples,
            checkpoint_every,
            threads,
            hear,
        )
    return Run(rows_of(found), os.fspath(out))


def demo(*, out: str | os.PathLike[str] = "runs/demo", force: bool = False, progress: Progress = None) -> Run:
    """The whole job on the embedded graph of world geography, in about a minute."""
    return run("demo", out=out, force=force, progress=progress)


def combine(
    model: Model | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    ranking_rules: str | os.PathLike[str] = "auto",
    rules: Rules | str | os.PathLike[str] | None = None,
    evidence: str | None = None,
    thorough: bool = False,
    force: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress = None,
) -> Model:
    """Adds rules and evidence to a trained model, as ``ruge combine``. Without ``out`` nothing is kept but the model returned."""
    base = model if isinstance(model, Model) else load(model, device=device)
    given = rules._core if isinstance(rules, Rules) else None
    wanted = os.fspath(ranking_rules if rules is None or isinstance(rules, Rules) else rules)
    with tempfile.TemporaryDirectory(prefix="ruge-") as place, callback(progress) as hear:
        folder = os.path.join(place, "combined") if out is None else os.fspath(out)
        made = _core.combine(base._core, wanted, given, evidence, thorough, folder, force, threads, hear)
    return Model(made)


class Search:
    """What a search found: the best settings, and every trial. ``json`` is what ``ruge search --json`` prints."""

    def __init__(self, found: Row, out: str) -> None:
        self.json = found
        self.out = out
        self.done: bool = found["done"]
        self.best: Row | None = found["best"]
        #: The best settings as TOML, for ``ruge.train(..., spec=search.best_spec_file)``.
        self.best_spec: str | None = found["best_spec"]
        self.best_spec_file: str | None = found["best_spec_file"]
        self.importance: Row = found["importance"]
        leaves = sorted({leaf for trial in found["trials"] for leaf in trial["leaves"]})
        rows = [{**trial, **trial["leaves"]} for trial in found["trials"]]
        self.trials = Table(rows, ("trial", "state", "valid_mrr", "best_epoch", "epochs", *leaves, "seconds", "error"))

    @property
    def report(self) -> Page:
        """The path of the report, one HTML page; a notebook shows the page."""
        return Page(os.path.join(self.out, "report.html"))

    def model(self) -> Model:
        """The best trial's model."""
        return load(self.json["run"])

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best MRR {self.best['valid_mrr']:.4f} (trial {self.best['trial']})"
        return f"Search({len(self.trials)} trials{best}, {self.out!r})"

    def _repr_html_(self) -> str:
        return self.trials._repr_html_()


def search(
    data: Any,
    *,
    spec: dict[str, Any] | str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    trials: int | None = None,
    minutes: float | None = None,
    device: str | None = None,
    seed: int | None = None,
    checkpoint_every: float = 30,
    threads: int | None = None,
    progress: Progress = None,
) -> Search:
    """Searches for the settings that are best on validation, as ``ruge search``. ``spec`` is the space: a dict, or a TOML file."""
    graph = data if isinstance(data, Graph) else Graph(data, seed=seed or 0)
    folder = os.fspath(out) if out is not None else os.path.join("runs", f"search-{os.path.basename(called(graph))}")
    preload(device)
    with callback(progress) as hear:
        found = _core.search(
            graph._core,
            called(graph),
            spec_text(spec),
            folder,
            force,
            resume,
            trials,
            minutes,
            device,
            seed,
            checkpoint_every,
            threads,
            hear,
        )
    return Search(rows_of(found), folder)
