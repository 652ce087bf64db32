"""Find the facts that are missing from a knowledge graph, with reasons.

>>> import ruge
>>> graph = ruge.Graph("demo")
>>> rules = ruge.mine(graph)
>>> rules[0].confidence >= 0.8
True

Names, options and defaults are those of the command ``ruge``: a flag ``--min-pca`` is the keyword ``min_pca``.
"""

from __future__ import annotations

import atexit

from ruge._core import __version__, settle
from ruge.errors import DataError, DeviceError, MissingPackage, ModelFileError, RugeError, UnknownName

# As `typing` has it, whose import takes longer than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ruge.explanation import Explanation
    from ruge.foreign import from_pykeen, import_folder
    from ruge.graph import Check, Graph, Triples, check
    from ruge.jobs import Run, Search, Seeds, combine, demo, run, search
    from ruge.model import Model, Names, load, train
    from ruge.results import Answers, Metrics, Proposals, Row, Table
    from ruge.rules import Rule, Rules, mine, read_rules

__all__ = [
    "Answers",
    "Check",
    "DataError",
    "DeviceError",
    "Explanation",
    "Graph",
    "Metrics",
    "MissingPackage",
    "Model",
    "ModelFileError",
    "Names",
    "Proposals",
    "Row",
    "RugeError",
    "Rule",
    "Rules",
    "Run",
    "Search",
    "Seeds",
    "Table",
    "Triples",
    "UnknownName",
    "__version__",
    "check",
    "combine",
    "demo",
    "from_pykeen",
    "import_folder",
    "load",
    "mine",
    "read_rules",
    "run",
    "search",
    "train",
]

_HOMES = {
    "Check": "graph",
    "Graph": "graph",
    "Triples": "graph",
    "check": "graph",
    "Explanation": "explanation",
    "from_pykeen": "foreign",
    "import_folder": "foreign",
    "Run": "jobs",
    "Search": "jobs",
    "Seeds": "jobs",
    "combine": "jobs",
    "demo": "jobs",
    "run": "jobs",
    "search": "jobs",
    "Model": "model",
    "Names": "model",
    "load": "model",
    "train": "model",
    "Answers": "results",
    "Metrics": "results",
    "Proposals": "results",
    "Row": "results",
    "Table": "results",
    "Rule": "rules",
    "Rules": "rules",
    "mine": "rules",
    "read_rules": "rules",
}


# A checkpoint that is being written when a job is interrupted is written before the interpreter ends.
atexit.register(settle)


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
