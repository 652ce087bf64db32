"""PyKEEN's objects without PyKEEN: a model by its tables, data sets by their factories; and exports that fail."""

import subprocess
import sys

import numpy
import pytest

import ruge

FACTS = {
    "training": [("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy"), ("Paris", "located_in", "France"), ("Milan", "located_in", "Italy"), ("Lyon", "located_in", "France")],
    "validation": [("Rome", "located_in", "Italy")],
    "testing": [("France", "borders", "Italy"), ("Italy", "borders", "France")],
}
ALL = [fact for part in FACTS.values() for fact in part]
ENTITIES = sorted({name for head, _, tail in ALL for name in (head, tail)})
RELATIONS = sorted({relation for _, relation, _ in ALL})


class Factory:
    """What a TriplesFactory has."""

    def __init__(self, facts):
        self.entity_to_id = {name: at for at, name in enumerate(ENTITIES)}
        self.relation_to_id = {name: at for at, name in enumerate(RELATIONS)}
        ids = [(self.entity_to_id[h], self.relation_to_id[r], self.entity_to_id[t]) for h, r, t in facts]
        self.mapped_triples = numpy.array(ids, dtype=numpy.int64)


class Dataset:
    """What a data set of PyKEEN has: factories that share their ids."""

    def __init__(self):
        self.training, self.validation, self.testing = (Factory(FACTS[part]) for part in ("training", "validation", "testing"))


class Tensor:
    def __init__(self, rows):
        self.rows = rows

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.rows


class Representation:
    normalizer = None

    def __init__(self, rows):
        self._embeddings = type("Embedding", (), {"weight": Tensor(rows)})()


def model_of(kind, width=6, **interaction):
    draw = numpy.random.default_rng(0)
    tables = [draw.normal(size=(len(names), width)).astype(numpy.float32) for names in (ENTITIES, RELATIONS)]
    model = type(kind, (), {"use_inverse_triples": False})()
    model.interaction = type(f"{kind}Interaction", (), interaction)()
    model.entity_representations, model.relation_representations = [Representation(tables[0])], [Representation(tables[1])]
    return model, *tables


FORMULAS = {
    "DistMult": (lambda h, r, t: float((h * r * t).sum()), {}),
    "TransE": (lambda h, r, t: -float(numpy.abs(h + r - t).sum()), {"p": 1, "power_norm": False}),
    "TransE ": (lambda h, r, t: -float(numpy.sqrt(((h + r - t) ** 2).sum())), {"p": 2.0, "power_norm": False}),
}


@pytest.mark.parametrize("kind", sorted(FORMULAS))
def test_a_model_of_pykeen_scores_as_its_formula(kind):
    formula, interaction = FORMULAS[kind]
    given, entities, relations = model_of(kind.strip(), **interaction)
    model = ruge.from_pykeen(given, Dataset())
    for row in model.score(ALL):
        h, r, t = ENTITIES.index(row.head), RELATIONS.index(row.relation), ENTITIES.index(row.tail)
        assert row.score == pytest.approx(formula(entities[h], relations[r], entities[t]), rel=1e-4, abs=1e-4)
    assert model.evaluate("test").queries == 2 * len(FACTS["testing"]) and model.explain("Lyon", "located_in", "France").sentence
    assert [model.entities.names[0], model.relations.names[0]] == [ENTITIES[0], RELATIONS[0]]


def test_a_model_that_is_not_ours_says_why():
    for kind, interaction, words in (("RotatE", {}, "RotatE"), ("TransE", {"p": 3, "power_norm": False}, "norm"), ("TransE", {"p": 2, "power_norm": True}, "power")):
        with pytest.raises(ruge.RugeError, match=words):
            ruge.from_pykeen(model_of(kind, **interaction)[0], Dataset())
    given, _, _ = model_of("DistMult")
    with pytest.raises(ruge.ModelFileError, match="one table"):
        ruge.from_pykeen(type("Empty", (), {"interaction": None})(), Dataset())
    other = Factory(FACTS["testing"])
    other.entity_to_id = {name: at for at, name in enumerate(reversed(ENTITIES))}
    with pytest.raises(ruge.ModelFileError, match="differ in entity_to_id"):
        ruge.from_pykeen(given, Factory(FACTS["training"]), test=other)
    given.entity_representations = [Representation(numpy.zeros((2, 6), dtype=numpy.float32))]
    with pytest.raises(ruge.RugeError):
        ruge.from_pykeen(given, Dataset())


def test_a_data_set_of_pykeen_is_a_graph():
    graph = ruge.Graph(Dataset())
    assert graph.sizes == {"entities": len(ENTITIES), "relations": len(RELATIONS), "train": 5, "valid": 1, "test": 2}
    assert {part: list(graph.triples(part)) for part in ("train", "test")} == {"train": FACTS["training"], "test": FACTS["testing"]}
    parts = Dataset()
    assert ruge.Graph(parts.training, valid=parts.validation, test=parts.testing).digest == graph.digest


def test_an_export_that_fails_leaves_no_folder(tmp_path):
    facts = [(f"a{n}", "r", f"b{n % 7}") for n in range(200)] + [(f"a{n}", "s", f"b{n % 7}") for n in range(200)]
    ruge.train(ruge.Graph(facts), model="rules", out=tmp_path / "rules", min_support=1)
    words = [sys.executable, "-m", "ruge", "export", "rules", "--to", "pykeen", "--out", "pykeen"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "rules" in done.stderr, done.stderr
    assert not (tmp_path / "pykeen").exists()
    # What was there stays.
    (tmp_path / "pykeen").mkdir()
    (tmp_path / "pykeen" / "mine").write_text("mine")
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 1
    assert [path.name for path in (tmp_path / "pykeen").iterdir()] == ["mine"]
