"""What comes back: rows, tables, explanations, and what a user tells a model."""

import json
import logging
import subprocess
import sys

import numpy
import polars
import pyarrow
import pytest

import ruge


@pytest.fixture(scope="module")
def model(places):
    return ruge.train(places, preset="complex-n3-rules", dim=32, epochs=12)


@pytest.fixture(scope="module")
def combined(model):
    return ruge.combine(model)


def test_rows_are_dicts_with_names(model):
    answers = model.predict("Brussels", "located_in", top=3)
    assert answers[0].entity == answers[0]["entity"] and 0 <= answers[0].truth <= 1
    with pytest.raises(AttributeError, match="it has entity"):
        answers[0].nonsense
    assert [row.entity for row in answers] == answers.column("entity") == answers.to_polars()["entity"].to_list()
    assert answers.assumes


def test_tables_go_to_whatever_reads_arrow(model):
    answers = model.predict("Brussels", "located_in", top=3)
    assert pyarrow.table(answers).num_rows == polars.DataFrame(answers).height == 3
    rules = ruge.mine("demo")
    assert pyarrow.table(rules)["words"].to_pylist() == [rule.words for rule in rules]
    new = model.complete(top=4)
    assert polars.DataFrame(new)["rules"][0].to_list() == new[0].rules
    assert pyarrow.table(ruge.Graph("demo").triples("test")).num_rows == 1190


def test_tables_are_written_and_not_overwritten(model, tmp_path):
    new = model.complete(top=3)
    for ending, lines in (("tsv", 4), ("csv", 4), ("jsonl", 3), ("nt", 3)):
        path = tmp_path / f"new.{ending}"
        new.write(path)
        said = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        assert len(said) in (lines, lines - 1), said
        with pytest.raises(ruge.RugeError) as caught:
            new.write(path)
        assert "force=True" in caught.value.remedy and caught.value.path == str(path)
        new.write(path, force=True)
    answers = model.predict("Brussels", "located_in", top=2)
    answers.write(tmp_path / "answers.tsv")
    assert (tmp_path / "answers.tsv").read_text().splitlines()[0].split("\t")[0] == "entity"
    with pytest.raises(ruge.RugeError):
        answers.write(tmp_path / "no" / "folder" / "answers.tsv")
    assert not (tmp_path / "no").exists()


def test_explanations_are_plain_data_and_a_page(combined):
    best = combined.complete(relation="located_in", top=1)[0]
    why = combined.explain(best.head, best.relation, best.tail)
    reason = why.rules[0]
    assert reason.words.startswith("if ") and 0 < reason.confidence <= 1
    premise = reason.groundings[0].premises[0]
    assert {premise.head, premise.tail} & {best.head, best.tail}
    assert abs(sum(part.value for part in why.parts) - why.score) < 1e-3 * max(1, abs(why.score))
    assert {part.kind for part in why.parts} >= {"model"}
    shown = why._repr_html_()
    assert "<meter" in shown and "data:image/svg+xml;base64," in shown and "<script" not in shown
    assert why.svg.startswith("<svg") and repr(why) == why.sentence


def test_a_user_tells_completeness_feedback_and_constraints(combined, tmp_path):
    fact = ("Brussels", "located_in", "Bruges")
    before = combined.score([fact])[0].truth
    assert combined.with_completeness(0.99).score([fact])[0].truth < combined.with_completeness(0.5).score([fact])[0].truth
    shares = tmp_path / "shares.tsv"
    shares.write_text("# shares\nlocated_in\t0.99\n*\t0.6\n")
    by_file = combined.with_completeness(shares).score([fact])[0].truth
    assert by_file == combined.with_completeness({"located_in": 0.99, "*": 0.6}).score([fact])[0].truth
    for wrong in (0, 1, -0.5, float("nan")):
        with pytest.raises(ruge.RugeError, match="completeness"):
            combined.with_completeness(wrong)
    shares.write_text("located_in 0.9\n")
    with pytest.raises(ruge.DataError) as caught:
        combined.with_completeness(shares)
    assert caught.value.line == 1 and caught.value.path == str(shares)
    judged = combined.with_feedback([(*fact, False)])
    assert judged.score([fact])[0].truth == 0 and combined.with_feedback([(*fact, True)]).score([fact])[0].truth == 1
    (tmp_path / "judged.tsv").write_text("\t".join(fact) + "\tfalse\n")
    assert combined.with_feedback(tmp_path / "judged.tsv").score([fact])[0].truth == 0
    ruled = combined.with_constraints(["functional located_in"])
    assert ruled.score([fact])[0].truth == 0 and "functional" in " ".join(ruled.explain(*fact).against)
    assert combined.score([fact])[0].truth == before


def test_names_are_found(model):
    assert model.entities.names[model.entities.id("Spain")] == "Spain" and "Spain" in model.entities
    assert model.entities.index("Spain") == model.entities.id("Spain")
    with pytest.raises(ruge.UnknownName) as caught:
        model.relations.id("bordrs")
    assert "borders" in caught.value.nearest
    with pytest.raises(ValueError):
        model.entities.index("Atlantis")


def test_vectors_outlive_their_model_and_are_those_of_an_export(tmp_path):
    import gc

    model = ruge.train("demo", dim=8, epochs=2, out=tmp_path / "run")
    vectors = model.entities.vectors
    del model
    gc.collect()
    words = [sys.executable, "-m", "ruge", "export", tmp_path / "run", "--to", "npy", "--out", tmp_path / "npy"]
    subprocess.run(words, check=True, capture_output=True)
    assert (numpy.load(tmp_path / "npy" / "entities.npy") == vectors).all()


def test_the_log_is_python_s(caplog):
    with caplog.at_level(logging.INFO, logger="ruge"):
        ruge.train("demo", dim=8, epochs=4, validate_every=2)
    lines = [record.getMessage() for record in caplog.records if record.name == "ruge"]
    assert any("epoch 4 of 4" in line and "MRR" in line for line in lines), lines


def test_rules_of_other_data_go_by_name():
    facts = [(f"a{n}", "capital_of", f"b{n}") for n in range(200)] + [(f"a{n}", "located_in", f"b{n}") for n in range(200)]
    rules = ruge.mine(ruge.Graph(facts, held_out=(0, 0)))
    demo = ruge.Graph("demo")
    assert rules and {rule.head for rule in rules} == {"capital_of", "located_in"}
    model = ruge.train(demo, rules=rules, guidance="ruge", dim=4, epochs=1)
    assert sorted(rule.words for rule in model.rules) == sorted(rule.words for rule in rules)


def test_evaluation_on_other_data(model, places):
    demo = ruge.Graph(places)
    test = demo.triples("test")
    same = ruge.Graph(demo.triples(), valid=demo.triples("valid"), test=test)
    assert model.evaluate(data=same).queries == 2 * len(test)
    with pytest.raises(ruge.RugeError, match="knows the answers"):
        model.evaluate(data=ruge.Graph(test[:50], test=demo.triples()[:50]))
    with pytest.raises(ruge.UnknownName):
        model.evaluate(data=ruge.Graph([("Atlantis", "borders", "Spain")], held_out=(0, 0)))


def test_checks_are_those_of_the_command(tmp_path):
    words = [sys.executable, "-m", "ruge", "check", "demo", "--json"]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    own = ruge.Graph("demo").check()
    differing = [key for key in own if key in said and own[key] != said[key]]
    assert not differing and {"entities", "bad_lines", "leakage", "habits", "patterns"} <= set(own)
    assert own.violations is None and own._repr_html_()
    ruge.Graph("demo").suggest_constraints(tmp_path / "laws.txt")
    assert ruge.check("demo", constraints=tmp_path / "laws.txt").violations is not None
