"""A panic of the native part never reaches a user as anything but an error of ours."""

import inspect

import pytest

import ruge
from ruge import _core
from ruge._core import Builder

arm = getattr(Builder, "_panic_next", None)
pytestmark = pytest.mark.skipif(arm is None, reason="only a debug build can be made to panic")


@pytest.fixture(scope="module")
def things():
    graph = ruge.Graph([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")], held_out=(0, 0))._core
    model = ruge.train(ruge.Graph([("a", "r", "b"), ("b", "r", "c")], held_out=(0, 0)), dim=4, epochs=1)._core
    rules = ruge.mine("demo")._core
    return graph, model, rules


def entries(graph, model, rules, out):
    """A call of every entry of the native part, by its name."""
    reading = dict(columns=None, header="auto", format=None, lenient=False, literals="skip", graph_name="all", base=None)
    builder, column = Builder(), lambda place: _core.Column(place, "u", None, [bytes(8), b""], None)
    columns = [column(place) for place in ("head", "relation", "tail")]
    names = graph.entity_names()
    asked = [("a", "r", None)]
    triple = ("a", "r", "b")
    path = str(out / "x")
    return {
        "main": lambda: _core.main(["ruge", "--version"]),
        "settle": None,
        "write_file": lambda: _core.write_file(path, "", False),
        "adopt": lambda: _core.adopt(graph, ("a", "b"), None, False, False, (b"", 1), (b"", 1)),
        "combine": lambda: _core.combine(model, "none", None, None, False, None, None, path, False, None, None),
        "import_folder": lambda: _core.import_folder(path, None),
        "load": lambda: _core.load(path, "cpu", False),
        "mine": lambda: _core.mine(graph, "{}", None, None, None),
        "read_rules": lambda: _core.read_rules(path, graph, None, "written", None),
        "run": lambda: _core.run(graph, "", "{}", None, path, False, False, (None, None), False, 1, 1, None, None, (None, None, None), None, None),
        "search": lambda: _core.search(graph, "", None, path, False, False, False, None, None, None, None, 1, None, None),
        "train": lambda: _core.train(graph, "{}", None, None, None, False, False, 1, None, None, None),
        "Builder": Builder,
        "Builder.read": lambda: builder.read(0, path, **reading),
        "Builder.columns": lambda: builder.columns(0, ["a"], ["r"], ["b"]),
        "Builder.cells": lambda: builder.cells(0, tuple(columns), 0, 0),
        "Builder.ids": lambda: builder.ids(0, bytes(24), None, None),
        "Builder.finish": lambda: builder.finish(True, 0, None),
        "Column": lambda: column("head"),
        "Graph.read": lambda: _core.Graph.read(path, seed=0, held_out=None, labels=[], **reading),
        "Graph.restored": lambda: _core.Graph.restored([], [], (b"", b"", b""), "{}"),
        "Graph.described": graph.described,
        "Graph.check": lambda: graph.check(None),
        "Graph.suggested_constraints": graph.suggested_constraints,
        "Graph.notes": lambda: graph.notes,
        "Graph.warnings": lambda: graph.warnings,
        "Graph.digest": lambda: graph.digest,
        "Graph.sizes": lambda: graph.sizes,
        "Graph.entity_names": graph.entity_names,
        "Graph.relation_names": graph.relation_names,
        "Graph.ids": lambda: graph.ids("train"),
        "Rules.complete": lambda: rules.complete,
        "Rules.rows": rules.rows,
        "Rules.state": rules.state,
        "Rules.restored": lambda: _core.Rules.restored(b"", names, ["r"], True),
        "Rules.text": lambda: rules.text("native"),
        "Rules.__len__": lambda: len(rules),
        "Model.predict": lambda: model.predict(asked, 1, False, None, False, False, None),
        "Model.unknown": lambda: model.unknown(asked),
        "Model.explain": lambda: model.explain(triple, 1, 1, "tail", None),
        "Model.read_rules": lambda: model.read_rules(path),
        "Model.complete": lambda: model.complete(None, None, None, 1, None, None, None),
        "Model.measure": lambda: model.measure(None, 1, None, None),
        "Model.evaluate": lambda: model.evaluate("test", None, "mean", [1], None, None),
        "Model.similar": lambda: model.similar("a", 1),
        "Model.score": lambda: model.score([triple]),
        "Model.with_facts": lambda: model.with_facts(graph),
        "Model.on_graph": lambda: model.on_graph(graph),
        "Model.with_completeness": lambda: model.with_completeness(0.5, []),
        "Model.with_feedback": lambda: model.with_feedback(None, []),
        "Model.with_constraints": lambda: model.with_constraints(None, ""),
        "Model.id": lambda: model.id("a", True),
        "Model.save": lambda: model.save(path, False),
        "Model.spec": lambda: model.spec,
        "Model.notes": lambda: model.notes,
        "Model.kind": lambda: model.kind,
        "Model.rules": model.rules,
        "Model.entity_names": model.entity_names,
        "Model.relation_names": model.relation_names,
        "Model.vectors": lambda: model.vectors(True),
        "Model.facts_text": lambda: _core.Model.facts_text("[]", "tsv", "urn:x:", path),
        "Vectors.__array_interface__": lambda vectors=model.vectors(True): vectors.__array_interface__,
    }


def test_every_entry_turns_a_panic_into_an_error(things, tmp_path, capfd):
    calls = entries(*things, tmp_path)
    for name, call in calls.items():
        if call is None:
            continue
        arm()
        with pytest.raises(ruge.RugeError, match="internal error: asked for by a test") as caught:
            call()
        assert "report" in caught.value.remedy, name
    assert not list(tmp_path.iterdir())
    capfd.readouterr()
    # What panicked once works on.
    assert calls["Graph.sizes"]() and len(calls["Model.predict"]())


def test_no_entry_is_forgotten(things, tmp_path):
    known = set(entries(*things, tmp_path))
    found = set()
    for name, value in vars(_core).items():
        if name.startswith("_"):
            continue
        found.add(name) if not inspect.isclass(value) else None
        if inspect.isclass(value):
            members = {f"{name}.{member}" for member in vars(value) if not member.startswith("_") or member in ("__len__", "__array_interface__")}
            found |= members | ({name} if name in ("Builder", "Column") else set())
    assert found == known, (found - known, known - found)
