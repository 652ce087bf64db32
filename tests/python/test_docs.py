"""The pages for Python users run: every block of docs/python.md, and every cell of docs/tutorial.ipynb."""

import ast
import functools
import json
import pathlib
import re

import polars
import pytest

import ruge

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.fixture
def folder(places, tmp_path, monkeypatch):
    """A folder with facts.csv: the same facts under other names of columns."""
    monkeypatch.chdir(tmp_path)
    facts = ruge.Graph(places, held_out=(0, 0)).triples().to_polars()
    facts.rename({"head": "subject", "relation": "predicate", "tail": "object"}).write_csv("facts.csv")
    return tmp_path


def run(code, names, place):
    """Runs code as a notebook does: the value of a last expression is shown."""
    tree = ast.parse(code, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, place, "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    show = getattr(value, "_repr_html_", None)
    return show() if show else repr(value)


def test_every_block_of_the_page_runs(folder):
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert len(blocks) > 10
    names = {}
    for at, block in enumerate(blocks, 1):
        run(block, names, f"docs/python.md, block {at}")
    assert (folder / "new-facts.tsv").exists() and (folder / "model.safetensors").exists()


def test_the_block_of_the_readme_runs(folder, monkeypatch):
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert blocks
    # As it stands, but that the model is small.
    monkeypatch.setattr(ruge, "train", functools.partial(ruge.train, dim=8, epochs=3))
    names = {"ruge": ruge, "frame": polars.read_csv("facts.csv")}
    for at, block in enumerate(blocks, 1):
        assert "<table" in str(run(block, names, f"README.md, block {at}"))


def test_every_cell_of_the_tutorial_runs(folder):
    notebook = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    names = {}
    for at, cell in enumerate(cells, 1):
        shown = run(cell, names, f"docs/tutorial.ipynb, cell {at}")
        assert shown is None or "<script" not in shown


def test_the_design_in_25_lines_runs(folder):
    code = '''
import ruge, polars as pl

g = ruge.Graph(pl.read_csv("facts.csv"), columns=("subject", "predicate", "object"), seed=0)
g
rules = ruge.mine(g, min_pca=0.8)
rules.to_polars().sort("support", descending=True).head()
rules[0]
model = ruge.train(g, rules=rules, preset="complex-n3-rules", out="runs/mine", progress=True, dim=16, epochs=10)
model.evaluate("test")
model.evaluate("test").to_pandas()
model.predict("Brussels", "located_in", top=5, new=True)
model.predict(relation="borders", tail="Spain").to_pandas()
names = ["Spain", "France"]
model.predict_many(pl.DataFrame({"head": names, "relation": "borders"}), top=3).to_polars()
e = model.explain("Brussels", "located_in", "Flanders")
e.rules[0].groundings[0].premises
new = model.complete(relation="located_in", min_truth=0.9)
new.write("new-facts.tsv")
X = model.entities.vectors
model.entities.names[:3], model.similar("France", top=5)
model.with_facts([("Atlantis", "located_in", "Europe")]).predict("Atlantis", "borders")
model.save("m.safetensors"); ruge.load("m.safetensors"); import pickle; pickle.loads(pickle.dumps(model))
run = ruge.run(g, out="runs/all", dim=8, epochs=4); run.report
'''
    names = {}
    for line in code.strip().splitlines():
        run(line, names, f"line {line!r}")
    assert names["X"].shape == (len(names["model"].entities), 32) and (folder / "runs" / "all" / "report.html").exists()
