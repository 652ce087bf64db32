"""Models: trained, loaded, asked."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ruge import _core
from ruge._progress import Progress, callback
from ruge.graph import Graph
from ruge.results import Answers, Explanation, Metrics, Proposals, Table
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

    @property
    def vectors(self) -> numpy.ndarray[Any, Any]:
        """The vectors, a row each: a read-only view of the model's memory, no copy."""
        import numpy

        return numpy.asarray(self._model.vectors(self._entities))

    def id(self, name: str) -> int:
        """The row of a name."""
        return self.names.index(name)

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

    def __init__(self, core: _core.Model) -> None:
        self._core = core

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
        found = json.loads(self._core.predict([(head, relation, tail)], top, new, chosen, typed, False))
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
            found = json.loads(self._core.predict(part, top, new, None, typed, False))
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
        return Explanation(json.loads(found), svg)

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
            return Proposals(json.loads(self._core.complete(relation, min_truth, top, per_query, hear)))

    def evaluate(
        self,
        split: str = "test",
        *,
        ties: str = "mean",
        hits: Sequence[int] = (1, 3, 5, 10),
        threads: int | None = None,
        progress: Progress = None,
    ) -> Metrics:
        """Filtered ranking of held-out triples, as ``ruge eval``."""
        with callback(progress) as hear:
            return Metrics(json.loads(self._core.evaluate(split, ties, list(hits), threads, hear)))

    def similar(self, entity: str, *, top: int = 10) -> Table:
        """The entities nearest to one, and its likely duplicates."""
        columns = ("entity", "cosine", "shared", "overlap", "duplicate")
        return Table(json.loads(self._core.similar(entity, top)), columns)

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
        return Model(self._core.with_facts(Graph(facts, held_out=(0, 0))._core))

    def with_completeness(self, share: float) -> Model:
        """The same model, told which share of the true facts the graph lists."""
        return Model(self._core.with_completeness(share))

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
                return (_from_bytes, (file.read(),))


def _from_bytes(content: bytes) -> Model:
    with tempfile.TemporaryDirectory(prefix="ruge-") as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(content)
        return load(path)


def load(path: str | os.PathLike[str], *, device: str = "cpu", evaluated: bool = False) -> Model:
    """Opens a run folder or a model.safetensors. ``evaluated`` opens the model that a run's figures describe."""
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
    text: tuple[str, str, bool] | None = None
    if isinstance(spec, dict):
        text = ("spec", _toml(spec), False)
    elif spec is not None:
        with open(spec, encoding="utf-8") as file:
            text = (os.fspath(spec), file.read(), True)
    folder = None if out is None else os.fspath(out)
    data = Graph(graph)._core
    with callback(progress) as hear:
        keywords = json.dumps(settings)
        return Model(
            _core.train(data, keywords, text, records, folder, force, resume, checkpoint_every, threads, hear)
        )


def _toml(spec: dict[str, Any], path: tuple[str, ...] = ()) -> str:
    """A spec as TOML; JSON's scalars and lists are TOML's."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items() if not isinstance(value, dict)]
    if path and lines:
        lines.insert(0, f"[{'.'.join(path)}]")
    for key, value in spec.items():
        if isinstance(value, dict):
            lines.append(_toml(value, (*path, key)))
    return "\n".join(lines)


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
