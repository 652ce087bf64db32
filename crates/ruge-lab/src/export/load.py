"""A model of ruge as a model of PyKEEN.

    python load.py                        checks this folder: the same scores, the same filtered ranks
    from load import load                 model, (train, valid, test) = load("this folder")

Needs pykeen (1.11 is known to work), which brings torch and numpy.
"""

import csv
import json
import pathlib
import sys

import numpy
import torch
from pykeen.models import ComplEx, DistMult, HolE, RotatE, TransE
from pykeen.nn.modules import RotatEInteraction
from pykeen.triples import TriplesFactory


class SumOfModuli(RotatEInteraction):
    """RotatE as its authors and ruge have it: the moduli are summed. PyKEEN's takes the Euclidean norm over all entries."""

    def forward(self, h, r, t):
        return -(h * r - t).abs().sum(dim=-1)


def load(folder="."):
    """The PyKEEN model with the exported weights, and the triples factories of train, valid and test."""
    folder = pathlib.Path(folder)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    names = {kind: _names(folder / f"{kind}_to_id.tsv") for kind in ("entity", "relation")}
    factories = tuple(
        TriplesFactory(
            mapped_triples=_triples(folder / f"{split}.tsv"),
            entity_to_id=names["entity"],
            relation_to_id=names["relation"],
            create_inverse_triples=about["reciprocal"] and split == "train",
        )
        for split in ("train", "valid", "test")
    )
    kind, dimension = about["model"], about["dimension"]
    options = dict(triples_factory=factories[0], embedding_dim=dimension, random_seed=0)
    entities = numpy.load(folder / "entities.npy")
    relations = numpy.load(folder / "relations.npy")
    if about["reciprocal"]:
        # A relation, then its inverse: PyKEEN's rows 2r and 2r + 1.
        relations = relations.reshape(2 * len(relations), -1)
    if kind == "complex":
        model = ComplEx(**options)
        entities, relations = _pairs(entities), _pairs(relations)
    elif kind == "rotate":
        model = RotatE(**options)
        model.interaction = SumOfModuli()
        entities = _pairs(entities)
        relations = numpy.stack([numpy.cos(relations), numpy.sin(relations)], axis=-1).reshape(len(relations), -1)
    elif kind == "transe":
        model = TransE(scoring_fct_norm=int(about["norm"][1]), **options)
    elif kind == "distmult":
        model = DistMult(**options)
    elif kind == "hole":
        model = HolE(**options)
    else:
        raise ValueError(f"{kind}: this script knows no such model")
    _set(model.entity_representations[0], entities)
    _set(model.relation_representations[0], relations)
    return model.eval(), factories


def check(folder="."):
    """Compares with expected.tsv. Returns (triples, largest relative difference of scores, ranks that differ, unexplained).

    A rank that differs is explained where candidates so close to the answer stand between the two ranks that the order of
    summing single-precision numbers decides.
    """
    model, factories = load(folder)
    known = torch.cat([factory.mapped_triples for factory in factories]).tolist()
    tails, heads = {}, {}
    for head, relation, tail in known:
        tails.setdefault((head, relation), []).append(tail)
        heads.setdefault((relation, tail), []).append(head)
    count, worst, differing, unexplained = 0, 0.0, 0, 0
    with open(pathlib.Path(folder) / "expected.tsv", encoding="utf-8") as file, torch.no_grad():
        for row in csv.DictReader(file, delimiter="\t"):
            head, relation, tail = (int(row[name]) for name in ("head", "relation", "tail"))
            batch = torch.tensor([[head, relation, tail]])
            score, said = model.predict_hrt(batch).item(), float(row["score"])
            worst = max(worst, abs(score - said) / max(abs(said), 1.0))
            count += 1
            for scores, answer, others, said in (
                (model.predict_h(batch[:, 1:])[0], head, heads[relation, tail], float(row["head_rank"])),
                (model.predict_t(batch[:, :2])[0], tail, tails[head, relation], float(row["tail_rank"])),
            ):
                rank, lowest, highest = _rank(scores, answer, others)
                differing += rank != said
                unexplained += not lowest <= said <= highest
    return count, worst, differing, unexplained


def _rank(scores, answer, known):
    """The filtered rank, ties by their mean; and between which ranks rounding may move it."""
    target = scores[answer].item()
    scores[torch.tensor(known)] = -torch.inf
    rounding = 4e-6 * max(abs(target), 1.0)
    rank = 1 + (scores > target).sum().item() + 0.5 * (scores == target).sum().item()
    return rank, 1 + (scores > target + rounding).sum().item(), 1 + (scores >= target - rounding).sum().item()


def _pairs(rows):
    """Real parts first, then imaginary ones: to PyKEEN's order, each number's two parts side by side."""
    real, imaginary = numpy.split(rows, 2, axis=1)
    return numpy.stack([real, imaginary], axis=-1).reshape(len(rows), -1)


def _set(representation, rows):
    weight = representation._embeddings.weight
    if weight.numel() != rows.size:
        raise ValueError(f"{rows.shape} numbers do not fit into {tuple(weight.shape)}")
    weight.data = torch.from_numpy(numpy.ascontiguousarray(rows)).view(weight.shape)


def _names(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return {name: int(id) for id, name in (line.rstrip("\n").split("\t") for line in file)}


def _triples(path):
    text = path.read_text(encoding="utf-8").split()
    return torch.tensor([int(number) for number in text], dtype=torch.long).view(-1, 3)


if __name__ == "__main__":
    triples, worst, differing, unexplained = check(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    print(
        f"{triples} triples: scores differ by a relative {worst:.1e} at most; of {2 * triples} ranks {differing} differ, "
        f"{unexplained} of them by more than rounding"
    )
    sys.exit(worst > 1e-4 or unexplained > 0)
