"""Models between ruge and PyKEEN, both ways, judged by PyKEEN's own evaluator.

    python experiments/pykeen/check.py OUT [to|from]

Needs ruge and pykeen in one environment (1.11.1 with torch 2.15 is known to work). It trains on the embedded graph:

1. models of ruge, among them those of `ruge.run`, exported for PyKEEN: load.py must agree, and MRR by RankBasedEvaluator must be that
   of `evaluate`, for the vectors alone;
2. models of PyKEEN, with and without inverse triples, taken in from memory and from their folders: MRR by `evaluate` must be that of
   RankBasedEvaluator; then rules and evidence are put beside them, and one fact is explained.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

import ruge

#: Differences of MRR that the order of summing four-byte numbers explains.
ROUNDING = 5e-5


def main(out, way=None):
    torch.set_num_threads(2)
    demo = ruge.Graph("demo")
    rows = []
    if way != "from":
        rows += to_pykeen(demo, out)
    if way != "to":
        for kind in ("ComplEx", "DistMult", "HolE", "TransE"):
            for inverse in (False, True) if kind in ("ComplEx", "DistMult") else (False,):
                rows.append(from_pykeen(kind, inverse, demo, out))
    failed = False
    for way, name, ours, theirs, said in rows:
        agrees = ours is None or abs(ours - theirs) <= ROUNDING
        failed |= not agrees
        figures = "" if ours is None else f"MRR {ours:.6f} here, {theirs:.6f} by PyKEEN; "
        print(f"{'ok  ' if agrees else 'FAIL'} {way:<12} {name:<24} {figures}{said}")
    sys.exit(failed)


def to_pykeen(demo, out):
    rows = []
    run = ruge.run(demo, out=out / "run", dim=32, epochs=15, force=True)
    trained = {
        "ruge run, guided": out / "run" / "guided",
        "ruge run, unguided": out / "run" / "unguided",
        "ruge run, to deploy": pathlib.Path(run.out),
        "distmult-n3": {"preset": "distmult-n3", "dim": 32, "epochs": 8},
        "complex": {"model": "complex", "dim": 16, "epochs": 8},
        "hole": {"model": "hole", "dim": 16, "epochs": 8},
        "transe": {"model": "transe", "dim": 16, "epochs": 8},
        "rotate": {"model": "rotate", "dim": 16, "epochs": 8},
    }
    for name, how in trained.items():
        if isinstance(how, dict):
            folder = out / name
            ruge.train(demo, out=folder, force=True, **how)
        else:
            folder = how
        to = out / "exports" / name.replace(" ", "-").replace(",", "")
        words = ["export", folder, "--to", "pykeen", "--out", to, "--force", "--quiet"]
        subprocess.run([sys.executable, "-m", "ruge", *map(str, words)], check=True, capture_output=True)
        said = subprocess.run([sys.executable, to / "load.py"], check=True, capture_output=True, text=True).stdout
        theirs = ours = None
        if folder != pathlib.Path(run.out):
            theirs = judged(*loaded(to))
            ours = ruge.load(folder).evaluate().mrr
        rows.append(("to PyKEEN", name, ours, theirs, said.strip()))
    return rows


def loaded(folder):
    sys.path.insert(0, str(folder))
    try:
        sys.modules.pop("load", None)
        from load import load

        return load(folder)
    finally:
        sys.path.pop(0)


def judged(model, factories):
    train, valid, test = factories
    found = RankBasedEvaluator().evaluate(
        model=model,
        mapped_triples=test.mapped_triples,
        additional_filter_triples=[train.mapped_triples, valid.mapped_triples],
        use_tqdm=False,
        batch_size=256,
    )
    return found.get_metric("both.realistic.inverse_harmonic_mean_rank")


def from_pykeen(kind, inverse, demo, out):
    parts = {part: numpy.array(list(demo.triples(part))) for part in ("train", "valid", "test")}
    train = TriplesFactory.from_labeled_triples(parts["train"], create_inverse_triples=inverse)
    ids = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    valid, test = (TriplesFactory.from_labeled_triples(parts[part], **ids) for part in ("valid", "test"))
    result = pipeline(
        training=train,
        validation=valid,
        testing=test,
        model=kind,
        model_kwargs={"embedding_dim": 48},
        optimizer="adam",
        optimizer_kwargs={"lr": 0.01},
        training_loop="lcwa" if inverse else "slcwa",
        loss="crossentropy" if inverse else None,
        training_kwargs={"num_epochs": 20, "batch_size": 256, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 256},
        random_seed=0,
        device="cpu",
    )
    theirs = judged(result.model, (train, valid, test))
    model = ruge.from_pykeen(result.model, train, valid=valid, test=test)
    ours = model.evaluate().mrr
    folder = out / f"pykeen-{kind}{'-inverse' if inverse else ''}"
    result.save_to_directory(folder)
    with tempfile.TemporaryDirectory() as place:
        for part in ("train", "valid", "test"):
            demo.triples(part).write(pathlib.Path(place) / f"{part}.tsv")
        words = ["import", folder, "--data", place, "--out", f"{folder}-imported", "--force", "--quiet", "--json"]
        done = subprocess.run([sys.executable, "-m", "ruge", *map(str, words)], check=True, capture_output=True, text=True)
    again = ruge.load(json.loads(done.stdout)["model"]).evaluate()
    # The same ranks; only the order of the triples differs.
    assert abs(again.mrr - ours) < 1e-9 and again.hits == model.evaluate().hits, (kind, again, ours)
    both = ruge.combine(model)
    best = both.complete(relation="located_in", top=1)[0]
    why = both.explain(best.head, best.relation, best.tail)
    said = f"with rules and evidence {both.evaluate().mrr:.3f}; {why.sentence}"
    return ("from PyKEEN", kind + (", inverse triples" if inverse else ""), ours, theirs, said)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
