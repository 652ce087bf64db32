"""Soft rules: mined from a graph, or read from a file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ruge import _checks, _core
from ruge._progress import Progress, callback
from ruge.errors import RugeError
from ruge.graph import of_data
from ruge.results import Tabular, write_text


@dataclasses.dataclass(frozen=True, repr=False)
class Rule:
    """A rule with AMIE's measures."""

    rule: str
    words: str
    confidence: float
    support: int | None
    head_coverage: float | None
    std: float | None
    pca: float | None
    head: str
    atoms: int

    def __repr__(self) -> str:
        support = "" if self.support is None else f"   support {self.support:,}"
        return f"{self.words}   conf {self.confidence:.2f}{support}"


class Rules(Tabular, Sequence[Rule]):
    """Rules in the order in which they were mined or read."""

    def __init__(self, core: _core.Rules) -> None:
        self._core = core
        self._rows: list[dict[str, Any]] | None = None

    @property
    def complete(self) -> bool:
        """Whether every head was searched; false where a time limit ended mining."""
        return self._core.complete

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every rule as a row."""
        if self._rows is None:
            self._rows = json.loads(self._core.rows())
        return [dict(row) for row in self._rows or []]

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.to_dicts()
        return {field.name: [row[field.name] for row in rows] for field in dataclasses.fields(Rule)}

    def text(self, to: str = "native") -> str:
        """The rules in a format of ``ruge rules convert``."""
        return self._core.text(_checks.word("to", to))

    def write(self, path: str | os.PathLike[str], *, to: str = "native", force: bool = False) -> None:
        """Writes a rule file in a format of ``ruge rules convert``; an existing file is kept unless ``force`` is given."""
        write_text(path, self.text(to), force)

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, at: Any) -> Any:
        rows = self.to_dicts()[at]
        return [Rule(**row) for row in rows] if isinstance(rows, list) else Rule(**rows)

    def __iter__(self) -> Iterator[Rule]:
        return (Rule(**row) for row in self.to_dicts())

    def __repr__(self) -> str:
        lines = [f"{len(self):,} rules"] + [f"  {rule!r}" for rule in self[:5]]
        return "\n".join([*lines, "  …"] if len(self) > 5 else lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self.to_dicts() == other.to_dicts()

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, self._core.state())


def _again(records: bytes, entities: list[str], relations: list[str], complete: bool) -> Rules:
    return Rules(_core.Rules.restored(records, entities, relations, complete))


def mine(
    graph: Any,
    *,
    preset: str | None = None,
    max_body: int | None = None,
    min_pca: float | None = None,
    min_hc: float | None = None,
    min_std: float | None = None,
    min_support: int | None = None,
    min_head_size: int | None = None,
    no_skyline: bool = False,
    injective: bool = False,
    constants: bool = False,
    heads: Sequence[str] | None = None,
    exclude_heads: Sequence[str] | None = None,
    bodies: Sequence[str] | None = None,
    exclude_bodies: Sequence[str] | None = None,
    time_limit: float | None = None,
    minutes: float | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Rules:
    """Mines soft rules from the training triples, as ``ruge mine``. ``graph`` is a :class:`Graph` or what one is made from. After
    ``time_limit`` seconds, or ``minutes``, the rules of finished heads are returned, and ``complete`` is false.

    >>> len(mine("demo", min_pca=0.9)) < len(mine("demo", min_pca=0.5))
    True
    """
    if time_limit is not None and minutes is not None:
        raise RugeError("time_limit and minutes cannot be given together", remedy="give one of them")
    limit = None if time_limit is None else _checks.seconds("time_limit", time_limit)
    if minutes is not None:
        limit = 60 * _checks.number("minutes", minutes, 0, 1e6)
    whole = {"max_body": max_body, "min_support": min_support, "min_head_size": min_head_size}
    shares = {"min_pca": min_pca, "min_hc": min_hc, "min_std": min_std}
    lists = {"heads": heads, "exclude_heads": exclude_heads, "bodies": bodies, "exclude_bodies": exclude_bodies}
    keywords = {
        "preset": None if preset is None else _checks.word("preset", preset),
        **{name: None if value is None else _checks.whole(name, value) for name, value in whole.items()},
        **{name: None if value is None else _checks.number(name, value) for name, value in shares.items()},
        "no_skyline": bool(no_skyline),
        "injective": bool(injective),
        "constants": bool(constants),
        **{name: None if value is None else _names(name, value) for name, value in lists.items()},
    }
    core, workers = of_data(graph)._core, _checks.threads(threads)
    with callback(progress) as hear:
        return Rules(_core.mine(core, json.dumps(keywords), limit, workers, hear))


def _names(keyword: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise RugeError(f"{keyword}={value!r} is not a list of relations", remedy=f"give {keyword} as in [{value!r}]")
    return [_checks.called(name, "relation") for name in value]


def read_rules(
    path: str | os.PathLike[str],
    graph: Any,
    *,
    rule_format: str | None = None,
    confidence: str = "written",
    relation_ids: str | os.PathLike[str] | None = None,
) -> Rules:
    """Reads a rule file in any format of ``ruge rules convert``: recognised by its content, or named. ``confidence`` says which of its
    numbers counts (``written``, ``pca``, ``std``, ``smoothed``), ``relation_ids`` is a file of names for formats with ids."""
    at, ids = _checks.path("path", path), None if relation_ids is None else _checks.path("relation_ids", relation_ids)
    which = None if rule_format is None else _checks.word("rule_format", rule_format)
    return Rules(_core.read_rules(at, of_data(graph)._core, which, _checks.word("confidence", confidence), ids))
