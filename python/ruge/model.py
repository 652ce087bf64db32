"""Models: trained, loaded, asked."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ruge import _core
from ruge._cuda import preload
from ruge._progress import Progress, callback
from ruge.errors import DataError
from ruge.explanation import Explanation
from ruge.graph import Graph
from ruge.results import Answers, Metrics, Proposals, Table, rows_of
from ruge.rules import Rules

if TYPE_CHECKING:
    import numpy

_ANSWER = ("score", "truth", "known", "rule")


class Names(Sequence[str]):
    """Entities or relations of a model: their names, and their vectors."""

    def __init__(self, model: _core.Model, entities: bool) -> None:
        self._model = model
        self._entities = entities
        self.names: tuple[str, ...] = tuple(model.entity_names() if entities else model.relation_names())
        self._at: dict[str, int] | None = None

    @property
    def vectors(self) -> numpy.ndarray[Any, Any]:
        """The vectors, a row each: a read-only view of the model's memory, no copy."""
        import numpy

        return numpy.asarray(self._model.vectors(self._entities))

    def id(self, name: str) -> int:
        """The row of a name, or of a label that only one has; an unknown one is an error that lists the nearest."""
        return self._model.id(name, self._entities)

    def __contains__(self, name: object) -> bool:
        return name in self._places()

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """The row of a name, as of any sequence."""
        at = self._places().get(name, -1)
        if at < start or (stop is not None and at >= stop):
            raise ValueError(f"{name!r} is not among the names")
        return at

    def _places(self) -> dict[str, int]:
        if self._at is None:
            self._at = {name: at for at, name in enumerate(self.names)}
        return self._at

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, at: Any) -> Any:
        return self.names[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"Names({len(self)} {'entities' if self._entities else 'relations'})"


class Model:
    """A trained model, opened for questions. Any number of threads may ask it; it never changes."""

    def __init__(self, core: _core.Model, *, by_rules: bool = False) -> None:
        self._core = core
        # New entities are answered about by rules too, and then truth decides: their vectors stand on few facts.
        self._by_rules = by_rules

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        new: bool = False,
        candidates: Sequence[str] | None = None,
        typed: bool = False,
    ) -> Answers:
        """The best answers to a question: give two of head, relation and tail."""
        chosen = None if candidates is None else list(candidates)
        found = rows_of(self._core.predict([(head, relation, tail)], top, new, chosen, typed, self._by_rules))
        who = "relation" if relation is None else "entity"
        return Answers(found["answers"][0], (who, *_ANSWER), found["assumes"])

    def predict_many(
        self, questions: Any, *, top: int = 10, new: bool = False, typed: bool = False, block: int = 4096
    ) -> Answers:
        """The best answers to many questions: tuples with None in the open place, dicts, or a table with two columns of head,
        relation and tail. Each row of the result has its question."""
        asked = list(_questions(questions))
        rows: list[dict[str, Any]] = []
        assumes = ""
        for start in range(0, len(asked), block):
            part = asked[start : start + block]
            found = rows_of(self._core.predict(part, top, new, None, typed, self._by_rules))
            assumes = found["assumes"]
            for (head, relation, tail), answers in zip(part, found["answers"], strict=True):
                for answer in answers:
                    given = {"head": head, "relation": relation, "tail": tail}
                    name = "head" if head is None else "relation" if relation is None else "tail"
                    given[name] = answer.get("entity", answer.get("relation"))
                    rows.append({**given, "asked": name, **{key: answer.get(key) for key in _ANSWER}})
        return Answers(rows, ("head", "relation", "tail", "asked", *_ANSWER), assumes)

    def explain(
        self, head: str, relation: str, tail: str, *, groundings: int = 3, similar: int = 5, side: str = "tail"
    ) -> Explanation:
        """Why a triple is held true, as ``ruge explain``."""
        found, svg = self._core.explain((head, relation, tail), groundings, similar, side)
        return Explanation(rows_of(found), svg)

    def complete(
        self,
        *,
        relation: str | None = None,
        min_truth: float | None = None,
        top: int | None = None,
        per_query: int = 10,
        progress: Progress = None,
    ) -> Proposals:
        """New facts for the graph, each with its truth and its rules, as ``ruge complete``."""
        with callback(progress) as hear:
            return Proposals(rows_of(self._core.complete(relation, min_truth, top, per_query, hear)))

    def evaluate(
        self,
        split: str = "test",
        *,
        data: Any = None,
        ties: str = "mean",
        hits: Sequence[int] = (1, 3, 5, 10),
        threads: int | None = None,
        progress: Progress = None,
    ) -> Metrics:
        """Filtered ranking of held-out triples, as ``ruge eval``; ``data`` are other data than the model's own."""
        other = None if data is None else Graph(data)._core
        with callback(progress) as hear:
            return Metrics(rows_of(self._core.evaluate(split, other, ties, list(hits), threads, hear)))

    def similar(self, entity: str, *, top: int = 10) -> Table:
        """The entities nearest to one, and its likely duplicates."""
        columns = ("entity", "cosine", "shared", "overlap", "duplicate")
        return Table(rows_of(self._core.similar(entity, top)), columns)

    def score(self, triples: Iterable[tuple[str, str, str]]) -> Table:
        """Score and truth of each triple."""
        given = [(str(h), str(r), str(t)) for h, r, t in triples]
        scores, truths = self._core.score(given)
        rows = [
            {"head": h, "relation": r, "tail": t, "score": score, "truth": truth}
            for (h, r, t), score, truth in zip(given, scores, truths, strict=True)
        ]
        return Table(rows, ("head", "relation", "tail", "score", "truth"))

    def with_facts(self, facts: Any) -> Model:
        """The same model with new facts, which may be about new entities; this one stays as it is."""
        return Model(self._core.with_facts(Graph(facts, held_out=(0, 0))._core), by_rules=True)

    def on_graph(self, graph: Any) -> Model:
        """The rules and evidence of this model on a graph with entities of its own, as ``--graph``: vectors and rules that name an
        entity are not used there."""
        return Model(self._core.on_graph(Graph(graph)._core))

    def with_completeness(self, share: float | Mapping[str, float] | str | os.PathLike[str]) -> Model:
        """The same model, told which share of the true facts the graph lists: one number, one by relation (``"*"`` for all others), or
        a file as ``--completeness`` takes it. Nothing is trained again."""
        if isinstance(share, (int, float)):
            return self._told(self._core.with_completeness(float(share), []))
        if not isinstance(share, Mapping):
            share = _shares(share)
        own = [(name, float(of)) for name, of in share.items() if name != "*"]
        return self._told(self._core.with_completeness(share.get("*"), own))

    def with_feedback(self, judged: str | os.PathLike[str] | Iterable[tuple[str, str, str, bool]]) -> Model:
        """The same model, corrected by facts that a person has judged: a file as ``--feedback`` takes it, or tuples of head, relation,
        tail and whether it is true."""
        if isinstance(judged, (str, os.PathLike)):
            return self._told(self._core.with_feedback(os.fspath(judged), []))
        given = [((str(h), str(r), str(t)), bool(holds)) for h, r, t, holds in judged]
        return self._told(self._core.with_feedback(None, given))

    def with_constraints(self, constraints: str | os.PathLike[str] | Iterable[str]) -> Model:
        """The same model under constraints: a file as ``--constraints`` takes it, or its lines, as in
        ``["functional capital_of"]``. What violates one is not true."""
        if isinstance(constraints, (str, os.PathLike)):
            return self._told(self._core.with_constraints(os.fspath(constraints), None))
        return self._told(self._core.with_constraints(None, "\n".join(constraints)))

    def _told(self, core: _core.Model) -> Model:
        return Model(core, by_rules=self._by_rules)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model.safetensors with all that :func:`load` needs."""
        self._core.save(os.fspath(path))

    @property
    def entities(self) -> Names:
        """Names and vectors of entities."""
        return Names(self._core, True)

    @property
    def relations(self) -> Names:
        """Names and vectors of relations."""
        return Names(self._core, False)

    @property
    def rules(self) -> Rules:
        """The rules that guided the model, or that it ranks with."""
        return Rules(self._core.rules())

    @property
    def spec(self) -> str:
        """How it was made, as TOML."""
        return self._core.spec

    @property
    def notes(self) -> dict[str, str]:
        """What training says about itself."""
        return self._core.notes

    def __repr__(self) -> str:
        model, guidance = self._core.kind
        return f"Model({model}, guidance={guidance}, entities={len(self.entities)}, relations={len(self.relations)})"

    def __reduce__(self) -> tuple[object, ...]:
        with tempfile.TemporaryDirectory(prefix="ruge-") as folder:
            path = os.path.join(folder, "model.safetensors")
            self.save(path)
            with open(path, "rb") as file:
                return (_from_bytes, (file.read(), self._by_rules))


def _from_bytes(content: bytes, by_rules: bool) -> Model:
    with tempfile.TemporaryDirectory(prefix="ruge-") as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(content)
        return Model(_core.load(path, "cpu", False), by_rules=by_rules)


def load(path: str | os.PathLike[str], *, device: str = "cpu", evaluated: bool = False) -> Model:
    """Opens a run folder or a model.safetensors. ``evaluated`` opens the model that a run's figures describe."""
    preload(device)
    return Model(_core.load(os.fspath(path), device, evaluated))


def train(
    graph: Any,
    *,
    rules: Rules | str | os.PathLike[str] | None = None,
    spec: dict[str, Any] | str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    checkpoint_every: float = 30,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Model:
    """Trains a model, as ``ruge train``; ``settings`` are its flags, with ``_`` for ``-``.

    Without ``out`` nothing is written. With it, the run folder is that of the command line: after Ctrl-C it keeps a checkpoint, and
    the same call with ``resume=True`` ends with the same bits.

    >>> model = train("demo", dim=8, epochs=2)
    >>> model.predict("Brussels", "located_in", top=1)[0]["known"] in (True, False)
    True
    """
    records = rules._core if isinstance(rules, Rules) else None
    if rules is not None and records is None:
        settings["rules"] = os.fspath(rules)  # type: ignore[arg-type]
    folder = None if out is None else os.fspath(out)
    data = Graph(graph)._core
    text = spec_text(spec)
    preload(settings.get("device"))
    with callback(progress) as hear:
        keywords = json.dumps(settings)
        return Model(
            _core.train(data, keywords, text, records, folder, force, resume, checkpoint_every, threads, hear)
        )


def spec_text(spec: dict[str, Any] | str | os.PathLike[str] | None) -> tuple[str, str, bool] | None:
    """A spec as the native part takes it: what to call it, its TOML, and whether it is a file."""
    if spec is None:
        return None
    if isinstance(spec, dict):
        return ("spec", _toml(spec), False)
    with open(spec, encoding="utf-8") as file:
        return (os.fspath(spec), file.read(), True)


def _toml(spec: Mapping[str, Any]) -> str:
    """A spec as TOML. Tables stand in one line, which a table inside a list can, too."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in spec.items() if value is not None)


def _key(key: object) -> str:
    return json.dumps(str(key), ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(of)}" for key, of in value.items() if of is not None) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _shares(path: str | os.PathLike[str]) -> dict[str, float]:
    shares: dict[str, float] = {}
    with open(path, encoding="utf-8-sig") as file:
        for at, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip() or line.startswith("#"):
                continue
            name, tab, share = line.rpartition("\t")
            try:
                shares[name] = float(share if tab else "")
            except ValueError:
                raise DataError(
                    f"{os.fspath(path)}:{at}: {line!r} is not a relation and its share",
                    path=os.fspath(path),
                    line=at,
                    remedy="write a relation, a tab, and a share above 0 and below 1; * stands for all relations",
                ) from None
    return shares


def _questions(questions: Any) -> Iterator[tuple[str | None, str | None, str | None]]:
    if hasattr(questions, "column_names"):
        questions = questions.to_pylist()
    elif hasattr(questions, "to_dicts"):
        questions = questions.to_dicts()
    elif hasattr(questions, "to_dict") and hasattr(questions, "columns"):
        questions = questions.to_dict("records")
    for question in questions:
        if isinstance(question, dict):
            yield (question.get("head"), question.get("relation"), question.get("tail"))
        else:
            head, relation, tail = question
            yield (head, relation, tail)
