"""The package from the outside: what it gives is what the command line gives."""

import copy
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy
import pandas
import polars
import pyarrow
import pytest

import ruge


def sha(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def command(*words, cwd):
    done = subprocess.run([sys.executable, "-m", "ruge", *map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def facts():
    demo = ruge.Graph("demo")
    return [t for part in ("train", "valid", "test") for t in demo.triples(part)]


@pytest.fixture(scope="session")
def tsv(facts, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "facts.tsv"
    path.write_text("".join("\t".join(t) + "\n" for t in facts), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model():
    return ruge.train("demo", guidance="ruge", dim=16, epochs=10)


class Factory:
    """What PyKEEN's TriplesFactory has."""

    def __init__(self, facts):
        names = sorted({n for h, _, t in facts for n in (h, t)})
        self.entity_to_id = {name: at for at, name in enumerate(names)}
        self.relation_to_id = {name: at for at, name in enumerate(sorted({r for _, r, _ in facts}))}
        e, r = self.entity_to_id, self.relation_to_id
        self.mapped_triples = numpy.array([(e[h], r[p], e[t]) for h, p, t in facts])


def test_every_kind_of_input_gives_one_graph(facts, tsv):
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*facts))))
    table = pyarrow.table(columns)
    factory = Factory(facts)
    names = [name for name, _ in sorted(factory.entity_to_id.items(), key=lambda item: item[1])]
    relations = [name for name, _ in sorted(factory.relation_to_id.items(), key=lambda item: item[1])]
    graphs = {
        "path": ruge.Graph(tsv),
        "tuples": ruge.Graph(facts),
        "generator": ruge.Graph(iter(facts)),
        "pandas": ruge.Graph(pandas.DataFrame(columns)),
        "polars": ruge.Graph(polars.DataFrame(columns)),
        "pyarrow": ruge.Graph(table),
        "dictionary": ruge.Graph(pyarrow.table({n: table[n].dictionary_encode() for n in table.column_names})),
        "views": ruge.Graph(pyarrow.table({n: table[n].cast(pyarrow.string_view()) for n in table.column_names})),
        "large": ruge.Graph(pyarrow.table({n: table[n].cast(pyarrow.large_string()) for n in table.column_names})),
        "batches": ruge.Graph(pyarrow.Table.from_batches(table.to_batches(max_chunksize=1003))),
        "slices": ruge.Graph(pyarrow.concat_tables([table.slice(0, 13), table.slice(13, 4001), table.slice(4014)])),
        "categories": ruge.Graph(polars.DataFrame(columns).with_columns(polars.all().cast(polars.Categorical))),
        "pandas categories": ruge.Graph(pandas.DataFrame(columns).astype("category")),
        "our own": ruge.Graph(ruge.Graph(facts, held_out=(0, 0)).triples()),
        "factory": ruge.Graph(factory),
        "ids": ruge.Graph(factory.mapped_triples, entity_names=names, relation_names=relations),
    }
    assert len({graph.digest for graph in graphs.values()}) == 1, {k: g.digest for k, g in graphs.items()}
    assert len(graphs["path"]) == len(facts)


def test_numbers_are_names_by_their_digits():
    ids = [(0, 1, 2), (2, 1, 300), (300, 0, 0), (7, 1, 0)]
    columns = dict(zip("hrt", map(list, zip(*ids))))
    graphs = [ruge.Graph(ids, held_out=(0, 0)), ruge.Graph(numpy.array(ids), held_out=(0, 0))]
    for kind in (polars.Int16, polars.UInt16, polars.Int32, polars.UInt32, polars.Int64, polars.UInt64):
        graphs.append(ruge.Graph(polars.DataFrame(columns).with_columns(polars.all().cast(kind)), held_out=(0, 0)))
    assert len({graph.digest for graph in graphs}) == 1
    assert graphs[0].entities == ["0", "2", "300", "7"]


def test_a_frame_of_many_windows_is_one_graph(tmp_path):
    rows = 600_011
    frame = polars.DataFrame({"at": range(rows)}).select(
        head=polars.format("an entity with a long name, number {}", polars.col("at") % 70_001),
        relation=polars.format("r{}", polars.col("at") % 7),
        tail=polars.format("e{}", polars.col("at") * 31 % 50_021),
    )
    frame.write_csv(tmp_path / "all.tsv", separator="\t", include_header=False)
    read = ruge.Graph(tmp_path / "all.tsv", held_out=(0, 0))
    given = ruge.Graph(frame, held_out=(0, 0))
    halves = ruge.Graph(polars.concat([frame[:300_001], frame[300_001:]], rechunk=False), held_out=(0, 0))
    assert read.digest == given.digest == halves.digest
    broken = frame.with_columns(tail=polars.when(polars.int_range(rows) == 500_000).then(None).otherwise("tail"))
    with pytest.raises(ruge.DataError) as caught:
        ruge.Graph(broken)
    assert caught.value.row == 500_000


def test_a_graph_of_rdflib_is_what_its_file_is(tmp_path):
    import rdflib

    text = """@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
    :Paris :capital_of :France ; rdfs:label "Paris"@en . :Lyon :located_in :France . :France :borders :Italy .
    """
    (tmp_path / "facts.ttl").write_text(text)
    graph = rdflib.Graph().parse(tmp_path / "facts.ttl")
    ours = ruge.Graph(graph, held_out=(0, 0))
    assert sorted(ours.triples()) == sorted(ruge.Graph(tmp_path / "facts.ttl", held_out=(0, 0)).triples())
    assert len(ours) == 3 and ours.digest == ruge.Graph(graph, held_out=(0, 0)).digest
    # Literals are left out, as from a file; labels are kept.
    assert ours.check()["labelled"] == 1
    three = ruge.Graph(graph, valid=[("http://example.org/Lyon", "http://example.org/borders", "http://example.org/Paris")])
    assert three.sizes["valid"] == 1 and three.sizes["train"] == 3


def test_parts_given_apart_are_what_a_folder_is(facts, tmp_path):
    demo = ruge.Graph("demo")
    parts = {part: demo.triples(part) for part in ("train", "valid", "test")}
    for part, triples in parts.items():
        triples.write(tmp_path / f"{part}.tsv")
    # The header that `write` gives is recognised.
    folder = ruge.Graph(tmp_path)
    frames = {part: triples.to_polars() for part, triples in parts.items()}
    assert ruge.Graph(frames["train"], valid=frames["valid"], test=frames["test"]).digest == folder.digest
    assert ruge.Graph(parts["train"], valid=frames["valid"].to_arrow(), test=frames["test"].to_pandas()).digest == folder.digest
    assert folder.sizes == demo.sizes


def test_models_and_rules_have_the_bits_of_the_command_line(tmp_path, tsv):
    words = ["--guidance", "ruge", "--dim", "16", "--epochs", "5", "--quiet"]
    command("train", tsv, *words, "--out", "cli", cwd=tmp_path)
    for threads in (1, 2):
        out = tmp_path / f"python{threads}"
        ruge.train(tsv, guidance="ruge", dim=16, epochs=5, out=out, threads=threads)
        assert sha(out / "model.safetensors") == sha(tmp_path / "cli" / "model.safetensors")
    written = command("mine", tsv, "--quiet", cwd=tmp_path)
    rules = [line for line in written.splitlines() if not line.startswith("#")]
    ours = [line for line in ruge.mine(tsv).text().splitlines() if not line.startswith("#")]
    assert ours == rules and len(rules) > 10


def test_answers_are_those_of_the_command_line(tmp_path, model):
    path = tmp_path / "m.safetensors"
    model.save(path)
    said = json.loads(command("predict", path, "--head", "Brussels", "--relation", "located_in", "--json", cwd=tmp_path))
    assert model.predict("Brussels", "located_in").to_dicts() == said["answers"]
    why = json.loads(command("explain", path, "Brussels", "located_in", "Flanders", "--json", cwd=tmp_path))
    own = model.explain("Brussels", "located_in", "Flanders").json
    assert {**own, "seconds": 0} == {**why, "seconds": 0}
    found = json.loads(command("eval", path, "--json", cwd=tmp_path))
    assert model.evaluate().mrr == found["mrr"]


def test_results_become_tables(model, tmp_path):
    answers = model.predict(relation="borders", tail="Spain", top=3)
    assert len(answers.to_pandas()) == len(answers.to_polars()) == answers.to_arrow().num_rows == 3
    many = model.predict_many([("Spain", "borders", None), (None, "borders", "Spain")], top=2)
    assert many.column("asked") == ["tail", "tail", "head", "head"]
    assert many.column("head")[2:] == model.predict(relation="borders", tail="Spain", top=2).column("entity")
    frame = polars.DataFrame({"head": ["Spain", "France"], "relation": "borders"})
    assert len(model.predict_many(frame, top=3).to_polars()) == 6
    new = model.complete(relation="borders", top=5)
    new.write(tmp_path / "new.tsv")
    assert len((tmp_path / "new.tsv").read_text().splitlines()) >= len(new) == 5
    assert model.rules.to_polars().height == len(model.rules)
    assert model.evaluate("valid").to_pandas()["queries"].sum() == model.evaluate("valid").queries


def test_vectors_are_a_view(model):
    vectors = model.entities.vectors
    assert vectors.shape == (len(model.entities), 32) and vectors.dtype == numpy.float32
    assert not vectors.flags.owndata and not vectors.flags.writeable
    assert numpy.isfinite(vectors).all() and numpy.abs(vectors).sum() > 0


def test_pickles_and_copies_answer_the_same(model, tmp_path):
    asked = model.predict("Spain", "borders").to_dicts()
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.predict("Spain", "borders").to_dicts() == asked
    graph = ruge.Graph("demo")
    assert pickle.loads(pickle.dumps(graph)).digest == graph.digest
    rules = ruge.mine(graph)
    for value in (rules, rules[0], model.predict("Spain", "borders"), model.evaluate(), model.explain("Brussels", "located_in", "Flanders").parts):
        assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)
    # Unpickling needs nothing but the package, and numpy not at all.
    (tmp_path / "m.pickle").write_bytes(pickle.dumps(model))
    code = "import pickle, sys; m = pickle.load(open('m.pickle', 'rb')); assert 'numpy' not in sys.modules; print(len(m.entities))"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True).stdout


def test_new_entities_are_folded_in(model, tmp_path):
    more = model.with_facts([("Atlantis", "located_in", "Europe")])
    assert "Atlantis" in more.entities and "Atlantis" not in model.entities
    assert len(more.predict("Atlantis", "borders", top=2)) == 2
    model.save(tmp_path / "m.safetensors")
    (tmp_path / "facts.tsv").write_text("Atlantis\tlocated_in\tEurope\n")
    words = ["predict", "m.safetensors", "--with", "facts.tsv", "--head", "Atlantis", "--relation", "located_in", "--json"]
    said = json.loads(command(*words, cwd=tmp_path))
    assert more.predict("Atlantis", "located_in").to_dicts() == said["answers"]
    with pytest.raises(ruge.UnknownName) as caught:
        model.with_facts([("Atlantis", "located_inn", "Europe")])
    assert "located_in" in caught.value.nearest


BAD = [
    (lambda: ruge.Graph([("a", "r", "b"), ("a", None, "b")]), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph([("a", "r", "b"), ("a", "b")]), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph([("a", "r", 1.5)]), ruge.DataError, {"row": 0}),
    (lambda: ruge.Graph([]), ruge.DataError, {}),
    (lambda: ruge.Graph(7), ruge.DataError, {}),
    (lambda: ruge.Graph(pandas.DataFrame({"a": ["x"], "b": ["y"]})), ruge.DataError, {}),
    (lambda: ruge.Graph(pandas.DataFrame({"h": ["x", None], "r": "y", "t": "z"})), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph(polars.DataFrame({"h": ["x", None], "r": "y", "t": "z"})), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph(polars.DataFrame({"x": ["x"]}), columns=("a", "b", "c")), ruge.DataError, {}),
    (lambda: ruge.Graph(polars.DataFrame({"h": ["x", ""], "r": "y", "t": "z"})), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph(polars.DataFrame({"h": [1.5], "r": "y", "t": "z"})), ruge.DataError, {}),
    (lambda: ruge.Graph(polars.DataFrame({"h": [True], "r": "y", "t": "z"})), ruge.DataError, {}),
    (lambda: ruge.Graph(polars.DataFrame({"h": [], "r": [], "t": []})), ruge.DataError, {}),
    (lambda: ruge.Graph(pyarrow.table({"h": ["x", None], "r": ["y"] * 2, "t": ["z"] * 2})), ruge.DataError, {"row": 1}),
    (lambda: ruge.Graph(numpy.zeros((3, 2), dtype=int)), ruge.DataError, {}),
    (lambda: ruge.Graph(numpy.zeros((3, 3))), ruge.DataError, {}),
    (lambda: ruge.Graph(numpy.array([[0, 0, 1], [0, 0, -1]])), ruge.DataError, {"row": 1}),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_tables_are_one_exception_with_row_and_remedy(case):
    make, kind, says = BAD[case]
    with pytest.raises(kind) as caught:
        make()
    assert caught.value.remedy
    assert isinstance(caught.value, ValueError)
    for name, value in says.items():
        assert getattr(caught.value, name) == value


def test_bad_files_and_names_say_where(tmp_path, model):
    path = tmp_path / "bad.tsv"
    path.write_text("a\tr\tb\na\tr\tc\nonly two\tfields\n")
    with pytest.raises(ruge.DataError) as caught:
        ruge.Graph(path)
    assert (caught.value.line, caught.value.path) == (3, str(path)) and "lenient=True" in caught.value.remedy
    with pytest.raises(ruge.UnknownName) as caught:
        model.predict("Brusels", "located_in")
    assert "Brussels" in caught.value.nearest and isinstance(caught.value, LookupError)
    whole = tmp_path / "m.safetensors"
    model.save(whole)
    (tmp_path / "half.safetensors").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    for name in ("half.safetensors", "missing.safetensors"):
        with pytest.raises(ruge.ModelFileError) as caught:
            ruge.load(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)
    with pytest.raises(ruge.RugeError):
        model.save(tmp_path / "no" / "such" / "folder" / "m.safetensors")
    with pytest.raises(ruge.RugeError, match="dims"):
        ruge.train("demo", dims=3)
    with pytest.raises(ruge.RugeError, match="split"):
        model.evaluate("tset")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


def test_an_existing_run_is_not_replaced_unasked(tmp_path):
    ruge.train("demo", dim=4, epochs=1, out=tmp_path / "run")
    with pytest.raises(ruge.RugeError) as caught:
        ruge.train("demo", dim=4, epochs=1, out=tmp_path / "run")
    assert "force=True" in caught.value.remedy
    ruge.train("demo", dim=4, epochs=2, out=tmp_path / "run", force=True)


SCRIPT = """
import sys, ruge
say = lambda stage, done, total, note: print(done, flush=True)
ruge.train("demo", dim=32, epochs=60, guidance="ruge", out="run", checkpoint_every=0, progress=say, resume="r" in sys.argv)
"""


def test_ctrl_c_keeps_a_checkpoint_that_resumes_to_the_same_bits(tmp_path):
    whole = ruge.train("demo", dim=32, epochs=60, guidance="ruge", out=tmp_path / "whole")
    assert whole.notes
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    asked = time.monotonic()
    _, stderr = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in stderr and child.returncode != 0
    print("stopped after", time.monotonic() - asked)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    subprocess.run([sys.executable, "-c", SCRIPT, "r"], cwd=tmp_path, check=True, capture_output=True)
    assert sha(tmp_path / "run" / "model.safetensors") == sha(tmp_path / "whole" / "model.safetensors")


def test_a_callback_that_raises_stops_the_work():
    def stop(stage, done, total, note):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ruge.train("demo", dim=32, epochs=100000, validate_every=0, progress=stop)


def test_a_forked_child_answers(model):
    model.predict("Spain", "borders")
    child = os.fork()
    if child == 0:
        answers = model.predict("Spain", "borders")
        os._exit(0 if len(answers) == 10 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_get_equal_answers(model):
    expected = model.predict("Spain", "borders").to_dicts()
    wrong = []

    def ask():
        for _ in range(20):
            if model.predict("Spain", "borders").to_dicts() != expected:
                wrong.append(1)
            model.explain("Brussels", "located_in", "Flanders")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_html_is_escaped():
    evil = "<script>alert(1)</script>"
    facts = [(evil, "r&r", f"e{n}") for n in range(30)] + [(f"e{n}", "r&r", "</td><b>") for n in range(30)]
    graph = ruge.Graph(facts, held_out=(0, 0))
    model = ruge.train(graph, dim=4, epochs=2, validate_every=0)
    shown = [
        graph._repr_html_(),
        model.predict(evil, "r&r", top=40)._repr_html_(),
        model.explain(evil, "r&r", "e1")._repr_html_(),
        model.complete(top=20)._repr_html_(),
        model.similar("e1")._repr_html_(),
    ]
    for text in shown:
        assert "<script" not in text and "<b>" not in text


def test_import_is_light():
    code = "import sys, ruge; assert not {'numpy', 'pandas', 'typing', 'json', 're'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"], check=True)


def test_the_command_is_in_the_wheel(tmp_path):
    assert command("--version", cwd=tmp_path).startswith("ruge ")
    done = subprocess.run([sys.executable, "-m", "ruge", "nothing"], capture_output=True)
    assert done.returncode == 2
