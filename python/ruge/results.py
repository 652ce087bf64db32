"""Results: small immutable tables that become pandas, polars or Arrow, and show themselves in a notebook."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ruge import _checks, _core
from ruge.errors import DataError, MissingPackage

#: Rows that a notebook shows.
SHOWN = 20


class Row(dict[str, Any]):
    """A row: its values by name, as ``row["truth"]`` or ``row.truth``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the row has no {name!r}; it has {', '.join(self)}") from None


def rows_of(text: str) -> Any:
    """JSON, with objects as rows."""
    return json.loads(text, object_hook=Row)


class Tabular:
    """What has columns becomes a table of pandas, polars or Arrow."""

    def _columns(self) -> dict[str, list[Any]]:
        raise NotImplementedError

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        columns = self._columns()
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def to_pandas(self) -> Any:
        """A pandas data frame."""
        pandas = package("pandas", "pandas")
        columns = self._columns()
        return pandas.DataFrame(columns, columns=list(columns))

    def to_polars(self) -> Any:
        """A polars data frame."""
        polars = package("polars", "polars")
        return polars.DataFrame(self._columns(), infer_schema_length=None)

    def to_arrow(self) -> Any:
        """A pyarrow table."""
        pyarrow = package("pyarrow", "arrow")
        return pyarrow.table(self._columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table for whatever reads Arrow; pyarrow or polars makes it."""
        for make in (self.to_arrow, self.to_polars):
            try:
                table = make()
            except ImportError:
                continue
            return table.__arrow_c_stream__(requested_schema)
        raise MissingPackage(
            "an Arrow table needs pyarrow or polars, and neither is installed",
            remedy="install one of them, as with `pip install ruge[arrow]`",
        )

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = list(zip(*columns.values(), strict=True))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(short(value))}</td>" for value in row) + "</tr>" for row in rows[:SHOWN]
        )
        more = f"<p>{len(rows) - SHOWN:,} more rows</p>" if len(rows) > SHOWN else ""
        return f'<table class="ruge-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


class Table(Tabular, Sequence[Row]):
    """Rows with named columns.

    >>> t = Table([{"entity": "Paris", "score": 1.5}], ("entity", "score"))
    >>> len(t), t[0].entity, t.column("score")
    (1, 'Paris', [1.5])
    """

    def __init__(self, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
        self._rows = [row if isinstance(row, Row) else Row(row) for row in rows]
        self.columns: tuple[str, ...] = tuple(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._rows == other._rows

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        return [row.get(name) for row in self._rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows, with everything that the command line's ``--json`` has."""
        return [dict(row) for row in self._rows]

    def _columns(self) -> dict[str, list[Any]]:
        return {name: self.column(name) for name in self.columns}

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} of {len(self):,} rows: {', '.join(self.columns)}"]
        for row in self._rows[:5]:
            lines.append("  " + "  ".join(short(row.get(name)) for name in self.columns))
        if len(self) > 5:
            lines.append("  …")
        return "\n".join(lines)


def short(value: Any) -> str:
    """A value in a cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "; ".join(str(item.get("rule", item)) if isinstance(item, dict) else str(item) for item in value)
    return str(value)


class Answers(Table):
    """Answers, best first. ``assumes`` says what truth means."""

    def __init__(self, rows: Sequence[dict[str, Any]], columns: Sequence[str], assumes: str) -> None:
        super().__init__(rows, columns)
        self.assumes = assumes

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the answers; the ending decides: .tsv, .csv or .jsonl."""
        write_table(self, path, force)


class Proposals(Table):
    """Proposed facts, most likely first, each with its rules."""

    def __init__(self, found: dict[str, Any]) -> None:
        columns = ("head", "relation", "tail", "truth", "rules", "rule_count", "score")
        super().__init__(found["facts"], columns)
        self.assumes: str = found["assumes"]
        self.candidates: int = found["candidates"]
        self.json = found

    def write(self, path: str | os.PathLike[str], *, base: str = "urn:ruge:", force: bool = False) -> None:
        """Writes the facts; the ending decides: .tsv, .csv, .jsonl, .nt, .ttl or .cypher."""
        at = _checks.path("path", path)
        ending = os.path.splitext(at)[1].lstrip(".")
        write_text(at, _core.Model.facts_text(json.dumps(self._rows), ending, _checks.word("base", base), at), force)


class Metrics(Table):
    """Filtered ranking: ``mrr`` and ``hits`` over all questions; the rows are relations."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["by_relation"], ("relation", "queries", "mrr", "median", "mean_rank"))
        self.json = found
        self.mrr: float = found["mrr"]
        self.median: float = found["median"]
        self.queries: int = found["queries"]
        self.hits: dict[int, float] = {n: found["hits"][str(n)] for n in sorted(map(int, found["hits"]))}
        self.ranks_sha256: str = found["ranks_sha256"]

    def __repr__(self) -> str:
        hits = ", ".join(f"{n}: {share:.3f}" for n, share in self.hits.items())
        return f"Metrics(mrr={self.mrr:.3f}, hits={{{hits}}}, queries={self.queries})"

    def _repr_html_(self) -> str:
        hits = "".join(f"<th>H@{n}</th>" for n in self.hits), "".join(f"<td>{x:.3f}</td>" for x in self.hits.values())
        row = f"<td>{self.mrr:.3f}</td>{hits[1]}<td>{self.median:g}</td><td>{self.queries:,}</td>"
        head = f"<tr><th>MRR</th>{hits[0]}<th>median</th><th>questions</th></tr>"
        return f'<table class="ruge-metrics">{head}<tr>{row}</tr></table>{super()._repr_html_()}'


def package(name: str, extra: str) -> Any:
    """A package that is not required."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"this needs {name}, which cannot be imported: {error}", remedy=f"install it, as with `pip install ruge[{extra}]`"
        ) from None


def write_text(path: str | os.PathLike[str], text: str, force: bool) -> None:
    """Writes a file, complete or not at all; an existing one is kept unless ``force`` is given."""
    _core.write_file(_checks.path("path", path), text, bool(force))


def write_table(table: Tabular, path: str | os.PathLike[str], force: bool) -> None:
    """Writes a table as .tsv, .csv or .jsonl."""
    import csv
    import io

    at = _checks.path("path", path)
    ending = os.path.splitext(at)[1]
    out = io.StringIO()
    if ending == ".jsonl":
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_dicts())
    elif ending in (".csv", ".tsv"):
        writer = csv.writer(out, delimiter="," if ending == ".csv" else "\t", lineterminator="\n")
        columns = table._columns()
        writer.writerow(columns)

        def plain(value: Any) -> Any:
            return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value

        writer.writerows([plain(value) for value in row] for row in zip(*columns.values(), strict=True))
    else:
        what = ending or "a file without an ending"
        raise DataError(f"{at}: a table cannot be written as {what}", path=at, remedy="use .tsv, .csv or .jsonl")
    write_text(path, out.getvalue(), force)
