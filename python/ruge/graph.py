"""Graphs: from files, tables, tuples, ids, and what other libraries hold."""

from __future__ import annotations

import contextlib
import html
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ruge import _checks, _core
from ruge.errors import DataError, RugeError
from ruge.results import Row, Tabular, rows_of, write_table, write_text

if TYPE_CHECKING:
    import numpy

#: What columns may be called, in any case: head, relation, tail.
COLUMNS: tuple[frozenset[str], frozenset[str], frozenset[str]] = (
    frozenset({"head", "h", "s", "subject", "subj", "source", "src", "from", "head_entity"}),
    frozenset({"relation", "r", "p", "predicate", "pred", "rel", "property", "edge", "label", "type"}),
    frozenset({"tail", "t", "o", "object", "obj", "target", "dst", "to", "tail_entity"}),
)


#: Triples up to which a notebook measures leakage by itself.
LOOKED_AT = 2_000_000


class Triples(Tabular, Sequence[tuple[str, str, str]]):
    """Triples by name, and as ids."""

    def __init__(self, graph: _core.Graph, split: str) -> None:
        self._ids = graph.ids(split)
        self._entities = graph.entity_names()
        self._relations = graph.relation_names()

    @property
    def ids(self) -> numpy.ndarray[Any, Any]:
        """Head, relation and tail as ids, an array of shape (n, 3)."""
        import numpy

        return numpy.frombuffer(self._ids, dtype=numpy.uint32).reshape(-1, 3)

    def _columns(self) -> dict[str, list[Any]]:
        flat = memoryview(self._ids).cast("I").tolist()
        entity, relation = self._entities.__getitem__, self._relations.__getitem__
        parts = map(entity, flat[::3]), map(relation, flat[1::3]), map(entity, flat[2::3])
        return dict(zip(("head", "relation", "tail"), map(list, parts), strict=True))

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the triples; the ending decides: .tsv, .csv or .jsonl."""
        write_table(self, path, force)

    def __len__(self) -> int:
        return len(self._ids) // 12

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        head, relation, tail = memoryview(self._ids).cast("I")[3 * place : 3 * place + 3]
        return (self._entities[head], self._relations[relation], self._entities[tail])

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        columns = self._columns()
        return zip(columns["head"], columns["relation"], columns["tail"], strict=True)

    def __repr__(self) -> str:
        lines = [f"{len(self):,} triples"] + ["  " + "  ".join(triple) for triple in self[:5]]
        return "\n".join([*lines, "  …"] if len(self) > 5 else lines)


class Check(Row):
    """What is in a graph, and whether it is fit to learn from: what ``ruge check --json`` prints, by name."""

    def _repr_html_(self) -> str:
        keys = ("entities", "relations", "train", "valid", "test", "duplicates", "unseen_entities", "bad_lines")
        rows = "".join(f"<tr><th>{key}</th><td>{self[key]:,}</td></tr>" for key in keys)
        return f'<table class="ruge-check">{rows}{_leakage(self)}</table>{_list(self["warnings"] + self["notes"])}'


class Graph:
    """A knowledge graph: names, and triples to learn from, to validate with and to test on.

    ``data`` is ``"demo"``, a path (any format and layout that the command line reads), an iterable of (head, relation, tail), a
    polars, pandas or Arrow table, an integer array of shape (n, 3), a PyKEEN factory or data set, or an rdflib graph. Without
    ``valid`` and ``test`` it is split reproducibly (a tenth each, or by ``held_out``), and no name is left out of train. Other options
    are those of the command line.

    >>> g = Graph([("a", "knows", "b"), ("b", "knows", "c"), ("a", "likes", "c")], held_out=(0, 0))
    >>> g
    Graph(entities=3, relations=2, train=3, valid=0, test=0)
    >>> g.triples()[0]
    ('a', 'knows', 'b')
    """

    _core: _core.Graph
    _source: str

    def __init__(
        self,
        data: Any,
        *,
        valid: Any = None,
        test: Any = None,
        columns: Sequence[str] | str | None = None,
        header: str = "auto",
        format: str | None = None,
        lenient: bool = False,
        seed: int = 0,
        held_out: tuple[float, float] | None = None,
        labels: Sequence[str | os.PathLike[str]] = (),
        literals: str = "skip",
        graph_name: str = "all",
        base: str | None = None,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(data, Graph):
            self._core, self._source = data._core, data._source
            return
        self._source = called(data)
        if hasattr(data, "training") and hasattr(data, "testing"):
            data, valid, test = data.training, getattr(data, "validation", None), data.testing
        parts = [data, valid, test]
        reading: dict[str, Any] = {
            "columns": columns if columns is None or isinstance(columns, str) else ",".join(map(str, columns)),
            "header": _checks.word("header", header),
            "format": None if format is None else _checks.word("format", format),
            "lenient": bool(lenient),
            "literals": _checks.word("literals", literals),
            "graph_name": _checks.word("graph_name", graph_name),
            "base": None if base is None else _checks.word("base", base),
        }
        seed = _checks.whole("seed", seed)
        shares = None if held_out is None else _shares(held_out)
        with contextlib.ExitStack() as files:
            parts = [files.enter_context(_written(part)) if _is_rdf(part) else part for part in parts]
            is_path = [isinstance(part, (str, os.PathLike)) for part in parts]
            is_single = valid is None and test is None
            if is_single and is_path[0]:
                described = [_checks.path("labels", path) for path in labels]
                path = _checks.path("data", parts[0])
                self._core = _core.Graph.read(path, seed=seed, held_out=shares, labels=described, **reading)
                return
            if labels:
                raise DataError("labels are read beside one path", remedy="give data as one path, or leave labels= out")
            builder = _core.Builder()
            for split, part in enumerate(parts):
                try:
                    if is_path[split]:
                        builder.read(split, _checks.path("data", part), **reading)
                    elif part is not None:
                        _add(builder, split, part, columns, entity_names, relation_names)
                except RugeError as error:
                    if is_single:
                        raise
                    # A row says nothing without its table.
                    raise error.within(("train", "valid", "test")[split]) from None
            self._core = builder.finish(is_single, seed, shares)

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of entities, relations and triples by part."""
        return dict(zip(("entities", "relations", "train", "valid", "test"), self._core.sizes, strict=True))

    @property
    def digest(self) -> str:
        """A hash of names and triples: two graphs with the same digest are the same."""
        return self._core.digest

    @property
    def notes(self) -> list[str]:
        """What reading found: remarks, and what makes results doubtful."""
        return self._core.notes

    @property
    def entities(self) -> list[str]:
        """The names of entities, in the order of their ids."""
        return self._core.entity_names()

    @property
    def relations(self) -> list[str]:
        """The names of relations, in the order of their ids."""
        return self._core.relation_names()

    def ids(self, split: str = "train") -> numpy.ndarray[Any, Any]:
        """The triples of a part as ids, an array of shape (n, 3)."""
        import numpy

        return numpy.frombuffer(self._core.ids(_checks.word("split", split)), dtype=numpy.uint32).reshape(-1, 3)

    def triples(self, split: str = "train") -> Triples:
        """The triples of a part by name; ``.ids`` has them as numbers."""
        return Triples(self._core, _checks.word("split", split))

    def check(self, *, constraints: str | os.PathLike[str] | None = None) -> Check:
        """Counts, duplicates, unseen entities, leakage, habits: is the graph fit to learn from? With a file of constraints, the facts
        that violate one are listed as ``violations``."""
        file = None if constraints is None else _checks.path("constraints", constraints)
        return Check(rows_of(self._core.check(file)))

    def suggest_constraints(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """The habits of the relations as a file of constraints, to go through; written where ``path`` says."""
        text = self._core.suggested_constraints()
        if path is not None:
            write_text(path, text, force)
        return text

    def __repr__(self) -> str:
        return f"Graph({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"

    def __len__(self) -> int:
        return sum(self._core.sizes[2:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[object, ...]:
        parts = tuple(self._core.ids(split) for split in ("train", "valid", "test"))
        return (_again, (self.entities, self.relations, parts, self._core.described(), self._source))

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{name}</th><td>{size:,}</td></tr>" for name, size in self.sizes.items())
        if len(self) <= LOOKED_AT:
            rows += _leakage(self.check())
        return f'<table class="ruge-graph">{rows}</table>{_list(self._core.warnings + self.notes)}'


def _leakage(found: Check) -> str:
    share = found["leakage"]["test"]["share_copyable"] if found["test"] else None
    return "" if share is None else f"<tr><th>test facts that train gives away</th><td>{100 * share:.1f} %</td></tr>"


def _list(notes: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes) + "</ul>" if notes else ""


def called(data: Any) -> str:
    """What to call data in reports."""
    if isinstance(data, Graph):
        return data._source
    return os.fspath(data) if isinstance(data, (str, os.PathLike)) else f"a {type(data).__name__}"


def check(data: Any, *, constraints: str | os.PathLike[str] | None = None, **options: Any) -> Check:
    """Is a graph fit to learn from? ``data`` and ``options`` are those of :class:`Graph`.

    >>> check("demo")["relations"]
    30
    """
    return Graph(data, **options).check(constraints=constraints)


def _shares(held_out: Any) -> tuple[float, float]:
    try:
        valid, test = held_out
    except (TypeError, ValueError):
        raise RugeError(f"held_out={held_out!r} is not two shares", remedy="give the shares of valid and test as in (0.1, 0.1)") from None
    return _checks.number("held_out", valid, 0, 1), _checks.number("held_out", test, 0, 1)


def of_data(data: Any, seed: Any = None) -> Graph:
    """A graph, or what one is made from, split with the seed of the job."""
    return data if isinstance(data, Graph) else Graph(data, seed=0 if seed is None else seed)


def _again(
    entities: list[str], relations: list[str], parts: tuple[bytes, bytes, bytes], described: str, source: str
) -> Graph:
    graph = Graph.__new__(Graph)
    graph._core = _core.Graph.restored(entities, relations, parts, described)
    graph._source = source
    return graph


def _is_rdf(data: Any) -> bool:
    return hasattr(data, "serialize") and hasattr(data, "namespace_manager")


@contextlib.contextmanager
def _written(graph: Any) -> Iterator[str]:
    """A graph of rdflib as a file of N-Triples. Its order is that of a hash; sorted, the same graph gives the same ids."""
    with tempfile.TemporaryDirectory(prefix="ruge-") as folder:
        path = os.path.join(folder, "graph.nt")
        lines = set(graph.serialize(format="nt", encoding="utf-8").splitlines())
        with open(path, "wb") as file:
            file.writelines(line + b"\n" for line in sorted(lines) if line.strip())
        yield path


def _add(
    builder: _core.Builder,
    split: int,
    data: Any,
    columns: Sequence[str] | str | None,
    entity_names: Sequence[str] | None,
    relation_names: Sequence[str] | None,
) -> None:
    if isinstance(data, Graph):
        _add(builder, split, [t for part in ("train", "valid", "test") for t in data.triples(part)], None, None, None)
    elif hasattr(data, "__arrow_c_stream__") and not hasattr(data, "iloc"):
        from ruge import _arrow

        _arrow.add(builder, split, data, lambda names: _chosen(names, columns))
    elif hasattr(data, "mapped_triples") and hasattr(data, "entity_to_id"):
        _ids(builder, split, data.mapped_triples, _by_id(data.entity_to_id), _by_id(data.relation_to_id))
    elif hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        places = [names.index(name) for name in _chosen(names, columns)]
        # By object: pandas needs pyarrow for anything faster, and has it only where it is installed.
        builder.columns(split, *(data.iloc[:, at].tolist() for at in places))
    elif hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        _array(builder, split, data, entity_names, relation_names)
    elif isinstance(data, Iterable):
        heads, relations, tails = [], [], []
        for row, triple in enumerate(data):
            if isinstance(triple, (str, bytes, dict, set)) or not hasattr(triple, "__len__") or len(triple) != 3:
                raise DataError(
                    f"row {row}: {triple!r} is not a triple",
                    row=row,
                    remedy="give (head, relation, tail)",
                )
            head, relation, tail = triple
            heads.append(_plain(head))
            relations.append(_plain(relation))
            tails.append(_plain(tail))
        builder.columns(split, heads, relations, tails)
    else:
        raise DataError(
            f"a graph cannot be made from {type(data).__name__}",
            remedy="give a path, an iterable of (head, relation, tail), a table with three columns, or an array of ids",
        )


def _plain(item: Any) -> Any:
    # Terms of rdflib are strings of their own kind.
    return str(item) if isinstance(item, str) and type(item) is not str else item


def _by_id(names: dict[str, int]) -> list[str]:
    placed = [""] * (max(names.values(), default=-1) + 1)
    for name, at in names.items():
        placed[at] = str(name)
    return placed


def _array(
    builder: _core.Builder,
    split: int,
    data: Any,
    entity_names: Sequence[str] | None,
    relation_names: Sequence[str] | None,
) -> None:
    import numpy

    array = numpy.asarray(data)
    if array.ndim != 2 or array.shape[1] != 3:
        raise DataError(f"the array has shape {array.shape}", remedy="give an array of shape (n, 3)")
    if numpy.issubdtype(array.dtype, numpy.integer):
        _ids(builder, split, array, entity_names, relation_names)
    elif array.dtype.kind in "OUT":
        builder.columns(split, *(array[:, at].tolist() for at in range(3)))
    else:
        raise DataError(
            f"the array is of type {array.dtype}",
            remedy="give whole numbers (ids) or text (names)",
        )


def _ids(
    builder: _core.Builder,
    split: int,
    data: Any,
    entity_names: Sequence[str] | None,
    relation_names: Sequence[str] | None,
) -> None:
    import numpy

    array = numpy.asarray(data)
    if array.dtype.kind == "u" and array.size and int(array.max()) > 2**63 - 1:
        raise DataError(f"an id is {array.max()}", remedy="give ids below the number of names")
    ids = numpy.ascontiguousarray(array, dtype=numpy.int64)
    entities = None if entity_names is None else [str(name) for name in entity_names]
    relations = None if relation_names is None else [str(name) for name in relation_names]
    builder.ids(split, ids.tobytes(), entities, relations)


def _chosen(names: list[str], columns: Sequence[str] | str | None) -> list[str]:
    """The three columns of a table, by name."""
    if columns is not None:
        wanted = [part.strip() for part in columns.split(",")] if isinstance(columns, str) else [str(c) for c in columns]
        if len(wanted) != 3:
            raise DataError(f"columns names {len(wanted)} columns", remedy="name three: head, relation and tail")
        missing = [name for name in wanted if name not in names]
        if missing:
            raise DataError(
                f"the table has no column called {missing[0]!r}; it has {', '.join(names)}",
                remedy="name three of these with columns=(head, relation, tail)",
            )
        return wanted
    wanted = []
    for known, place in zip(COLUMNS, ("head", "relation", "tail"), strict=True):
        found = [name for name in names if name.lower() in known]
        if len(found) != 1:
            what = "no column" if not found else f"{len(found)} columns"
            raise DataError(
                f"{what} of the table can be the {place}; it has {', '.join(names) or 'none'}",
                remedy="name them with columns=(head, relation, tail)",
            )
        wanted.append(found[0])
    return wanted
