"""Find the facts that are missing from a knowledge graph, with reasons.

>>> import ruge
>>> graph = ruge.Graph("demo")
>>> rules = ruge.mine(graph)
>>> rules[0].confidence >= 0.8
True

Names, options and defaults are those of the command ``ruge``: a flag ``--min-pca`` is the keyword ``min_pca``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ruge._core import __version__
from ruge.errors import DataError, DeviceError, ModelFileError, RugeError, UnknownName

if TYPE_CHECKING:
    from ruge.graph import Graph, check
    from ruge.jobs import Run, combine, demo, run
    from ruge.model import Model, Names, load, train
    from ruge.results import Answers, Explanation, Metrics, Proposals, Table
    from ruge.rules import Rule, Rules, mine, read_rules

__all__ = [
    "Answers",
    "DataError",
    "DeviceError",
    "Explanation",
    "Graph",
    "Metrics",
    "Model",
    "ModelFileError",
    "Names",
    "Proposals",
    "RugeError",
    "Rule",
    "Rules",
    "Run",
    "Table",
    "UnknownName",
    "__version__",
    "check",
    "combine",
    "demo",
    "load",
    "mine",
    "read_rules",
    "run",
    "train",
]

_HOMES = {
    "Graph": "graph",
    "check": "graph",
    "Run": "jobs",
    "combine": "jobs",
    "demo": "jobs",
    "run": "jobs",
    "Model": "model",
    "Names": "model",
    "load": "model",
    "train": "model",
    "Answers": "results",
    "Explanation": "results",
    "Metrics": "results",
    "Proposals": "results",
    "Table": "results",
    "Rule": "rules",
    "Rules": "rules",
    "mine": "rules",
    "read_rules": "rules",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `import ruge` and the command start at once.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ruge' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"ruge.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
