"""One task in PyKEEN and in ruge, on the same machine: `python experiments/python/side_by_side.py FOLDER [EPOCHS [ROUNDS [OUT]]]`.

FOLDER has train, valid and test as .txt or .txt.gz. Each program loads the triples, trains ComplEx with 50 dimensions for EPOCHS (30)
epochs with its own defaults, evaluates on test, and answers one question with the ten best answers, known ones marked; ruge also gives
their reasons. Each runs in a process of its own, ROUNDS (3) times, in turns. The medians of the seconds count, the import of the program
included: by the clock, and of the processors, which other programs disturb less. Needs ruge and pykeen in one environment. The lines
of AmpliGraph are those of its documentation, for reading: they are not run. OUT is a JSON file; side_by_side.json is that of docs/python.md.
"""

import gzip
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PYKEEN = """
from pykeen.pipeline import pipeline
from pykeen.predict import predict_target
from pykeen.triples import TriplesFactory

train = TriplesFactory.from_path("train.txt")
ids = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
valid, test = (TriplesFactory.from_path(f"{part}.txt", **ids) for part in ("valid", "test"))
result = pipeline(
    training=train,
    validation=valid,
    testing=test,
    model="ComplEx",
    model_kwargs={"embedding_dim": 50},
    training_kwargs={"num_epochs": EPOCHS},
    random_seed=0,
    device="cpu",
)
mrr = result.get_metric("both.realistic.inverse_harmonic_mean_rank")
found = predict_target(model=result.model, head=HEAD, relation=RELATION, triples_factory=train)
best = found.add_membership_columns(training=train).df.head(10)
"""

AMPLIGRAPH = """
from ampligraph.datasets import load_from_csv
from ampligraph.discovery import query_topn
from ampligraph.evaluation import mrr_score
from ampligraph.latent_features import ScoringBasedEmbeddingModel

train, valid, test = (load_from_csv(".", f"{part}.txt", sep="\\t") for part in ("train", "valid", "test"))
model = ScoringBasedEmbeddingModel(k=50, eta=5, scoring_type="ComplEx", seed=0)
model.compile(optimizer="adam", loss="multiclass_nll")
model.fit(train, batch_size=10000, epochs=EPOCHS)
known = {"train": train, "valid": valid, "test": test}
mrr = mrr_score(model.evaluate(test, use_filter=known, corrupt_side="s,o"))
best, scores = query_topn(model, top_n=10, head=HEAD, relation=RELATION)
"""

RUGE = """
import ruge

model = ruge.train(".", preset="complex-n3-rules", dim=50, epochs=EPOCHS, seed=0)
mrr = model.evaluate().mrr
best = model.predict(HEAD, RELATION, top=10)
reasons = [model.explain(HEAD, RELATION, answer.entity) for answer in best]
"""

SHOW = {
    "PyKEEN": 'shown = [str(name) for name in best["tail_label"][:3]]',
    "ruge": "shown = [f'{answer.entity} (truth {answer.truth:.2f}; {why.rules[0].words if why.rules else why.sentence})' for answer, why in zip(best[:3], reasons)]",
}


def lines(code):
    return sum(bool(line.strip()) for line in code.splitlines())


def run(name, code, folder, constants):
    end = f"\n{SHOW[name]}\nimport json; print(); print(json.dumps([mrr, len(best), shown]))"
    start, before = time.perf_counter(), spent()
    words = [sys.executable, "-c", constants + code + end]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    took = time.perf_counter() - start, spent() - before
    assert done.returncode == 0, done.stderr[-3000:]
    return took, json.loads(done.stdout.strip().splitlines()[-1])


def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(data, epochs=30, rounds=3, out=None):
    data, rows = pathlib.Path(data), {}
    with tempfile.TemporaryDirectory() as folder:
        for part in ("train", "valid", "test"):
            plain, packed = data / f"{part}.txt", data / f"{part}.txt.gz"
            content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
            (pathlib.Path(folder) / f"{part}.txt").write_bytes(content)
        head, relation, _ = content.decode().splitlines()[0].split("\t")
        constants = f"EPOCHS, HEAD, RELATION = {int(epochs)}, {head!r}, {relation!r}\n"
        for _ in range(int(rounds)):
            for name, code in (("PyKEEN", PYKEEN), ("ruge", RUGE)):
                took, found = run(name, code, folder, constants)
                rows.setdefault(name, []).append((took, found))
                print(f"{name:<8} {took[0]:7.1f} s, {took[1]:.1f} s of processors  MRR {found[0]:.3f}  {found[1]} answers: {'; '.join(found[2])}", flush=True)
    load = os.getloadavg()[0]
    recorded = {
        "data": data.name,
        "epochs": int(epochs),
        "question": [head, relation],
        "load": round(load, 1),
        "lines": {"PyKEEN": lines(PYKEEN), "AmpliGraph (not run)": lines(AMPLIGRAPH), "ruge": lines(RUGE)},
        "seconds": {name: round(statistics.median(took[0] for took, _ in found), 1) for name, found in rows.items()},
        "processor_seconds": {name: round(statistics.median(took[1] for took, _ in found), 1) for name, found in rows.items()},
        "mrr": {name: round(found[-1][1][0], 4) for name, found in rows.items()},
        "answers": {name: found[-1][1][2] for name, found in rows.items()},
    }
    print(json.dumps(recorded, indent=1, ensure_ascii=False))
    if out:
        pathlib.Path(out).write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
