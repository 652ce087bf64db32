"""Every flag of the command is a keyword of the function, or the list below says where it is."""

import inspect
import operator
import re
import subprocess
import sys

import pytest

import ruge

#: Flags that are no keywords, and why. A name is the function or method that does it instead, and must exist.
GLOBAL = {
    "json": "a result has all that --json prints",
    "quiet": "nothing is printed; logging.getLogger('ruge') has the log",
    "verbose": "logging.getLogger('ruge') has the log",
    "help": "help(ruge.train)",
}
#: How DATA is read, and the split of a single file.
DATA = {"columns", "header", "format", "lenient", "seed", "held-out", "labels", "literals", "graph-name", "base"}
WRITTEN = {"out": "results.Answers.write", "to": "results.Answers.write", "force": "results.Answers.write"}
TOLD = {
    "completeness": "Model.with_completeness",
    "feedback": "Model.with_feedback",
    "constraints": "Model.with_constraints",
    "graph": "Model.on_graph",
    "device": "load",
}
READ = {"rule-format": "read_rules", "confidence": "read_rules", "relation-ids": "read_rules"}
ELSEWHERE = {
    "train": {},
    "run": {"serve": "the command `ruge serve` shows a run in a browser; a notebook shows Run.report"},
    "mine": {"out": "Rules.write", "to": "Rules.write"},
    "combine": READ,
    "search": {},
    "predict": {
        **WRITTEN,
        **TOLD,
        "with": "Model.with_facts",
        "like": "Model.similar",
        "queries": "Model.predict_many",
        "lenient": "a table has no malformed lines",
        "threads": "Model.predict_many",
    },
    "explain": {
        **READ,
        **{flag: place for flag, place in TOLD.items() if flag != "device"},
        "all": "an Explanation has everything",
        "dot": "Explanation.write",
        "svg": "Explanation.write",
        "force": "Explanation.write",
        "threads": "one triple is explained by one thread",
    },
    "complete": {
        **READ,
        **TOLD,
        "out": "Proposals.write",
        "to": "Proposals.write",
        "base": "Proposals.write",
        "force": "Proposals.write",
        "measure": "Model.measure",
    },
}
#: Keywords whose flag has a name that Python keeps for itself.
RENAMED = {"from": "from_"}
#: Functions that take settings of training as further keywords.
SETTINGS = {"train", "run"}
FUNCTIONS = {
    "train": ruge.train,
    "run": ruge.run,
    "mine": ruge.mine,
    "combine": ruge.combine,
    "search": ruge.search,
    "predict": ruge.Model.predict,
    "explain": ruge.Model.explain,
    "complete": ruge.Model.complete,
}


def flags(name):
    words = [sys.executable, "-m", "ruge", name, "--help"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", said, re.M)
    assert len(found) > 5, said
    return sorted(set(found))


def is_setting(keyword, folder):
    """Whether training takes a keyword: an unknown one is told before anything else is looked at."""
    with pytest.raises(ruge.RugeError) as caught:
        ruge.train([("a", "r", "b")], out=folder / "none", resume=True, **{keyword: "1"})
    return "there is no setting called" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_flag_is_a_keyword(name, tmp_path):
    keywords = set(inspect.signature(FUNCTIONS[name]).parameters)
    of_data = set(inspect.signature(ruge.Graph).parameters)
    elsewhere = ELSEWHERE[name]
    takes_data = "graph" in keywords or "data" in keywords
    missing = []
    for flag in flags(name):
        keyword = RENAMED.get(flag, flag.replace("-", "_"))
        if keyword in keywords or flag in GLOBAL or flag in elsewhere:
            continue
        if takes_data and flag in DATA and keyword in of_data:
            continue
        if not (name in SETTINGS and is_setting(keyword, tmp_path)):
            missing.append(flag)
    assert not missing, f"`ruge {name}` has {missing}, and Python has not"
    stale = [flag for flag in elsewhere if flag not in flags(name)]
    assert not stale, f"`ruge {name}` has no {stale}"


def test_the_list_says_where_things_are():
    places = [place for name in ELSEWHERE.values() for place in name.values() if " " not in place]
    assert len(places) > 10
    for place in places:
        home = ruge if not place.startswith("results.") else __import__("ruge.results")
        assert callable(operator.attrgetter(place)(home)), place


def test_an_unknown_setting_is_told(tmp_path):
    assert is_setting("min_pca", tmp_path) and is_setting("slackness", tmp_path) and not is_setting("slackness2", tmp_path)


def test_defaults_are_those_of_the_command():
    said = {name: flags_with_defaults(name) for name in ("predict", "explain", "complete", "run", "train", "combine")}
    compared = 0
    for name, defaults in said.items():
        for keyword, parameter in inspect.signature(FUNCTIONS[name]).parameters.items():
            default = defaults.get(keyword.rstrip("_").replace("_", "-"))
            if default is not None and parameter.default not in (None, inspect.Parameter.empty):
                assert str(parameter.default) == default, (name, keyword)
                compared += 1
    assert compared >= 8


def flags_with_defaults(name):
    words = [sys.executable, "-m", "ruge", name, "--help"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    blocks = re.split(r"\n(?= +(?:-\w, )?--)", said)
    found = {}
    for block in blocks:
        flag = re.match(r" +(?:-\w, )?--([a-z0-9-]+)", block)
        default = re.search(r"\[default: ([^\]]+)\]", " ".join(block.split()))
        if flag and default:
            found[flag[1]] = default[1]
    return found
