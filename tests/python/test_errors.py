"""What goes wrong is one exception of ours, with path, line or row, and a remedy; and nothing is left half-written."""

import hashlib
import os
import pickle
import re
import resource
import signal
import subprocess
import sys

import numpy
import pandas
import polars
import pytest

import ruge


@pytest.fixture(scope="module")
def model():
    return ruge.train("demo", dim=4, epochs=1, validate_every=0)


@pytest.fixture(scope="module")
def numbers():
    """A model whose entities and relations are named by numbers."""
    return ruge.train(ruge.Graph([(n, 0, (n + 1) % 30) for n in range(30)], held_out=(0, 0)), dim=4, epochs=1)


def raised(make, kind=ruge.RugeError, **says):
    with pytest.raises(kind) as caught:
        make()
    error = caught.value
    assert isinstance(error, ruge.RugeError) and error.remedy, error
    for name, value in says.items():
        assert getattr(error, name) == value, (name, getattr(error, name))
    return error


SETTINGS = [
    lambda: ruge.train("demo", threads=-1),
    lambda: ruge.train("demo", threads=0),
    lambda: ruge.train("demo", threads=2.5),
    lambda: ruge.train("demo", threads=10**30),
    lambda: ruge.train("demo", seed=-1),
    lambda: ruge.train("demo", dim=object()),
    lambda: ruge.train("demo", dim=-4),
    lambda: ruge.train("demo", rate=float("nan")),
    lambda: ruge.train("demo", dims=3),
    lambda: ruge.train("demo", minutes=-1),
    lambda: ruge.train("demo", minutes="ten"),
    lambda: ruge.train("demo", checkpoint_every=float("inf")),
    lambda: ruge.train("demo", out=7),
    lambda: ruge.train("demo", out="a", force=True, resume=True),
    lambda: ruge.mine("demo", min_support=-1),
    lambda: ruge.mine("demo", min_pca="much"),
    lambda: ruge.mine("demo", max_body=2**70),
    lambda: ruge.mine("demo", heads="borders"),
    lambda: ruge.mine("demo", time_limit=1, minutes=1),
    lambda: ruge.mine("demo", time_limit=-1),
    lambda: ruge.run("demo", seeds=1),
    lambda: ruge.run("demo", samples=-1),
    lambda: ruge.run("demo", only=3),
    lambda: ruge.search("demo", spec={"search": {}}, trials=0),
    lambda: ruge.search("demo", skip=True, spec={"search": {}}),
    lambda: ruge.load("demo", device=3),
    lambda: ruge.load(None),
    lambda: ruge.load(""),
    lambda: ruge.Graph("demo", seed="one"),
    lambda: ruge.Graph("demo", held_out=0.1),
    lambda: ruge.Graph("demo", held_out=("a", "b")),
    lambda: ruge.Graph("demo", held_out=(0.6, 0.6)),
    lambda: ruge.Graph("demo", format="docx"),
    lambda: ruge.Graph("demo", header=3),
]


@pytest.mark.parametrize("case", range(len(SETTINGS)))
def test_wrong_settings_have_a_remedy(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raised(SETTINGS[case])
    assert not list(tmp_path.iterdir())


def test_wrong_questions_have_a_remedy(model):
    raised(lambda: model.predict("Spain", "borders", top=0))
    raised(lambda: model.predict("Spain", "borders", top=-1))
    raised(lambda: model.predict("Spain", "borders", top=2**80))
    raised(lambda: model.predict("Spain"), ruge.DataError)
    raised(lambda: model.predict("Spain", "borders", "France"), ruge.DataError)
    raised(lambda: model.predict("Spain", "borders", candidates="France"), ruge.DataError)
    raised(lambda: model.predict("Spain", float("nan")), ruge.DataError)
    raised(lambda: model.predict(1.5, "borders"), ruge.DataError)
    raised(lambda: model.predict(True, "borders"), ruge.DataError)
    raised(lambda: model.explain("Spain", None, "France"), ruge.DataError)
    with pytest.raises(ruge.RugeError, match="side is"):
        model.explain("Spain", "borders", "France", side="middle")
    raised(lambda: model.score([("Spain", "borders", "France"), ("Spain", "borders", pandas.NA)]), ruge.DataError, row=1)
    raised(lambda: model.score([("Spain", "borders")]), ruge.DataError, row=0)
    raised(lambda: model.complete(per_query=0))
    raised(lambda: model.complete(min_truth=2))
    raised(lambda: model.evaluate(hits=[0]))
    raised(lambda: model.with_feedback([("Spain", "borders", "France")]), ruge.DataError, row=0)
    raised(lambda: model.with_completeness({"borders": "most"}))
    with pytest.raises(ruge.UnknownName) as caught:
        model.score([("Spain", "borders", "France"), ("Spain", "borders", "Frannce")])
    assert caught.value.row == 1 and "France" in caught.value.nearest
    # A number of numpy is a number.
    assert len(model.predict("Spain", "borders", top=numpy.int64(2))) == 2


def test_numbers_are_names_in_questions_too(numbers):
    expected = numbers.predict("3", "0", top=2)
    assert numbers.predict(3, 0, top=2) == numbers.predict(numpy.int64(3), numpy.uint8(0), top=2) == expected
    frame = pandas.DataFrame({"head": [3, 4], "relation": [0, 0]})
    for table in (frame, polars.DataFrame({"head": [3, 4], "relation": [0, 0]}), [(3, 0, None), (4, 0, None)]):
        assert numbers.predict_many(table, top=2).to_dicts()[0]["tail"] == expected[0].entity
    assert numbers.explain(3, 0, 4).sentence and numbers.score([(3, 0, 4)])[0].score is not None
    assert numbers.entities.id(3) == numbers.entities.id("3")


QUESTIONS = [
    (pandas.DataFrame({"subject": ["Spain"], "relation": ["borders"]}), {}),
    (polars.DataFrame({"head": ["Spain"]}), {}),
    (polars.DataFrame({"head": ["Spain"], "relation": ["borders"], "tial": ["France"]}), {}),
    (polars.DataFrame({"head": ["Spain", None], "relation": "borders"}), {"row": 1}),
    (pandas.DataFrame({"head": ["Spain", None], "relation": "borders"}), {"row": 1}),
    (pandas.DataFrame({"head": ["Spain", 1.5], "relation": "borders"}), {"row": 1}),
    ([("Spain", "borders", None), ("Spain", "borders", "France")], {"row": 1}),
    ([("Spain", "borders", None), ("Spain", None, None)], {"row": 1}),
    ([("Spain", "borders", None), ("Spain", "borders")], {"row": 1}),
    ([("Spain", "borders", None), "Spain"], {"row": 1}),
    ([{"head": "Spain", "relation": "borders"}, {"head": "Spain", "realtion": "borders"}], {"row": 1}),
    ("Spain", {}),
    (7, {}),
]


@pytest.mark.parametrize("case", range(len(QUESTIONS)))
def test_many_questions_say_which_row_is_wrong(case, model):
    questions, says = QUESTIONS[case]
    raised(lambda: model.predict_many(questions), ruge.DataError, **says)


def test_an_unknown_name_among_many_says_its_row(model):
    asked = [("Spain", "borders", None)] * 11 + [("Spian", "borders", None)]
    for block in (4, 4096):
        with pytest.raises(ruge.UnknownName) as caught:
            model.predict_many(asked, block=block)
        assert caught.value.row == 11 and "Spain" in caught.value.nearest and "row 11" in str(caught.value)
    # A table with all three columns asks for the one that is missing.
    frame = polars.DataFrame({"head": ["Spain", None], "relation": ["borders"] * 2, "tail": [None, "Spain"]})
    assert model.predict_many(frame, top=1).column("asked") == ["tail", "head"]


def test_mixed_types_in_a_column_say_the_row():
    for value in (1.5, True, b"bytes", ["a"], {"a": 1}, object()):
        frame = pandas.DataFrame({"h": ["x", value], "r": "y", "t": "z"}, dtype=object)
        raised(lambda: ruge.Graph(frame), ruge.DataError, row=1)
        raised(lambda: ruge.Graph([("x", "y", "z"), (value, "y", "z")]), ruge.DataError, row=1)
    raised(lambda: ruge.Graph([{"head": "x", "relation": "y", "tail": "z"}]), ruge.DataError, row=0)
    raised(lambda: ruge.Graph(polars.DataFrame({"h": ["x"], "r": ["y"], "t": [object()]})), ruge.DataError)
    # Text and whole numbers together are names.
    assert ruge.Graph(pandas.DataFrame({"h": ["x", 7], "r": "y", "t": "z"}), held_out=(0, 0)).entities == ["x", "z", "7"]


def test_a_row_is_said_with_its_part(tmp_path):
    train = [("a", "r", "b"), ("b", "r", "a")]
    error = raised(lambda: ruge.Graph(train, valid=[("a", "r", "b"), ("a", None, "b")]), ruge.DataError, row=1)
    assert str(error).startswith("valid: row 1")
    test = polars.DataFrame({"h": ["a", None], "r": "r", "t": "b"})
    assert str(raised(lambda: ruge.Graph(train, test=test), ruge.DataError, row=1)).startswith("test: ")
    (tmp_path / "valid.tsv").write_text("a\tr\n")
    error = raised(lambda: ruge.Graph(train, valid=tmp_path / "valid.tsv"), ruge.DataError, line=1)
    assert str(error).startswith("valid: ") and error.path == str(tmp_path / "valid.tsv")


def test_missing_files_are_ours(tmp_path, model):
    missing = tmp_path / "missing.toml"
    for make in (
        lambda: ruge.train("demo", spec=missing),
        lambda: ruge.search("demo", spec=missing),
        lambda: ruge.run("demo", spec=missing),
        lambda: model.with_completeness(missing),
        lambda: model.with_feedback(missing),
        lambda: model.with_constraints(missing),
        lambda: ruge.read_rules(missing, "demo"),
        lambda: ruge.mine(missing),
        lambda: ruge.combine(missing),
    ):
        raised(make, path=str(missing))
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    raised(lambda: ruge.train("demo", spec=tmp_path / "latin.toml"), path=str(tmp_path / "latin.toml"))
    raised(lambda: ruge.train("demo", spec=tmp_path), path=str(tmp_path))


def test_endings_of_files(tmp_path, model):
    new, answers = model.complete(top=2), model.predict("Spain", "borders")
    why = model.explain("Spain", "borders", "France")
    for name in ("new.docx", "new"):
        for value in (new, answers, why, ruge.Graph("demo").triples()):
            error = raised(lambda: value.write(tmp_path / name), ruge.DataError, path=str(tmp_path / name))
            assert isinstance(error, ValueError)
    raised(lambda: new.write(tmp_path / "new.nt", base="no iri"))
    assert not list(tmp_path.iterdir())
    why.write(tmp_path / "why.dot")
    assert (tmp_path / "why.dot").read_text().startswith("digraph")


def test_packages_that_are_missing_are_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert isinstance(raised(lambda: ruge.mine("demo", progress=True), ruge.MissingPackage), ImportError)
    answers = model.predict("Spain", "borders")
    for name, make in {"polars": answers.to_polars, "pandas": answers.to_pandas, "pyarrow": answers.to_arrow}.items():
        monkeypatch.setitem(sys.modules, name, None)
        assert name in str(raised(make, ruge.MissingPackage))
    raised(answers.__arrow_c_stream__, ruge.MissingPackage)


def test_pandas_needs_no_pyarrow(places):
    code = """
import sys
sys.modules["pyarrow"] = None
import pandas, ruge
frame = pandas.read_csv(sys.argv[1], sep="\\t", names=["head", "relation", "tail"], keep_default_na=False)
graph = ruge.Graph(frame)
print(graph.digest, len(ruge.Graph(frame.astype("category"))), graph.triples().to_pandas().shape[1])
"""
    done = subprocess.run([sys.executable, "-c", code, places], check=True, capture_output=True, text=True)
    graph = ruge.Graph(places)
    assert done.stdout.split() == [graph.digest, str(len(graph)), "3"]


def test_a_model_of_a_newer_version_says_so(model, tmp_path):
    path = tmp_path / "m.safetensors"
    model.save(path)
    content = path.read_bytes()
    (found,) = set(re.findall(rb'\\"version\\":(\d)[,}]', content[:100_000])) or {None}
    # It is stored twice: in the metadata, and in the name of the seal.
    newer = content.replace(b'\\"version\\":' + found, b'\\"version\\":9', 1).replace(b"~ruge-" + found + b"-", b"~ruge-9-", 1)
    assert newer != content and len(newer) == len(content)
    (tmp_path / "newer.safetensors").write_bytes(newer)
    error = raised(lambda: ruge.load(tmp_path / "newer.safetensors"), ruge.ModelFileError, path=str(tmp_path / "newer.safetensors"))
    assert "newer ruge" in str(error)


def test_models_are_not_overwritten_unasked(model, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"mine")
    assert "force=True" in raised(lambda: model.save(path), path=str(path)).remedy
    assert path.read_bytes() == b"mine"
    model.save(path, force=True)
    assert ruge.load(path).predict("Spain", "borders") == model.predict("Spain", "borders")


def test_where_nothing_can_be_written_nothing_is(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    below = tmp_path / "file" / "below"
    for make in (
        lambda: model.save(below / "m.safetensors"),
        lambda: ruge.train("demo", dim=4, epochs=1, out=below),
        lambda: ruge.run("demo", dim=4, epochs=1, out=below),
        lambda: ruge.combine(model, out=below),
        lambda: ruge.search("demo", spec={"model": {"name": "complex", "dimension": [4, 8]}, "schedule": {"epochs": 1}}, out=below),
        lambda: ruge.mine("demo").write(below / "rules.tsv"),
        lambda: model.complete(top=1).write(below / "new.tsv"),
    ):
        error = raised(make)
        assert str(tmp_path / "file") in str(error), error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(model, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    for make in (lambda: model.save(closed / "m.safetensors"), lambda: ruge.train("demo", dim=4, epochs=1, out=closed / "run")):
        raised(make)
    assert not list(closed.iterdir())


def test_a_disk_that_is_full(model, tmp_path):
    path = tmp_path / "m.safetensors"
    model.save(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        errors = [
            raised(lambda: model.save(path, force=True)),
            raised(lambda: model.complete(top=100).write(tmp_path / "new.tsv")),
            raised(lambda: ruge.train("demo", dim=8, epochs=1, out=tmp_path / "run")),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert all(str(tmp_path) in str(error) for error in errors), errors
    assert path.read_bytes() == before and not (tmp_path / "new.tsv").exists()
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not [file for file in tmp_path.rglob("*") if file.suffix == ".tmp"]


SCRIPT = """
import sys, ruge
say = lambda stage, done, total, note: print(done, flush=True)
ruge.train("demo", dim=32, epochs=30, guidance="ruge", out="run", checkpoint_every=0, progress=say, resume="r" in sys.argv)
"""


def test_a_killed_process_leaves_what_can_be_resumed(tmp_path):
    whole = subprocess.run([sys.executable, "-c", SCRIPT.replace('"run"', '"whole"')], cwd=tmp_path, check=True, capture_output=True)
    assert whole.stdout
    child = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "checkpoint.safetensors").exists():
        assert child.stdout.readline(), "it ended before anything was kept"
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL and not (tmp_path / "run" / "model.safetensors").exists()
    raised(lambda: ruge.load(tmp_path / "run"))
    subprocess.run([sys.executable, "-c", SCRIPT, "r"], cwd=tmp_path, check=True, capture_output=True)
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest(tmp_path / "run" / "model.safetensors") == digest(tmp_path / "whole" / "model.safetensors")


def test_errors_cross_processes(model):
    error = raised(lambda: model.predict_many([("Spain", "borders", None), ("Spian", "borders", None)]))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.row, again.nearest) == (type(error), str(error), error.row, error.nearest)
