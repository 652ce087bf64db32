"""Models of other programs: PyKEEN's and LibKGE's, to be asked, explained, calibrated and combined with rules."""

from __future__ import annotations

import os
from typing import Any

from ruge import _checks, _core
from ruge.errors import ModelFileError
from ruge.graph import of_data
from ruge.model import Model


def from_pykeen(model: Any, factory: Any, *, valid: Any = None, test: Any = None) -> Model:
    """A model of PyKEEN as one of ours, with the triples that it was trained on.

    ``factory`` is the ``TriplesFactory`` of training, or a data set of PyKEEN, whose validation and test triples are then taken too;
    ``valid`` and ``test`` are factories with the same ids. Validation triples are what truth and rules are fitted on. ComplEx,
    DistMult, HolE and TransE have the same formulas here; other models are an error that says why.
    """
    if hasattr(factory, "training"):
        valid = getattr(factory, "validation", None) if valid is None else valid
        test = getattr(factory, "testing", None) if test is None else test
        factory = factory.training
    names = [_by_id(getattr(factory, kind), kind) for kind in ("entity_to_id", "relation_to_id")]
    parts = tuple(_ids(part, factory) for part in (factory, valid, test))
    graph = _core.Graph.restored(names[0], names[1], parts, '{"labels": {"types": [], "entities": [], "relations": []}, "prefixes": []}')
    interaction = getattr(model, "interaction", None)
    norm = getattr(interaction, "p", None)
    if norm is not None and int(norm) != norm:
        norm = None
    return Model(
        _core.adopt(
            graph,
            (type(model).__name__, type(interaction).__name__),
            None if norm is None else int(norm),
            bool(getattr(interaction, "power_norm", False)),
            bool(getattr(model, "use_inverse_triples", False)),
            _table(model, "entity_representations"),
            _table(model, "relation_representations"),
        )
    )


def import_folder(folder: str | os.PathLike[str], data: Any = None) -> Model:
    """A model that PyKEEN's ``save_to_directory`` or LibKGE left in a folder, as ``ruge import``. Its files are read as data, and
    nothing in them is run. ``data`` are what it was trained on, with their split; LibKGE's need them, and PyKEEN keeps train alone."""
    graph = None if data is None else of_data(data)._core
    return Model(_core.import_folder(_checks.path("folder", folder), graph))


def _by_id(ids: dict[str, int], what: str) -> list[str]:
    names = [""] * len(ids)
    for name, at in ids.items():
        if not 0 <= at < len(names) or names[at]:
            raise ModelFileError(f"{what} has gaps: {at} for {name!r}", remedy="give the factory that the model was trained with")
        names[at] = str(name)
    return names


def _ids(part: Any, factory: Any) -> bytes:
    import numpy

    if part is None:
        return b""
    for kind in ("entity_to_id", "relation_to_id"):
        if getattr(part, kind) != getattr(factory, kind):
            raise ModelFileError(
                f"the factories differ in {kind}",
                remedy="make those of valid and test with the ids of training: TriplesFactory.from_path(..., entity_to_id=...)",
            )
    return numpy.ascontiguousarray(numpy.asarray(part.mapped_triples), dtype=numpy.uint32).tobytes()


def _table(model: Any, name: str) -> tuple[bytes, int]:
    import numpy

    found = list(getattr(model, name, []))
    if len(found) != 1 or not hasattr(found[0], "_embeddings"):
        raise ModelFileError(f"the model has not one table as its {name}", remedy="only models with a row per name can be imported")
    if getattr(found[0], "normalizer", None) is not None:
        raise ModelFileError(f"its {name} are normalised whenever they are read", remedy="train it without a normalizer")
    rows = found[0]._embeddings.weight.detach().cpu().numpy()
    return numpy.ascontiguousarray(rows, dtype=numpy.float32).tobytes(), int(rows.shape[1])
