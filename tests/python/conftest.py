"""What several files of tests use."""

import pytest

import ruge

PLACES = {"capital_of", "has_capital", "located_in", "in_continent", "borders", "division_of", "part_of"}


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """The facts of the embedded graph about places, as a file: large enough for rules, small enough for many trainings."""
    demo = ruge.Graph("demo")
    facts = [triple for part in ("train", "valid", "test") for triple in demo.triples(part) if triple[1] in PLACES]
    path = tmp_path_factory.mktemp("places") / "places.tsv"
    path.write_text("".join("\t".join(triple) + "\n" for triple in facts), encoding="utf-8")
    return path
