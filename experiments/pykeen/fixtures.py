"""Makes fixtures/pykeen: small models that PyKEEN has trained and saved, and the scores that PyKEEN gives.

    python experiments/pykeen/fixtures.py fixtures/pykeen

Needs pykeen (1.11.1 with torch 2.15 made the ones that are there). Each folder is what PipelineResult.save_to_directory leaves, but
for base.pth and the two JSON files, which nobody here reads; scores.json has [head, relation, tail, score of the tail, score of the
head] for every triple, known or not. libkge.pt is no file of LibKGE: torch.save wrote it, in the layout that LibKGE's own code has
for a checkpoint; libkge.json has its scores by LibKGE's formula, with ids.
"""

import collections
import itertools
import json
import pathlib
import shutil
import sys

import numpy
import torch
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

FACTS = [
    ("Paris", "capital_of", "France"),
    ("Rome", "capital_of", "Italy"),
    ("Paris", "located_in", "France"),
    ("Milan", "located_in", "Italy"),
    ("Rome", "located_in", "Italy"),
    ("Lyon", "located_in", "France"),
    ("France", "borders", "Italy"),
    ("Italy", "borders", "France"),
]
MODELS = [
    ("complex", "ComplEx", False, {}),
    ("complex_inverse", "ComplEx", True, {}),
    ("distmult_inverse", "DistMult", True, {}),
    ("hole", "HolE", False, {}),
    ("transe_l1", "TransE", False, {"scoring_fct_norm": 1}),
    ("transe_l2", "TransE", False, {"scoring_fct_norm": 2}),
    ("rotate", "RotatE", False, {}),
]


def main(out):
    for folder, kind, inverse, options in MODELS:
        factory = TriplesFactory.from_labeled_triples(numpy.array(FACTS), create_inverse_triples=inverse)
        result = pipeline(
            training=factory,
            testing=factory,
            model=kind,
            model_kwargs={"embedding_dim": 4, **options},
            training_kwargs={"num_epochs": 5, "use_tqdm": False},
            evaluation_kwargs={"use_tqdm": False},
            random_seed=1,
            device="cpu",
        )
        place = out / folder
        shutil.rmtree(place, ignore_errors=True)
        result.save_to_directory(place)
        for unread in ("training_triples/base.pth", "results.json", "metadata.json"):
            (place / unread).unlink()
        entities, relations = list(factory.entity_to_id.items()), list(factory.relation_to_id.items())
        if kind == "RotatE":
            # Refused for its formula.
            continue
        rows = []
        with torch.no_grad():
            for (h, hid), (r, rid), (t, tid) in itertools.product(entities, relations, entities):
                tail = result.model.predict_t(torch.tensor([[hid, rid]]))[0, tid].item()
                head = result.model.predict_h(torch.tensor([[rid, tid]]))[0, hid].item()
                rows.append([h, r, t, tail, head])
        text = ",\n".join(json.dumps(row) for row in rows)
        (place / "scores.json").write_text(f"[\n{text}\n]\n")
    libkge(out / "libkge.pt")


def libkge(path):
    torch.manual_seed(0)
    entities, relations = torch.randn(6, 8), torch.randn(6, 8)
    weights = collections.OrderedDict()
    for prefix in ("", "_base_model."):
        weights[f"{prefix}_entity_embedder._embeddings.weight"] = entities
        weights[f"{prefix}_relation_embedder._embeddings.weight"] = relations
    options = {
        "model": "reciprocal_relations_model",
        "dataset": {"name": "toy"},
        "reciprocal_relations_model": {"base_model": {"type": "complex"}},
    }
    checkpoint = {"type": "train", "epoch": 3, "model": [weights, {}], "config": options}
    torch.save(checkpoint, path)
    e, r = (torch.complex(*rows.chunk(2, dim=1)) for rows in (entities, relations))
    score = lambda head, relation, tail: (e[head] * r[relation] * e[tail].conj()).sum().real.item()
    # Heads are asked for by the inverse relation, which stands three rows below.
    rows = [[h, p, t, score(h, p, t), score(t, p + 3, h)] for h in range(6) for p in range(3) for t in range(6)]
    text = ",\n".join(json.dumps(row) for row in rows)
    path.with_suffix(".json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
