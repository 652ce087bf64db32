"""Graphs: from files, tables, tuples, ids, and what other libraries hold."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ruge import _core
from ruge.errors import DataError

if TYPE_CHECKING:
    import numpy

#: What columns may be called, in any case: head, relation, tail.
COLUMNS: tuple[frozenset[str], frozenset[str], frozenset[str]] = (
    frozenset({"head", "h", "s", "subject", "subj", "source", "src", "from", "head_entity"}),
    frozenset({"relation", "r", "p", "predicate", "pred", "rel", "property", "edge", "label", "type"}),
    frozenset({"tail", "t", "o", "object", "obj", "target", "dst", "to", "tail_entity"}),
)


class Graph:
    """A knowledge graph: names, and triples to learn from, to validate with and to test on.

    ``data`` is ``"demo"``, a path (any format and layout that the command line reads), an iterable of (head, relation, tail), a
    polars, pandas or Arrow table, an integer array of shape (n, 3), a PyKEEN factory or data set, or an rdflib graph. Without
    ``valid`` and ``test`` it is split reproducibly, and no name is left out of train.

    >>> g = Graph([("a", "knows", "b"), ("b", "knows", "c"), ("a", "likes", "c")], held_out=(0, 0))
    >>> g
    Graph(entities=3, relations=2, train=3, valid=0, test=0)
    >>> g.triples()[0]
    ('a', 'knows', 'b')
    """

    _core: _core.Graph

    def __init__(
        self,
        data: Any,
        *,
        valid: Any = None,
        test: Any = None,
        columns: Sequence[str] | str | None = None,
        header: str = "auto",
        lenient: bool = False,
        seed: int = 0,
        held_out: tuple[float, float] = (0.1, 0.1),
        labels: Sequence[str | os.PathLike[str]] = (),
        literals: str = "skip",
        graph_name: str = "all",
        base: str | None = None,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(data, Graph):
            self._core = data._core
            return
        named = columns if columns is None or isinstance(columns, str) else ",".join(columns)
        is_path = isinstance(data, (str, os.PathLike))
        shares = (float(held_out[0]), float(held_out[1]))
        if is_path and valid is None and test is None:
            self._core = _core.Graph.read(
                os.fspath(data),
                columns=named,
                header=header,
                lenient=lenient,
                seed=seed,
                held_out=shares,
                labels=[os.fspath(path) for path in labels],
                literals=literals,
                graph_name=graph_name,
                base=base,
            )
            return
        if hasattr(data, "training") and hasattr(data, "testing"):
            data, valid, test = data.training, getattr(data, "validation", None), data.testing
        builder = _core.Builder()
        for split, part in enumerate((data, valid, test)):
            if part is None:
                continue
            if isinstance(part, (str, os.PathLike)):
                builder.read(
                    split,
                    os.fspath(part),
                    columns=named,
                    header=header,
                    lenient=lenient,
                    literals=literals,
                    graph_name=graph_name,
                    base=base,
                )
            else:
                _add(builder, split, part, columns, entity_names, relation_names)
        self._core = builder.finish(valid is None and test is None, seed, shares)

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

        return numpy.frombuffer(self._core.ids(split), dtype=numpy.uint32).reshape(-1, 3)

    def triples(self, split: str = "train") -> list[tuple[str, str, str]]:
        """The triples of a part by name."""
        entities, relations = self.entities, self.relations
        flat = memoryview(self._core.ids(split)).cast("I").tolist()
        parts = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [(entities[h], relations[r], entities[t]) for h, r, t in parts]

    def check(self) -> dict[str, Any]:
        """Counts, duplicates, unseen entities, leakage: is the graph fit to learn from?"""
        found: dict[str, Any] = json.loads(self._core.check())
        return found

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
        return (_again, (self.entities, self.relations, parts))

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{name}</th><td>{size:,}</td></tr>" for name, size in self.sizes.items())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f'<table class="ruge-graph">{rows}</table>' + (f"<ul>{notes}</ul>" if notes else "")


def check(data: Any, **options: Any) -> dict[str, Any]:
    """Is a graph fit to learn from? ``data`` and ``options`` are those of :class:`Graph`.

    >>> check("demo")["relations"]
    30
    """
    return Graph(data, **options).check()


def _again(entities: list[str], relations: list[str], parts: tuple[bytes, bytes, bytes]) -> Graph:
    graph = Graph.__new__(Graph)
    builder = _core.Builder()
    # Ids follow first appearance; names that occur in no train triple follow in the order of the parts.
    for split, ids in enumerate(parts):
        flat = memoryview(ids).cast("I").tolist()
        heads = [entities[at] for at in flat[::3]]
        tails = [entities[at] for at in flat[2::3]]
        builder.columns(split, heads, [relations[at] for at in flat[1::3]], tails)
    graph._core = builder.finish(False, 0, (0.1, 0.1))
    return graph


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
    elif hasattr(data, "mapped_triples") and hasattr(data, "entity_to_id"):
        _ids(builder, split, data.mapped_triples, _by_id(data.entity_to_id), _by_id(data.relation_to_id))
    elif hasattr(data, "to_pydict") or hasattr(data, "columns"):
        builder.columns(split, *_three(data, columns))
    elif hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        _array(builder, split, data, entity_names, relation_names)
    elif hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        _add(builder, split, pyarrow.table(data), columns, None, None)
    elif isinstance(data, Iterable):
        heads, relations, tails = [], [], []
        for row, triple in enumerate(data):
            if isinstance(triple, (str, bytes)) or not hasattr(triple, "__len__") or len(triple) != 3:
                raise DataError(
                    f"row {row}: {triple!r} is not a triple",
                    row=row,
                    remedy="give (head, relation, tail)",
                )
            heads.append(_plain(triple[0]))
            relations.append(_plain(triple[1]))
            tails.append(_plain(triple[2]))
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

    ids = numpy.ascontiguousarray(numpy.asarray(data), dtype=numpy.int64)
    entities = None if entity_names is None else [str(name) for name in entity_names]
    relations = None if relation_names is None else [str(name) for name in relation_names]
    builder.ids(split, ids.tobytes(), entities, relations)


def _three(data: Any, columns: Sequence[str] | str | None) -> list[list[Any]]:
    """The three columns of a table, by name."""
    raw = data.column_names if hasattr(data, "column_names") else data.columns
    names = [str(name) for name in raw]
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
    else:
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
    return [_values(data, name) for name in wanted]


def _values(data: Any, name: str) -> list[Any]:
    if hasattr(data, "column_names"):
        column = data.column(name)
        values: list[Any] = column.to_pylist()
        return values
    column = data[name]
    values = column.to_list() if hasattr(column, "to_list") else list(column)
    return values
