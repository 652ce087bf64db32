"""Why a triple is held true, as plain data and as a page of a notebook."""

from __future__ import annotations

import base64
import dataclasses
import html
import os
from typing import Any

from ruge import _checks
from ruge.errors import DataError
from ruge.results import Row, Table, write_text

#: Parts and rules that a notebook shows.
SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Grounding:
    """One way in which a rule concludes the triple: the facts that it follows from."""

    premises: list[Row]
    premise_truth: float
    push: float


@dataclasses.dataclass(frozen=True)
class Reason:
    """A rule that concludes the triple. ``groundings`` are the first few of ``grounding_count``."""

    rule: str
    words: str
    confidence: float
    push: float
    grounding_count: int
    at_least: bool
    groundings: list[Grounding]
    redundant: list[Row]


class Explanation:
    """Why a triple is held true.

    ``sentence`` says it in words, ``truth`` is the chance that it is true, ``known`` the part of the data that lists it, ``rank``
    its place among all answers. ``parts`` is a table of what the ranking score is made of: the model, each rule, evidence, for and
    against. ``rules`` are the rules that conclude it, with the facts they follow from; ``against`` are habits and constraints that
    it would break; ``similar`` are similar known facts where no rule fires. ``json`` is what ``ruge explain --json`` prints;
    ``svg`` and ``dot`` are the drawings of ``--svg`` and ``--dot``.
    """

    def __init__(self, found: Row, svg: str, dot: str) -> None:
        self.json = found
        self.svg = svg
        self.dot = dot
        self.head: str = found["head"]
        self.relation: str = found["relation"]
        self.tail: str = found["tail"]
        self.sentence: str = found["sentence"]
        self.truth: float = found["truth"]
        self.estimate: float = found["estimate"]
        self.score: float = found["score"]
        self.rank: float = found["rank"]
        self.head_rank: float = found["head_rank"]
        self.known: str | None = found["known"]
        self.against: list[str] = found["against"]
        self.similar: list[Row] = found["similar"]
        self.parts = Table(found["parts"], ("kind", "value", "words", "rule", "confidence", "feature", "count"))
        self.rules: list[Reason] = [
            Reason(
                rule["rule"],
                rule["words"],
                rule["confidence"],
                rule["push"],
                rule["groundings"],
                rule["at_least"],
                [
                    Grounding(one["premises"], one["premise_truth"], one["push"])
                    for one in found["groundings"]
                    if one["rule_index"] == at
                ],
                rule["redundant"],
            )
            for at, rule in enumerate(found["rules"])
        ]

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the drawing, as .svg, or as .dot for Graphviz."""
        at = _checks.path("path", path)
        endings = {".svg": self.svg, ".dot": self.dot}
        ending = os.path.splitext(at)[1]
        if ending not in endings:
            raise DataError(
                f"{at}: an explanation cannot be written as {ending or 'a file without an ending'}", path=at, remedy="use .svg or .dot"
            )
        write_text(at, endings[ending], force)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        say = html.escape
        known = f'<span class="ruge-note">known: in {say(self.known)}</span>' if self.known else ""
        text = (
            f"<style>{STYLE}</style><div class='ruge-why'><p class='ruge-fact'>{_fact(self.json)}</p>"
            f"<p>{say(self.sentence)}</p>"
            f'<p>truth <meter min="0" max="1" value="{self.truth:.4f}"></meter> <span class="ruge-number">{_truth(self.truth)}</span>, '
            f"rank {self.rank:g} of {self.json['entities']:,} {known}</p>"
        )
        if self.rules:
            items = "".join(map(_reason, self.rules[:SHOWN]))
            more = f"<p class='ruge-note'>and {len(self.rules) - SHOWN} more rules</p>" if len(self.rules) > SHOWN else ""
            text += f"<p class='ruge-title'>Rules that conclude it</p><ol>{items}</ol>{more}"
        if self.similar:
            items = "".join(f"<li>{_fact(fact)}</li>" for fact in self.similar[:SHOWN])
            text += f"<p class='ruge-title'>No rule fires; the most similar known facts</p><ul>{items}</ul>"
        if len(self.parts) > 1:
            text += f"<p class='ruge-title'>What the score is made of</p>{_parts(self.parts)}"
        if self.against:
            items = "".join(f"<li>{say(reason)}</li>" for reason in self.against)
            text += f"<p class='ruge-title'>What speaks against it</p><ul>{items}</ul>"
        # A picture keeps its styles to itself, and a script in it would not run.
        drawing = base64.b64encode(self.svg.encode()).decode()
        return f'{text}<img class="ruge-drawing" alt="the evidence, drawn" src="data:image/svg+xml;base64,{drawing}"></div>'


def _truth(truth: float) -> str:
    return "above 0.99" if 0.99 < truth < 1 else f"{truth:.2f}"


def _fact(fact: Row) -> str:
    return html.escape(f"{fact['head']} {fact['relation']} {fact['tail']}")


def _reason(reason: Reason) -> str:
    premises = "".join(
        f"<li>{'not known: ' if premise['negated'] else ''}{_fact(premise)}</li>"
        for grounding in reason.groundings[:1]
        for premise in grounding.premises
    )
    more = reason.grounding_count - 1
    also = f"<li class='ruge-note'>and {more:,} more ways</li>" if more > 0 else ""
    said = f"{html.escape(reason.words)} <span class='ruge-note'>confidence {reason.confidence:.2f}</span>"
    return f"<li>{said}<ul>{premises}{also}</ul></li>"


def _parts(parts: Table) -> str:
    shown = list(parts[:SHOWN])
    against = min(parts, key=lambda part: part["value"])
    if against["value"] < 0 and not any(against is part for part in shown):
        shown[-1] = against
    most = max((abs(part["value"]) for part in parts), default=0) or 1
    rows = "".join(
        f"<tr><td>{html.escape(part['words'])}</td><td class='ruge-number'>{part['value']:+.3g}</td>"
        f"<td><span class='ruge-bar {'ruge-for' if part['value'] >= 0 else 'ruge-against'}' "
        f"style='width:{max(1, round(120 * abs(part['value']) / most))}px'></span></td></tr>"
        for part in shown
    )
    rest = [part for part in parts if not any(part is other for other in shown)]
    if rest:
        rows += (
            f"<tr class='ruge-note'><td>{len(rest)} more parts</td>"
            f"<td class='ruge-number'>{sum(part['value'] for part in rest):+.3g}</td><td></td></tr>"
        )
    return f"<table class='ruge-parts'>{rows}</table>"


STYLE = """
.ruge-why{max-width:60em;line-height:1.45}
.ruge-why p{margin:.4em 0}
.ruge-why ol,.ruge-why ul{margin:.2em 0 .2em 1.4em;padding:0}
.ruge-why .ruge-fact{font-size:1.2em;font-weight:600}
.ruge-why .ruge-title{font-weight:600;margin-top:.9em}
.ruge-why .ruge-note{color:var(--jp-content-font-color2,#767676)}
.ruge-why .ruge-number{font-weight:600}
.ruge-why meter{width:10em;vertical-align:middle}
.ruge-why .ruge-parts{border-collapse:collapse;margin:.2em 0}
.ruge-why .ruge-parts td{border:0;padding:.15em .8em .15em 0;text-align:left;vertical-align:middle}
.ruge-why .ruge-parts .ruge-number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.ruge-why .ruge-bar{display:inline-block;height:.7em;border-radius:2px}
.ruge-why .ruge-for{background:var(--jp-success-color1,#2e7d32)}
.ruge-why .ruge-against{background:var(--jp-error-color1,#c62828)}
.ruge-why .ruge-drawing{max-width:100%;margin-top:.6em}
"""
