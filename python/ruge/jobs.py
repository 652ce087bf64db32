"""Whole jobs in a folder: ``ruge run``, ``ruge demo``, ``ruge combine`` and ``ruge search``."""

from __future__ import annotations

import os
import tempfile
from typing import Any, overload

from ruge import _checks, _core
from ruge._cuda import preload
from ruge._notebook import Page
from ruge._progress import Progress, callback
from ruge.errors import RugeError
from ruge.graph import called, of_data
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


class Seeds:
    """The same run with several seeds. ``json`` is what ``ruge run --seeds --json`` prints.

    ``runs`` are the runs, one a seed. ``metrics`` has the mean and the deviation of each system, ``gain`` by how much the best system
    is better than the one without rules: ``mean``, ``deviation``, and ``p`` of a paired t-test, None where none is possible.
    """

    def __init__(self, found: Row, runs: list[Run], out: str) -> None:
        self.json = found
        self.out = out
        self.seeds: list[int] = found["seeds"]
        self.runs = runs
        self.gain = Row(mean=found["gain"]["mrr"]["mean"], deviation=found["gain"]["mrr"]["deviation"], p=found["gain"]["p"])
        rows = []
        roles = found["systems"]
        keys = {"unguided": roles["unguided"], "guided": roles["guided"], "rules_only": "rules_only"}
        # Where no seed ranks with rules, the best is one of the two above.
        if roles["best"] not in keys.values():
            keys["best"] = roles["best"]
        for name in ("unguided", "guided", "best", "rules_only"):
            if keys.get(name) in found:
                mrr = found[keys[name]]["mrr"]
                rows.append({"system": name, "mrr": mrr["mean"], "deviation": mrr["deviation"], "values": mrr["values"]})
        self.metrics = Table(rows, ("system", "mrr", "deviation", "values"))

    def __repr__(self) -> str:
        lines = [f"Seeds({self.out!r}, {len(self.seeds)} seeds)"]
        lines += [f"  {row.system:<28} MRR {row.mrr:.3f} ± {row.deviation:.3f}" for row in self.metrics]
        p = "" if self.gain.p is None else f", p = {self.gain.p:.3g}"
        return "\n".join([*lines, f"  rules change MRR by {self.gain.mean:.3f} ± {self.gain.deviation:.3f}{p}"])

    def _repr_html_(self) -> str:
        return self.metrics._repr_html_()


@overload
def run(data: Any, *, seeds: None = None, **options: Any) -> Run: ...


@overload
def run(data: Any, *, seeds: int, **options: Any) -> Seeds: ...


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
    minutes: float | None = None,
    seeds: int | None = None,
    completeness: float | str | os.PathLike[str] | None = None,
    feedback: str | os.PathLike[str] | None = None,
    constraints: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Run | Seeds:
    """The whole job, as ``ruge run``: mine, train with and without rules, evaluate, train the model to deploy, propose, report.

    ``data`` is a :class:`Graph` or what one is made from. Settings are sized to the data; ``settings`` are the flags of the command,
    with ``_`` for ``-``; ``rules`` may also be :class:`Rules`, which are kept beside the folder. Finished stages are skipped, and an
    interrupted run continues when it is called again. ``minutes`` makes epochs, and if need be the dimension, fit into that time.
    ``seeds`` repeats the run with so many seeds, each in a folder of its own, and the result compares them. ``completeness`` (a share,
    or a file of relations and shares), ``feedback`` and ``constraints`` (files) tell truth what you know; nothing is trained for them.
    """
    share = completeness if completeness is None or isinstance(completeness, (str, os.PathLike)) else str(
        _checks.number("completeness", completeness, 0, 1)
    )
    told = tuple(
        None if given is None else _checks.path(name, given)
        for name, given in (("completeness", share), ("feedback", feedback), ("constraints", constraints))
    )
    workers, every = _checks.threads(threads), _checks.seconds("checkpoint_every", checkpoint_every)
    count = None if seeds is None else _checks.whole("seeds", seeds, 2, 1000)
    stages = tuple(None if stage is None else _checks.word("a stage", stage) for stage in (only, from_))
    text = spec_text(spec)
    graph = of_data(data, settings.get("seed"))
    if out is None:
        name = os.path.basename(os.path.normpath(called(data))) if isinstance(data, (str, os.PathLike)) else "graph"
        out = os.path.join("runs", name.split(".")[0] or "data")
    folder = _checks.path("out", out)
    preload(settings.get("device"))
    rules = settings.get("rules")
    if isinstance(rules, Rules):
        # Beside the folder, under a name that is the same when the run is continued.
        settings["rules"] = f"{folder}.rules.tsv"
    elif rules is not None:
        settings["rules"] = _checks.path("rules", rules)
    keywords = _checks.settings(settings)
    if isinstance(rules, Rules):
        os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
        rules.write(settings["rules"], force=True)
    with callback(progress) as hear:
        found = rows_of(
            _core.run(
                graph._core,
                called(graph),
                keywords,
                text,
                folder,
                bool(force),
                bool(resume),
                (stages[0], stages[1]),
                bool(evaluate_only),
                _checks.whole("samples", samples),
                every,
                _checks.minutes(minutes),
                count,
                (told[0], told[1], told[2]),
                workers,
                hear,
            )
        )
    if count is None:
        return Run(found, folder)
    return Seeds(found, [Run(one, one["out"]) for one in found["found"]], folder)


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
    effort: tuple[int, int] | None = None,
    minutes: float | None = None,
    force: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress = None,
) -> Model:
    """Adds rules and evidence to a trained model, as ``ruge combine``. Without ``out`` nothing is kept but the model returned. Rules
    that are not ready after ``minutes`` are given up, and evidence alone is tried. ``effort`` is how many questions weights are learned
    from, and how many validation triples the rest is fitted on."""
    base = model if isinstance(model, Model) else load(model, device=device)
    given = rules._core if isinstance(rules, Rules) else None
    wanted = _checks.path("ranking_rules", ranking_rules if rules is None or isinstance(rules, Rules) else rules)
    limit, workers = _checks.minutes(minutes), _checks.threads(threads)
    which = None if evidence is None else _checks.word("evidence", evidence)
    if effort is not None and (thorough or len(effort) != 2):
        raise RugeError("effort is two numbers, and stands for itself", remedy="give effort=(60_000, 10_000), or thorough=True")
    asked = None if effort is None else (_checks.whole("effort", effort[0], 0), _checks.whole("effort", effort[1], 1))
    with tempfile.TemporaryDirectory(prefix="ruge-") as place, callback(progress) as hear:
        folder = os.path.join(place, "combined") if out is None else _checks.path("out", out)
        made = _core.combine(base._core, wanted, given, which, bool(thorough), asked, limit, folder, bool(force), workers, hear)
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
    skip: bool = False,
    trials: int | None = None,
    minutes: float | None = None,
    device: str | None = None,
    seed: int | None = None,
    checkpoint_every: float = 30,
    threads: int | None = None,
    progress: Progress = None,
) -> Search:
    """Searches for the settings that are best on validation, as ``ruge search``. ``spec`` is the space: a dict, or a TOML file.
    ``skip`` with ``resume`` gives up the trial that was running. No trial begins after ``minutes``."""
    draw = None if seed is None else _checks.whole("seed", seed)
    most = None if trials is None else _checks.whole("trials", trials, 1)
    place = None if device is None else _checks.word("device", device)
    every, limit, workers = _checks.seconds("checkpoint_every", checkpoint_every), _checks.minutes(minutes), _checks.threads(threads)
    text, graph = spec_text(spec), of_data(data, seed)
    folder = os.path.join("runs", f"search-{os.path.basename(called(graph))}") if out is None else _checks.path("out", out)
    preload(device)
    with callback(progress) as hear:
        found = _core.search(
            graph._core,
            called(graph),
            text,
            folder,
            bool(force),
            bool(resume),
            bool(skip),
            most,
            limit,
            place,
            draw,
            every,
            workers,
            hear,
        )
    return Search(rows_of(found), folder)
