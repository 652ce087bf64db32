#!/usr/bin/env python3
"""Debian's package lists as a graph of facts, one per line, to try truth on data that nobody made for benchmarks.

    experiments/truth/debian.py --out debian.tsv --facts 250000
    ruge run debian.tsv --out runs/debian
    experiments/truth/debian.py --out debian.tsv --count runs/debian --ruge target/release/ruge

Reads `Packages` files: those given, or those that apt keeps on a Debian machine (`apt-get update` fetches them from any mirror).
Files may be compressed with gzip, xz or lz4 (the program of that name must be installed). Relations: priority, section, maintainer,
source, depends, recommends, suggests, provides, and a relation for each facet of the tags. Packages are taken in the order of their
names until there are enough facts. `priority` and `section` are functions: every package has one.

With `--count RUN` nothing is built: `ruge complete RUN --min-truth 0.2 --json` is asked for these two relations, and every proposal is
looked up in the graph, which is read from `--out`. Printed: how many give a package a second value. Exits with 1 if any does.
"""
import argparse, hashlib, json, pathlib, re, subprocess, sys


def lists():
    ask = ["apt-get", "indextargets", "--format", "$(FILENAME)", "Created-By: Packages"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.split()


def text(path):
    programs = {".gz": ["gzip", "-dc"], ".xz": ["xz", "-dc"], ".lz4": ["lz4", "-dc"]}
    path = pathlib.Path(path)
    if path.suffix == ".lz4":
        # Debian ships a helper that reads what apt has written.
        ask = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    elif path.suffix in programs:
        ask = [*programs[path.suffix], str(path)]
    else:
        return path.read_text(errors="replace")
    return subprocess.run(ask, check=True, capture_output=True).stdout.decode(errors="replace")


def fields(stanza):
    found, name = {}, None
    for line in stanza.splitlines():
        if line[:1] in " \t":
            found[name] = found.get(name, "") + " " + line.strip()
        elif ":" in line:
            name, value = line.split(":", 1)
            found[name] = value.strip()
    return found


def names(value):
    """Packages of a dependency; of alternatives, the first."""
    for part in value.split(","):
        name = re.sub(r"[\s(:].*", "", part.split("|")[0].strip())
        if name:
            yield name


def facts(package):
    name = package["Package"]
    for field in ("Priority", "Section", "Maintainer"):
        if package.get(field):
            yield name, field.lower(), package[field]
    yield name, "source", "source:" + package.get("Source", name).split(" ")[0]
    for field in ("Depends", "Pre-Depends", "Recommends", "Suggests", "Provides"):
        for other in names(package.get(field, "")):
            yield name, field.lower().replace("pre-", ""), other
    for tag in re.split(r",\s*", package.get("Tag", "")):
        if "::" in tag:
            yield name, "tag " + tag.split("::")[0], tag


def count(args):
    """Proposals that give a second value to a function."""
    listed = {}
    for line in pathlib.Path(args.out).read_text().splitlines():
        head, relation, tail = line.split("\t")
        listed.setdefault((head, relation), set()).add(tail)
    wrong = 0
    for relation in ("priority", "section"):
        ask = [args.ruge, "complete", args.count, "--relation", relation, "--min-truth", str(args.min_truth), "--json", "--quiet"]
        proposed = json.loads(subprocess.run(ask, check=True, capture_output=True).stdout)["facts"]
        second = [fact for fact in proposed if listed.get((fact["head"], relation), set()) - {fact["tail"]}]
        wrong += len(second)
        print(f"{relation}: {len(proposed)} proposals of truth {args.min_truth} or more, {len(second)} of them second values")
        for fact in second[:10]:
            values = ", ".join(sorted(listed[fact["head"], relation]))
            print(f"  {fact['truth']:.3f} {fact['head']} {relation} {fact['tail']}, listed: {values}")
    return wrong


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*")
    options.add_argument("--out", required=True)
    options.add_argument("--facts", type=int, default=250_000)
    options.add_argument("--count", metavar="RUN", help="count second values among the proposals of this run")
    options.add_argument("--min-truth", type=float, default=0.2)
    options.add_argument("--ruge", default="ruge")
    args = options.parse_args()
    if args.count:
        sys.exit(1 if count(args) else 0)
    packages = {}
    for path in args.files or lists():
        for stanza in text(path).split("\n\n"):
            package = fields(stanza)
            if "Package" in package:
                packages.setdefault(package["Package"], package)
    lines, seen = [], set()
    for name in sorted(packages):
        if len(lines) >= args.facts:
            break
        for fact in facts(packages[name]):
            line = "\t".join(part.replace("\t", " ") for part in fact)
            if line not in seen:
                seen.add(line)
                lines.append(line)
    body = "".join(f"{line}\n" for line in lines)
    pathlib.Path(args.out).write_text(body)
    print(f"{args.out}: {len(lines)} facts, sha256 {hashlib.sha256(body.encode()).hexdigest()}")


main()
