"""What a notebook shows: names are text, never markup, in every result and from right to left, too."""

import html.parser

import pytest

import ruge

EVIL = "<script>alert('1')</script>"
BOLD = "</td><b>x"
PAIR = "R&D &lt;b&gt; \"q\""
RTL = "تونس ‮"
HEBREW = "ירושלים"


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def graph():
    near = [EVIL, BOLD, PAIR, RTL, HEBREW]
    facts = [(name, PAIR, f"e{n}") for n in range(30) for name in near]
    facts += [(f"e{n}", RTL, near[n % 5]) for n in range(30)] + [(f"e{n}", "plain", near[n % 5]) for n in range(30)]
    return ruge.Graph(facts, held_out=(0.1, 0.1))


@pytest.fixture(scope="module")
def shown(graph, tmp_path_factory):
    out = tmp_path_factory.mktemp("html")
    model = ruge.train(graph, dim=4, epochs=2, validate_every=0)
    rules = ruge.mine(graph, min_head_size=1, min_pca=0.1)
    assert len(rules)
    run = ruge.run(graph, dim=4, epochs=2, out=out / "run", rules=rules)
    space = {"model": {"name": "complex", "dimension": [2, 4]}, "schedule": {"epochs": 2, "validate-every": 1}, "search": {"method": "grid"}}
    search = ruge.search(graph, spec=space, out=out / "search")
    seeds = ruge.run(graph, dim=4, epochs=2, out=out / "seeds", seeds=2, evaluate_only=True)
    return {
        "Graph": graph,
        "Check": graph.check(),
        "Triples": graph.triples(),
        "Rules": rules,
        "Answers": model.predict(EVIL, PAIR, top=40),
        "Answers of many": model.predict_many([(None, RTL, HEBREW)], top=40),
        "Explanation": model.explain(EVIL, PAIR, "e1"),
        "Explanation by rules": model.explain("e1", "plain", PAIR, rules=rules),
        "Proposals": model.complete(top=20),
        "Metrics": model.evaluate("test"),
        "Table": model.similar("e1"),
        "Run": run,
        "Run.metrics": run.metrics,
        "Search": search,
        "Seeds": seeds,
        "Page": run.report,
    }


#: What our own pages are made of.
OWN = {"table", "thead", "tbody", "tr", "th", "td", "p", "ul", "ol", "li", "style", "div", "span", "meter", "img", "iframe"}


def test_names_are_never_markup(shown):
    for name, value in shown.items():
        text = value._repr_html_()
        found = Tags(text)
        assert set(found.names) <= OWN, (name, set(found.names) - OWN)
        assert "&lt;script&gt;alert" in text or EVIL not in "".join(found.texts), name


def test_names_are_shown_as_they_are(shown):
    with_names = {"Triples": EVIL, "Answers of many": HEBREW, "Explanation": EVIL, "Metrics": PAIR, "Rules": RTL}
    for name, expected in with_names.items():
        found = "".join(Tags(shown[name]._repr_html_()).texts)
        assert expected in found, (name, found[:500])


def test_seeds_are_compared(shown):
    seeds = shown["Seeds"]
    assert len(seeds.runs) == 2 and seeds.seeds == [0, 1]
    alone = seeds.metrics[0]
    assert alone.system == "unguided" and alone.mrr == pytest.approx(sum(alone["values"]) / 2)
    assert [run.metrics[0].mrr for run in seeds.runs] == alone["values"]
    assert "±" in repr(seeds) and seeds.gain.mean is not None
