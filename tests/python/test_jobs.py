"""Whole jobs: run, search, combine, and models of other programs."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import ruge

SMALL = dict(dim=12, epochs=6)


@pytest.fixture(scope="module")
def done(tmp_path_factory, places):
    out = tmp_path_factory.mktemp("runs") / "run"
    said = []
    graph = ruge.Graph(places)
    found = ruge.run(graph, out=out, progress=lambda *event: said.append(event), **SMALL)
    return found, said


def test_a_run_is_that_of_the_command(done, places, tmp_path):
    found, said = done
    words = [sys.executable, "-m", "ruge", "run", str(places), "--out", "cli", "--dim", "12", "--epochs", "6", "--quiet", "--json"]
    command = json.loads(subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    for name in ("ruge", "complex", "with_rules"):
        assert found.json[name]["mrr"] == command[name]["mrr"]
    for name in ("model.safetensors", "evaluated/model.safetensors"):
        assert (pathlib.Path(found.out) / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()
    assert {event[0] for event in said} >= {"mine", "train-guided", "evaluate"}
    assert found.metrics.to_pandas()["mrr"].max() > 0.1


def test_a_run_shows_its_report(done):
    found, _ = done
    assert os.path.exists(found.report) and found.report == os.path.join(found.out, "report.html")
    shown = found.report._repr_html_()
    assert shown.startswith('<iframe sandbox=""') and "<script" not in shown
    assert "with rules when ranking" in repr(found)


def test_a_run_gives_models_and_goes_on(done, places):
    found, _ = done
    assert found.model().predict("Brussels", "located_in", top=2)
    assert found.model(evaluated=True).evaluate().mrr == found.json["with_rules"]["mrr"]
    with pytest.raises(ruge.RugeError, match="every listed fact"):
        found.model().evaluate()
    again = ruge.run(places, out=found.out, resume=True)
    assert again.json["ruge"] == found.json["ruge"]
    with pytest.raises(ruge.RugeError) as caught:
        ruge.run(places, out=found.out, dim=13, epochs=6)
    assert "force=True" in caught.value.remedy
    with pytest.raises(ruge.RugeError, match="stages are"):
        ruge.run(places, out=found.out, only="nonsense", **SMALL)


def test_a_run_takes_rules_and_tables(places, tmp_path):
    graph = ruge.Graph(ruge.Graph(places).triples().to_polars())
    rules = ruge.mine(graph, min_pca=0.9)
    found = ruge.run(graph, rules=rules, out=tmp_path / "run", evaluate_only=True, **SMALL)
    assert found.json["rules"] <= len(rules) and found.json["data"] == "a DataFrame"
    assert found.model().rules


def test_a_search_finds_the_best(tmp_path):
    space = {
        "model": {"name": "complex", "dimension": [4, 16]},
        "schedule": {"epochs": 6, "validate-every": 3},
        "search": {"method": "grid"},
    }
    found = ruge.search("demo", spec=space, out=tmp_path / "search")
    assert found.done and len(found.trials) == 2
    assert found.best.valid_mrr == max(found.trials.column("valid_mrr"))
    assert found.best.leaves["model.dimension"] in (4, 16) and os.path.exists(found.report)
    assert ruge.train("demo", spec=found.best_spec_file).evaluate("valid").mrr > 0
    assert ruge.search("demo", out=tmp_path / "search", resume=True).best == found.best
    (tmp_path / "space.toml").write_text(
        '[model]\nname = "complex"\ndimension = [4, 16]\n[schedule]\nepochs = 6\nvalidate-every = 3\n[search]\nmethod = "grid"\n'
    )
    words = [sys.executable, "-m", "ruge", "search", "demo", "--spec", "space.toml", "--out", "cli", "--quiet", "--json"]
    said = json.loads(subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout)
    assert said["best"]["leaves"] == found.best.leaves and said["best"]["valid_mrr"] == found.best.valid_mrr


def test_combining_is_that_of_the_command(done, tmp_path):
    found, _ = done
    base = os.path.join(found.out, "guided")
    words = [sys.executable, "-m", "ruge", "combine", base, "--out", "cli", "--quiet"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    ours = ruge.combine(ruge.load(base), out=tmp_path / "ours")
    assert (tmp_path / "ours/model.safetensors").read_bytes() == (tmp_path / "cli/model.safetensors").read_bytes()
    assert ours.evaluate().mrr >= ruge.load(base).evaluate().mrr
    alone = ruge.combine(base, ranking_rules="none", evidence="none")
    assert alone.evaluate("valid").mrr == ruge.load(base).evaluate("valid").mrr


FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "pykeen"


@pytest.mark.parametrize("name", ["complex", "complex_inverse", "distmult_inverse", "hole", "transe_l1", "transe_l2"])
def test_a_folder_of_pykeen_is_a_model(name):
    model = ruge.import_folder(FIXTURES / name)
    scores = json.loads((FIXTURES / name / "scores.json").read_text())
    given = [(h, r, t) for h, r, t, _, _ in scores]
    for row, (*_, expected, _) in zip(model.score(given), scores):
        assert row.score == pytest.approx(expected, rel=2e-5, abs=2e-5)
    assert model.explain("Lyon", "borders", "Italy").sentence
    assert model.with_facts([("Nice", "located_in", "France")]).predict("Nice", "borders", top=1)


def test_a_model_of_another_formula_is_refused():
    with pytest.raises(ruge.ModelFileError, match="Euclidean norm"):
        ruge.import_folder(FIXTURES / "rotate")
    with pytest.raises(ruge.ModelFileError, match="data set"):
        ruge.import_folder(FIXTURES / "libkge.pt")
