"""Models: trained, loaded, asked."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ruge import _checks, _core
from ruge._cuda import preload
from ruge._progress import Progress, callback
from ruge.errors import DataError, UnknownName
from ruge.explanation import Explanation
from ruge.graph import Graph, of_data
from ruge.results import Answers, Metrics, Proposals, Row, Table, rows_of
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
        return self._model.id(_checks.called(name, "name"), self._entities)

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
        asked = (_open(head, "head"), _open(relation, "relation"), _open(tail, "tail"))
        if sum(name is not None for name in asked) != 2:
            raise DataError("a question names two of head, relation and tail", remedy="leave one of them out; explain() is about all three")
        chosen = None if candidates is None else _candidates(candidates)
        found = rows_of(self._core.predict([asked], _checks.whole("top", top, 1), bool(new), chosen, bool(typed), self._by_rules, None))
        who = "relation" if relation is None else "entity"
        return Answers(found["answers"][0], (who, *_ANSWER), found["assumes"])

    def predict_many(
        self,
        questions: Any,
        *,
        top: int = 10,
        new: bool = False,
        typed: bool = False,
        block: int = 4096,
        threads: int | None = None,
    ) -> Answers:
        """The best answers to many questions: tuples with None in the open place, dicts, or a table with two columns of head,
        relation and tail. Each row of the result has its question."""
        asked = list(_questions(questions))
        top, block, workers = _checks.whole("top", top, 1), _checks.whole("block", block, 1), _checks.threads(threads)
        rows: list[dict[str, Any]] = []
        assumes = ""
        for start in range(0, len(asked), block):
            part = asked[start : start + block]
            try:
                found = rows_of(self._core.predict(part, top, bool(new), None, bool(typed), self._by_rules, workers))
            except UnknownName:
                at, error = self._core.unknown(part) or (0, UnknownName("a name is not known"))
                raise error.within(f"row {start + at}", start + at) from None
            assumes = found["assumes"]
            for (head, relation, tail), answers in zip(part, found["answers"], strict=True):
                for answer in answers:
                    given = {"head": head, "relation": relation, "tail": tail}
                    name = "head" if head is None else "relation" if relation is None else "tail"
                    given[name] = answer.get("entity", answer.get("relation"))
                    rows.append({**given, "asked": name, **{key: answer.get(key) for key in _ANSWER}})
        return Answers(rows, ("head", "relation", "tail", "asked", *_ANSWER), assumes)

    def explain(
        self,
        head: str,
        relation: str,
        tail: str,
        *,
        rules: Rules | str | os.PathLike[str] | None = None,
        groundings: int = 3,
        similar: int = 5,
        side: str = "tail",
    ) -> Explanation:
        """Why a triple is held true, as ``ruge explain``; by its own rules, or by those given."""
        asked = _checks.triple((head, relation, tail))
        limits = _checks.whole("groundings", groundings), _checks.whole("similar", similar)
        found, svg, dot = self._core.explain(asked, *limits, _checks.word("side", side), self._rules(rules))
        return Explanation(rows_of(found), svg, dot)

    def complete(
        self,
        *,
        relation: str | None = None,
        min_truth: float | None = None,
        top: int | None = None,
        per_query: int = 10,
        rules: Rules | str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Proposals:
        """New facts for the graph, each with its truth and its rules, as ``ruge complete``; by its own rules, or by those given."""
        about = None if relation is None else _checks.called(relation, "relation")
        least = None if min_truth is None else _checks.number("min_truth", min_truth, 0, 1)
        most = None if top is None else _checks.whole("top", top, 1)
        width, given = _checks.whole("per_query", per_query, 1, 1000), self._rules(rules)
        workers = _checks.threads(threads)
        with callback(progress) as hear:
            return Proposals(rows_of(self._core.complete(about, least, most, width, given, workers, hear)))

    def measure(
        self, *, relation: str | None = None, per_query: int = 10, threads: int | None = None, progress: Progress = None
    ) -> Row:
        """How far the truths of proposals can be believed, on test facts: calibration, as ``ruge complete --measure``."""
        about = None if relation is None else _checks.called(relation, "relation")
        width, workers = _checks.whole("per_query", per_query, 1, 1000), _checks.threads(threads)
        with callback(progress) as hear:
            found: Row = rows_of(self._core.measure(about, width, workers, hear))
        return found

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
        other = None if data is None else of_data(data)._core
        places = [_checks.whole("hits", n, 1, 2**32 - 1) for n in hits]
        words, workers = (_checks.word("split", split), _checks.word("ties", ties)), _checks.threads(threads)
        with callback(progress) as hear:
            return Metrics(rows_of(self._core.evaluate(words[0], other, words[1], places, workers, hear)))

    def similar(self, entity: str, *, top: int = 10) -> Table:
        """The entities nearest to one, and its likely duplicates."""
        columns = ("entity", "cosine", "shared", "overlap", "duplicate")
        name = _checks.called(entity, "entity")
        return Table(rows_of(self._core.similar(name, _checks.whole("top", top, 1))), columns)

    def score(self, triples: Iterable[tuple[str, str, str]]) -> Table:
        """Score and truth of each triple."""
        given = [_checks.triple(triple, row) for row, triple in enumerate(triples)]
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
        return Model(self._core.on_graph(of_data(graph)._core))

    def with_completeness(self, share: float | Mapping[str, float] | str | os.PathLike[str]) -> Model:
        """The same model, told which share of the true facts the graph lists: one number, one by relation (``"*"`` for all others), or
        a file as ``--completeness`` takes it. Nothing is trained again."""
        if isinstance(share, (int, float)):
            return self._told(self._core.with_completeness(_checks.number("completeness", share, 0, 1), []))
        if not isinstance(share, Mapping):
            share = _shares(share)
        shares = {_checks.called(name, "relation"): _checks.number("completeness", of, 0, 1) for name, of in share.items()}
        rest = shares.pop("*", None)
        return self._told(self._core.with_completeness(rest, list(shares.items())))

    def with_feedback(self, judged: str | os.PathLike[str] | Iterable[tuple[str, str, str, bool]]) -> Model:
        """The same model, corrected by facts that a person has judged: a file as ``--feedback`` takes it, or tuples of head, relation,
        tail and whether it is true."""
        if isinstance(judged, (str, os.PathLike)):
            return self._told(self._core.with_feedback(_checks.path("feedback", judged), []))
        given = []
        for row, fact in enumerate(judged):
            if not hasattr(fact, "__len__") or len(fact) != 4:
                raise DataError(f"row {row}: {fact!r} is no judged fact", row=row, remedy="give (head, relation, tail, True or False)")
            given.append((_checks.triple(fact[:3], row), bool(fact[3])))
        return self._told(self._core.with_feedback(None, given))

    def with_constraints(self, constraints: str | os.PathLike[str] | Iterable[str]) -> Model:
        """The same model under constraints: a file as ``--constraints`` takes it, or its lines, as in
        ``["functional capital_of"]``. What violates one is not true."""
        if isinstance(constraints, (str, os.PathLike)):
            return self._told(self._core.with_constraints(_checks.path("constraints", constraints), None))
        lines = [_checks.word("constraints", line) for line in constraints]
        return self._told(self._core.with_constraints(None, "\n".join(lines)))

    def _told(self, core: _core.Model) -> Model:
        return Model(core, by_rules=self._by_rules)

    def _rules(self, rules: Rules | str | os.PathLike[str] | None) -> _core.Rules | None:
        if rules is None or isinstance(rules, Rules):
            return None if rules is None else rules._core
        return self._core.read_rules(_checks.path("rules", rules))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a model.safetensors with all that :func:`load` needs; an existing file is kept unless ``force`` is given."""
        self._core.save(_checks.path("path", path), bool(force))

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
    return Model(_core.load(_checks.path("path", path), _checks.word("device", device), bool(evaluated)))


def train(
    graph: Any,
    *,
    rules: Rules | str | os.PathLike[str] | None = None,
    spec: dict[str, Any] | str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    resume: bool = False,
    checkpoint_every: float = 30,
    minutes: float | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Any,
) -> Model:
    """Trains a model, as ``ruge train``; ``settings`` are its flags, with ``_`` for ``-``.

    After ``minutes`` the best model so far is kept. Without ``out`` nothing is written. With it, the run folder is that of the command line: after Ctrl-C it keeps a checkpoint, and
    the same call with ``resume=True`` ends with the same bits.

    >>> model = train("demo", dim=8, epochs=2)
    >>> model.predict("Brussels", "located_in", top=1)[0]["known"] in (True, False)
    True
    """
    records = rules._core if isinstance(rules, Rules) else None
    if rules is not None and not isinstance(rules, Rules):
        settings["rules"] = _checks.path("rules", rules)
    keywords, text = _checks.settings(settings), spec_text(spec)
    every, limit, workers = _checks.seconds("checkpoint_every", checkpoint_every), _checks.minutes(minutes), _checks.threads(threads)
    data = of_data(graph, settings.get("seed"))._core
    preload(settings.get("device"))
    with contextlib.ExitStack() as place, callback(progress) as hear:
        if out is not None:
            folder: str | None = _checks.path("out", out)
        elif limit is None:
            folder = None
        else:
            # Only a folder knows when to stop.
            folder = os.path.join(place.enter_context(tempfile.TemporaryDirectory(prefix="ruge-")), "run")
        return Model(
            _core.train(data, keywords, text, records, folder, bool(force), bool(resume), every, limit, workers, hear)
        )


def spec_text(spec: dict[str, Any] | str | os.PathLike[str] | None) -> tuple[str, str, bool] | None:
    """A spec as the native part takes it: what to call it, its TOML, and whether it is a file."""
    if spec is None:
        return None
    if isinstance(spec, dict):
        return ("spec", _toml(spec), False)
    return (_checks.path("spec", spec), _checks.text_of(spec, "spec"), True)


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
    for at, line in enumerate(_checks.text_of(path, "completeness").split("\n"), 1):
        line = line.rstrip("\r")
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


def _open(name: Any, place: str) -> str | None:
    return None if name is None else _checks.called(name, place)


def _candidates(names: Any) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise DataError(f"candidates={names!r} is not a list of names", remedy="give candidates as a list of entities")
    return [_checks.called(name, "candidate", row) for row, name in enumerate(names)]


#: What a question names.
_PLACES = ("head", "relation", "tail")


def _questions(questions: Any) -> Iterator[tuple[str | None, str | None, str | None]]:
    """Each question as head, relation and tail, with None in the open place."""
    columns: list[str] | None = None
    if hasattr(questions, "column_names"):
        columns, questions = list(questions.column_names), questions.to_pylist()
    elif hasattr(questions, "to_dicts"):
        columns, questions = list(questions.columns), questions.to_dicts()
    elif hasattr(questions, "to_dict") and hasattr(questions, "columns"):
        columns, questions = [str(name) for name in questions.columns], questions.to_dict("records")
    if columns is not None:
        _two_of(columns, None)
    if not isinstance(questions, Iterable) or isinstance(questions, (str, bytes)):
        raise DataError(f"questions cannot be made from {type(questions).__name__}", remedy="give a list of tuples, or a table")
    for row, question in enumerate(questions):
        if isinstance(question, Mapping):
            if columns is None:
                _two_of([str(key) for key in question], row)
            named = {place: question[place] for place in _PLACES if place in question}
        elif hasattr(question, "__len__") and len(question) == 3 and not isinstance(question, (str, bytes)):
            named = dict(zip(_PLACES, question, strict=True))
        else:
            raise DataError(
                f"row {row}: {question!r} is no question",
                row=row,
                remedy="give (head, relation, None), (None, relation, tail) or (head, None, tail)",
            )
        # Where all three are given, the missing one is asked for.
        is_open = len(named) == 3
        found = {
            place: None if is_open and _checks.is_missing(name) else _checks.called(name, place, row)
            for place, name in named.items()
        }
        if sum(name is not None for name in found.values()) != 2:
            raise DataError(
                f"row {row}: a question names two of head, relation and tail", row=row, remedy="leave one of them open, as None"
            )
        yield (found.get("head"), found.get("relation"), found.get("tail"))


def _two_of(columns: list[str], row: int | None) -> None:
    if len(set(columns)) < 2 or not set(columns) <= set(_PLACES):
        where = "the table has the columns" if row is None else f"row {row} has the keys"
        raise DataError(
            f"{where} {', '.join(columns) or 'none'}; a question names two of head, relation and tail",
            row=row,
            remedy="rename or select the columns, so that two of head, relation and tail are left",
        )
