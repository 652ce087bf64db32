"""The native part of the package; private."""

from collections.abc import Callable
from typing import Any, final

from ruge.errors import UnknownName

_Hear = Callable[[str, int, int, str], object]

__all__ = [
    "Builder",
    "Column",
    "Graph",
    "Model",
    "Rules",
    "Vectors",
    "__version__",
    "adopt",
    "combine",
    "import_folder",
    "load",
    "main",
    "mine",
    "read_rules",
    "run",
    "search",
    "settle",
    "train",
    "write_file",
]

__version__: str

def main(words: list[str]) -> int: ...
def settle() -> None: ...
def write_file(path: str, text: str, force: bool) -> None: ...
def adopt(
    graph: Graph,
    classes: tuple[str, str],
    norm: int | None,
    power: bool,
    inverse: bool,
    entities: tuple[bytes, int],
    relations: tuple[bytes, int],
) -> Model: ...
def combine(
    model: Model,
    ranking_rules: str,
    rules: Rules | None,
    evidence: str | None,
    thorough: bool,
    effort: tuple[int, int] | None,
    minutes: float | None,
    out: str,
    force: bool,
    threads: int | None,
    progress: _Hear | None,
) -> Model: ...
def import_folder(folder: str, data: Graph | None) -> Model: ...
def run(
    graph: Graph,
    source: str,
    keywords: str,
    spec: tuple[str, str, bool] | None,
    out: str,
    force: bool,
    resume: bool,
    stages: tuple[str | None, str | None],
    evaluate_only: bool,
    samples: int,
    checkpoint_every: float,
    minutes: float | None,
    seeds: int | None,
    told: tuple[str | None, str | None, str | None],
    threads: int | None,
    progress: _Hear | None,
) -> str: ...
def search(
    graph: Graph,
    source: str,
    space: tuple[str, str, bool] | None,
    out: str,
    force: bool,
    resume: bool,
    skip: bool,
    trials: int | None,
    minutes: float | None,
    device: str | None,
    seed: int | None,
    checkpoint_every: float,
    threads: int | None,
    progress: _Hear | None,
) -> str: ...
def load(path: str, device: str, evaluated: bool) -> Model: ...
def mine(
    graph: Graph, keywords: str, time_limit: float | None, threads: int | None, progress: _Hear | None
) -> Rules: ...
def read_rules(
    path: str, graph: Graph, rule_format: str | None, confidence: str, relation_ids: str | None
) -> Rules: ...
def train(
    graph: Graph,
    keywords: str,
    spec: tuple[str, str, bool] | None,
    rules: Rules | None,
    out: str | None,
    force: bool,
    resume: bool,
    checkpoint_every: float,
    minutes: float | None,
    threads: int | None,
    progress: _Hear | None,
) -> Model: ...
@final
class Column:
    def __new__(
        cls,
        place: str,
        format: str,
        validity: tuple[bytes, int] | None,
        buffers: list[bytes],
        dictionary: Column | None,
    ) -> Column: ...

@final
class Graph:
    @staticmethod
    def read(
        path: str,
        *,
        columns: str | None,
        header: str,
        format: str | None,
        lenient: bool,
        seed: int,
        held_out: tuple[float, float] | None,
        labels: list[str],
        literals: str,
        graph_name: str,
        base: str | None,
    ) -> Graph: ...
    @staticmethod
    def restored(
        entities: list[str], relations: list[str], parts: tuple[bytes, ...], described: str
    ) -> Graph: ...
    def described(self) -> str: ...
    def check(self, constraints: str | None) -> str: ...
    def suggested_constraints(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def digest(self) -> str: ...
    @property
    def sizes(self) -> list[int]: ...
    def entity_names(self) -> list[str]: ...
    def relation_names(self) -> list[str]: ...
    def ids(self, split: str) -> bytes: ...

@final
class Builder:
    def __new__(cls) -> Builder: ...
    def read(
        self,
        split: int,
        path: str,
        *,
        columns: str | None,
        header: str,
        format: str | None,
        lenient: bool,
        literals: str,
        graph_name: str,
        base: str | None,
    ) -> None: ...
    def columns(self, split: int, heads: list[Any], relations: list[Any], tails: list[Any]) -> None: ...
    def cells(self, split: int, columns: tuple[Column, Column, Column], rows: int, row: int) -> None: ...
    def ids(self, split: int, ids: bytes, entities: list[str] | None, relations: list[str] | None) -> None: ...
    def finish(self, splits: bool, seed: int, held_out: tuple[float, float] | None) -> Graph: ...

@final
class Rules:
    @property
    def complete(self) -> bool: ...
    def __len__(self) -> int: ...
    def rows(self) -> str: ...
    def state(self) -> tuple[bytes, list[str], list[str], bool]: ...
    @staticmethod
    def restored(records: bytes, entities: list[str], relations: list[str], complete: bool) -> Rules: ...
    def text(self, format: str) -> str: ...

@final
class Model:
    def predict(
        self,
        questions: list[tuple[str | None, str | None, str | None]],
        top: int,
        new: bool,
        candidates: list[str] | None,
        typed: bool,
        by_rules: bool,
        threads: int | None,
    ) -> str: ...
    def unknown(
        self, questions: list[tuple[str | None, str | None, str | None]]
    ) -> tuple[int, UnknownName] | None: ...
    def explain(
        self, triple: tuple[str, str, str], groundings: int, similar: int, side: str, rules: Rules | None
    ) -> tuple[str, str, str]: ...
    def read_rules(self, path: str) -> Rules: ...
    def complete(
        self,
        relation: str | None,
        min_truth: float | None,
        top: int | None,
        per_query: int,
        rules: Rules | None,
        threads: int | None,
        progress: _Hear | None,
    ) -> str: ...
    def measure(
        self, relation: str | None, per_query: int, threads: int | None, progress: _Hear | None
    ) -> str: ...
    def evaluate(
        self, split: str, data: Graph | None, ties: str, hits: list[int], threads: int | None, progress: _Hear | None
    ) -> str: ...
    def similar(self, entity: str, top: int) -> str: ...
    def score(self, triples: list[tuple[str, str, str]]) -> tuple[list[float], list[float]]: ...
    def with_facts(self, facts: Graph) -> Model: ...
    def on_graph(self, graph: Graph) -> Model: ...
    def with_completeness(self, all: float | None, relations: list[tuple[str, float]]) -> Model: ...
    def with_feedback(
        self, path: str | None, judged: list[tuple[tuple[str, str, str], bool]]
    ) -> Model: ...
    def with_constraints(self, path: str | None, text: str | None) -> Model: ...
    def id(self, name: str, is_entity: bool) -> int: ...
    def save(self, path: str, force: bool) -> None: ...
    @property
    def spec(self) -> str: ...
    @property
    def notes(self) -> dict[str, str]: ...
    @property
    def kind(self) -> tuple[str, str]: ...
    def rules(self) -> Rules: ...
    def entity_names(self) -> list[str]: ...
    def relation_names(self) -> list[str]: ...
    def vectors(self, entities: bool) -> Vectors: ...
    @staticmethod
    def facts_text(proposals: str, ending: str, base: str, path: str) -> str: ...

@final
class Vectors:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
