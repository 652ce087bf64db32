"""Results: small immutable tables that become pandas, polars or Arrow, and show themselves in a notebook."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ruge import _core

#: Rows that a notebook shows.
SHOWN = 20


class Table(Sequence[dict[str, Any]]):
    """Rows with named columns.

    >>> t = Table([{"entity": "Paris", "score": 1.5}], ("entity", "score"))
    >>> len(t), t[0]["entity"], t.column("score")
    (1, 'Paris', [1.5])
    """

    def __init__(self, rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
        self._rows = rows
        self.columns: tuple[str, ...] = tuple(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        return [row.get(name) for row in self._rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows, with everything that the command line's ``--json`` has."""
        return [dict(row) for row in self._rows]

    def _flat(self) -> dict[str, list[Any]]:
        def plain(value: Any) -> Any:
            return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value

        return {name: [plain(value) for value in self.column(name)] for name in self.columns}

    def to_pandas(self) -> Any:
        """A pandas data frame; lists are JSON text."""
        import pandas

        return pandas.DataFrame(self._flat(), columns=list(self.columns))

    def to_polars(self) -> Any:
        """A polars data frame; lists are JSON text."""
        import polars

        return polars.DataFrame(self._flat(), infer_schema_length=None)

    def to_arrow(self) -> Any:
        """A pyarrow table; lists are JSON text."""
        import pyarrow

        return pyarrow.table(self._flat())

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} of {len(self)} rows: {', '.join(self.columns)}"]
        for row in self._rows[:5]:
            lines.append("  " + "  ".join(_short(row.get(name)) for name in self.columns))
        if len(self) > 5:
            lines.append("  …")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_short(row.get(name)))}</td>" for name in self.columns) + "</tr>"
            for row in self._rows[:SHOWN]
        )
        more = f"<p>{len(self) - SHOWN} more rows</p>" if len(self) > SHOWN else ""
        return f'<table class="ruge-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "; ".join(str(item.get("rule", item)) if isinstance(item, dict) else str(item) for item in value)
    return str(value)


class Answers(Table):
    """Answers, best first. ``assumes`` says what truth means."""

    def __init__(self, rows: list[dict[str, Any]], columns: Sequence[str], assumes: str) -> None:
        super().__init__(rows, columns)
        self.assumes = assumes


class Proposals(Table):
    """Proposed facts, most likely first, each with its rules."""

    def __init__(self, found: dict[str, Any]) -> None:
        columns = ("head", "relation", "tail", "truth", "rules", "rule_count", "score")
        super().__init__(found["facts"], columns)
        self.assumes: str = found["assumes"]
        self.candidates: int = found["candidates"]

    def write(self, path: str | os.PathLike[str], *, base: str = "urn:ruge:", force: bool = False) -> None:
        """Writes the facts; the ending decides: .tsv, .csv, .jsonl, .nt, .ttl or .cypher."""
        name = os.fspath(path)
        text = _core.Model.facts_text(json.dumps(self._rows), os.path.splitext(name)[1].lstrip("."), base)
        with open(name, "w" if force else "x", encoding="utf-8", newline="") as out:
            out.write(text)


class Metrics(Table):
    """Filtered ranking: ``mrr`` and ``hits`` over all questions; the rows are relations."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["by_relation"], ("relation", "queries", "mrr", "median", "mean_rank"))
        self.json = found
        self.mrr: float = found["mrr"]
        self.median: float = found["median"]
        self.queries: int = found["queries"]
        self.hits: dict[int, float] = {int(n): share for n, share in found["hits"].items()}
        self.ranks_sha256: str = found["ranks_sha256"]

    def __repr__(self) -> str:
        hits = ", ".join(f"{n}: {share:.3f}" for n, share in self.hits.items())
        return f"Metrics(mrr={self.mrr:.3f}, hits={{{hits}}}, queries={self.queries})"


class Explanation:
    """Why a triple is held true: ``sentence``, ``truth``, ``parts``, ``rules`` and ``groundings``, and a drawing."""

    def __init__(self, found: dict[str, Any], svg: str) -> None:
        self.json = found
        self.svg = svg
        self.sentence: str = found["sentence"]
        self.truth: float = found["truth"]
        self.rank: float = found["rank"]
        self.known: str | None = found["known"]
        self.parts: list[dict[str, Any]] = found["parts"]
        self.rules: list[dict[str, Any]] = found["rules"]
        self.groundings: list[dict[str, Any]] = found["groundings"]

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rules = "".join(f"<li>{html.escape(str(rule['words']))}</li>" for rule in self.rules)
        meter = f'<meter min="0" max="1" value="{self.truth:.4f}"></meter> {self.truth:.3f}'
        text = f'<div class="ruge-explanation"><p>{html.escape(self.sentence)}</p><p>truth {meter}</p>'
        return f"{text}<ol>{rules}</ol>{self.svg}</div>"
