"""Counts the triples of RDF files with ruge and with rdflib, and lists where they differ.

    pip install rdflib && pip download --no-deps --no-binary :all: rdflib && tar xzf rdflib-*.tar.gz
    python experiments/rdf/compare.py RUGE rdflib-*/test/data

RUGE is the program. Both count distinct triples of all graphs together, literals included, with the same base. A file that both
refuse agrees as well: rdflib's test data hold many that are wrong on purpose.
"""

import collections
import json
import logging
import pathlib
import subprocess
import sys

import rdflib

FORMATS = {
    ".nt": "nt",
    ".ttl": "turtle",
    ".rdf": "xml",
    ".nq": "nquads",
    ".trig": "trig",
    ".jsonld": "json-ld",
}
BASE = "http://example.org/base/"


def by_rdflib(path):
    """The number of distinct triples, or None where rdflib refuses the file."""
    data = rdflib.Dataset(default_union=True)
    try:
        data.parse(path, format=FORMATS[path.suffix], publicID=BASE)
        return len({(s, p, o) for s, p, o, _ in data.quads()})
    except Exception:  # rdflib raises whatever its parsers raise
        return None


def by_ruge(ruge, path):
    """The same by ruge, with what it says where it refuses."""
    command = [ruge, "check", str(path), "--json", "--literals", "entities", "--base", BASE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return None, " ".join(lines[:2])[:160]
    found = json.loads(done.stdout)
    return sum(found[part] for part in ("train", "valid", "test")), ""


def main(ruge, folder):
    logging.disable(logging.CRITICAL)
    verdicts = collections.Counter()
    differ = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.suffix not in FORMATS or not path.is_file():
            continue
        theirs = by_rdflib(path)
        ours, reason = by_ruge(ruge, path)
        empty = not ours and not theirs
        if theirs == ours and theirs is not None:
            verdict = "the same count"
        elif empty:
            verdict = "both refuse it, or find nothing"
        elif ours is None:
            verdict = "only ruge refuses it"
        elif theirs is None:
            verdict = "only rdflib refuses it"
        else:
            verdict = "another count"
        verdicts[path.suffix, verdict] += 1
        if verdict in ("another count", "only ruge refuses it", "only rdflib refuses it"):
            differ.append((verdict, str(path.relative_to(folder)), theirs, ours, reason))
    for (suffix, verdict), count in sorted(verdicts.items()):
        print(f"{count:6}  {suffix:8}  {verdict}")
    for row in sorted(differ):
        print("\t".join("" if cell is None else str(cell) for cell in row))


if __name__ == "__main__":
    main(*sys.argv[1:])
