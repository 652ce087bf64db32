#!/usr/bin/env python3
"""Debian's package lists as a graph of facts, one per line, to try truth on data that nobody made for benchmarks.

    experiments/truth/debian.py --out debian.tsv --facts 250000
    ruge run debian.tsv --out runs/debian
    ruge complete runs/debian --relation priority --min-truth 0.2
    ruge complete runs/debian --relation section --min-truth 0.2

Reads `Packages` files: those given, or those that apt keeps on a Debian machine (`apt-get update` fetches them from any mirror).
Files may be compressed with gzip, xz or lz4 (the program of that name must be installed). Relations: priority, section, maintainer,
source, depends, recommends, suggests, provides, and a relation for each facet of the tags. Packages are taken in the order of their
names until there are enough facts. `priority` and `section` are functions: every package has one.
"""
import argparse, hashlib, pathlib, re, subprocess


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


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*")
    options.add_argument("--out", required=True)
    options.add_argument("--facts", type=int, default=250_000)
    args = options.parse_args()
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
