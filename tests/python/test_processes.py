"""Models and results in other processes and after a round trip: fork, pools, pickle, copies, joblib."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys

import joblib
import pytest

import ruge


@pytest.fixture(scope="module")
def model(places):
    return ruge.train(places, preset="complex-n3-rules", dim=8, epochs=2)


def asked(model):
    return model.predict("Spain", "borders", top=3).to_dicts()


HELD = {}


def by_fork(name):
    return HELD["model"].predict(name, "borders", top=3).to_dicts()


def test_a_pool_of_forked_processes_answers(model):
    expected = asked(model)
    HELD["model"] = model
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        found = list(pool.map(by_fork, ["Spain"] * 8, timeout=60))
    assert found == [expected] * 8
    # A model goes to a worker by pickle, too, and what a worker raises comes back.
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(asked, model).result(60) == expected
        with pytest.raises(ruge.UnknownName) as caught:
            pool.submit(by_fork, "Spian").result(60)
    assert "Spain" in caught.value.nearest


def test_a_forked_child_trains(model):
    child = os.fork()
    if child == 0:
        try:
            own = ruge.train("demo", dim=4, epochs=1)
            os._exit(0 if own.evaluate().queries else 1)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_joblib_runs_and_keeps_models(model, tmp_path):
    expected = asked(model)
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(asked)(model) for _ in range(4)) == [expected] * 4
    rules, new = ruge.mine("demo"), model.complete(top=5)
    for name, value in {"model": model, "rules": rules, "answers": model.predict("Spain", "borders"), "new": new}.items():
        joblib.dump(value, tmp_path / name, compress=name == "model")
        again = joblib.load(tmp_path / name)
        assert type(again) is type(value)
        assert asked(again) == expected if name == "model" else again == value


def test_results_survive_pickles_and_copies(model, places):
    new, why = model.complete(top=5), model.explain("Spain", "borders", "France")
    graph = ruge.Graph(places)
    for value in (new, model.evaluate("valid"), graph.check(), why.parts, new[0]):
        for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
            assert type(again) is type(value) and again == value
    again = pickle.loads(pickle.dumps(new))
    assert (again.assumes, again.candidates, again.to_dicts()) == (new.assumes, new.candidates, new.to_dicts())
    assert copy.deepcopy(why).sentence == pickle.loads(pickle.dumps(why)).sentence == why.sentence
    assert list(copy.deepcopy(graph.triples("test"))) == list(pickle.loads(pickle.dumps(graph)).triples("test"))
    # What a user told a model is told to its copies.
    more = model.with_facts([("Atlantis", "located_in", "Europe")])
    assert more.predict("Atlantis", "borders", top=2) == pickle.loads(pickle.dumps(more)).predict("Atlantis", "borders", top=2)


ENDLESS = """
import sys, ruge
def say(stage, done, total, note):
    print(stage, flush=True)
try:
    %s
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""

WORK = {
    "train": 'ruge.train("demo", dim=64, epochs=10**6, validate_every=0, progress=say)',
    "train in a folder": 'ruge.train("demo", dim=64, epochs=10**6, validate_every=0, out="run", checkpoint_every=0, progress=say)',
    "run": 'ruge.run("demo", dim=64, epochs=10**6, validate_every=0, out="run", progress=say)',
    "search": 'ruge.search("demo", spec={"model": {"name": "complex", "dimension": [32, 64]}, "schedule": {"epochs": 10**6}}, out="run", progress=say)',
}


@pytest.mark.parametrize("name", sorted(WORK))
def test_every_long_job_hears_ctrl_c(name, tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ENDLESS % WORK[name]], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=120)
    assert child.returncode == 7 and said.splitlines()[-1] == "interrupted"


FIFO = """
import os, sys, threading, ruge
os.mkfifo("facts.tsv")
# Whoever writes to it waits for a reader; then the reader waits for ever.
def hold():
    held.append(open("facts.tsv", "w"))
    print("reading", flush=True)
held = []
threading.Thread(target=hold, daemon=True).start()
try:
    ruge.Graph("facts.tsv")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert len(ruge.mine("demo"))
    print("goes on", flush=True)
    os._exit(7)
"""


def test_what_cannot_look_at_the_clock_is_left(tmp_path):
    """A file that never ends: its reader waits for the system, and hears nothing."""
    child = subprocess.Popen([sys.executable, "-c", FIFO], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "reading\n"
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=120)
    assert (child.returncode, said) == (7, "interrupted\ngoes on\n")


AGAIN = """
import ruge
def stop(stage, done, total, note):
    if done >= 2:
        raise RuntimeError("enough")
try:
    ruge.train("demo", dim=16, epochs=20, out="run", checkpoint_every=0, progress=stop)
except RuntimeError:
    pass
ruge.train("demo", dim=16, epochs=20, out="run", checkpoint_every=0, resume=True)
ruge.train("demo", dim=16, epochs=20, out="whole")
"""


def test_a_job_goes_on_in_the_same_process(tmp_path):
    subprocess.run([sys.executable, "-c", AGAIN], cwd=tmp_path, check=True)
    content = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert content[0] == content[1]


def test_time_ends_training_with_a_model(tmp_path):
    model = ruge.train("demo", dim=8, epochs=10**6, minutes=0, out=tmp_path / "run")
    assert 1 <= int(model.notes["epochs"]) <= 2 and "epochs" in (tmp_path / "run" / "spec.toml").read_text()
    again = ruge.train("demo", spec=tmp_path / "run" / "spec.toml")
    assert again.predict("Spain", "borders") == model.predict("Spain", "borders")
    assert ruge.train("demo", dim=8, epochs=10**6, minutes=0).notes["epochs"] == model.notes["epochs"]
    assert not ruge.mine("demo", minutes=0).complete
    alone = ruge.combine(model, minutes=0)
    assert alone.evaluate("valid").mrr == ruge.combine(model, ranking_rules="none").evaluate("valid").mrr
