#!/usr/bin/env python3
"""Debian as a knowledge graph, from the package lists of any mirror: a real graph of 1.5 million facts, or of 24 million.

    experiments/data/debian.py --out data/debian
    experiments/data/debian.py --out data/debian-files --files
    experiments/data/debian.py --out data/debian --mirror URL --suite bookworm

Metadata, from Packages and Sources: what a package depends on, recommends, suggests, provides, breaks; its section, priority,
maintainer, source and tags; what a source needs to be built, who uploads it. With --files also, from Contents: which package a
file belongs to, its directory and its extension, and the directory above each directory.

The mirror is that of apt on this machine, or --mirror. The lists are checked against the hashes in the suite's InRelease, and that
against its signature if `gpgv` and Debian's keyring are installed. Lists are kept in OUT/lists: while an InRelease lies there, that
release is built again, to the same bytes. Delete it for a newer one.

valid and test hold metadata facts only and are the same with and without --files, so the files can be seen to help or not. No
entity and no relation is left out of train.

Names: packages as they are, `source:NAME`, `person:NAME <ADDRESS>`, `tag:FACET::TAG`, `section:NAME`, …; files and directories by
their paths, directories with a slash at the end. Of alternatives (`a | b`) each is a fact. Versions and conditions are left out.
"""
import argparse, gzip, hashlib, io, lzma, os, pathlib, re, shutil, subprocess, sys, time, urllib.error, urllib.request

import graph

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Fields whose values are lists of packages, and the relation of each.
PACKAGES = {
    name: name.lower()
    for name in (
        "Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances", "Provides", "Breaks", "Conflicts", "Replaces",
        "Built-Using", "Static-Built-Using",
    )
}
SOURCES = {
    name: name.lower()
    for name in (
        "Build-Depends", "Build-Depends-Indep", "Build-Depends-Arch", "Build-Conflicts", "Build-Conflicts-Indep",
        "Build-Conflicts-Arch", "Testsuite-Triggers",
    )
}
# Relations whose tails are sources.
OF_SOURCES = {"built-using", "static-built-using"}
# Fields with a single value.
VALUES = ("Section", "Priority", "Multi-Arch", "Essential", "Protected", "Important")
SOURCE_VALUES = ("Section", "Priority", "Format", "Standards-Version", "Testsuite", "Rules-Requires-Root")


def stop(words):
    sys.exit(f"debian.py: {words}")


def configured():
    """(mirror, suite) of apt's own lists."""
    ask = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(LABEL)", "Created-By: Packages"]
    try:
        found = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.split(" ", 2)[:2] for line in found if line.endswith(" Debian") and "-" not in line.split(" ")[1]]


def place(mirror, suite):
    """Where the lists come from: what was asked for, and the rest from apt."""
    if not (mirror and suite):
        found = [it for it in configured() if suite in (None, it[1])]
        if not found:
            stop("apt knows no Debian mirror of that suite here\n  remedy: give --mirror URL and --suite NAME")
        mirror, suite = mirror or found[0][0], suite or found[0][1]
    return mirror.rstrip("/"), suite


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        stop(f"{url}: {error}\n  remedy: give a mirror that has this suite, with --mirror URL and --suite NAME")


def checked_signature(path):
    if not path.read_bytes().startswith(b"-----BEGIN PGP SIGNED MESSAGE-----"):
        return "none"
    if not shutil.which("gpgv") or not os.path.exists(KEYRING):
        return "not checked"
    found = subprocess.run(["gpgv", "--keyring", KEYRING, str(path)], capture_output=True, text=True)
    if found.returncode:
        stop(f"{path}: its signature is wrong\n{found.stderr}")
    return "good"


def release(lists, mirror, suite):
    """The fields of InRelease, and the hash of each list it names."""
    path = lists / "InRelease"
    if not path.exists():
        path.write_bytes(fetch(f"{mirror}/dists/{suite}/InRelease"))
    text = path.read_text(errors="replace")
    said = {name: re.search(rf"^{name}: (.*)$", text, re.M) for name in ("Codename", "Suite", "Version", "Date")}
    about = {name.lower(): found[1] if found else "" for name, found in said.items()}
    about["in_release_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    about["signature"] = checked_signature(path)
    block = re.search(r"^SHA256:\n((?: .*\n)+)", text, re.M)
    if not block:
        stop(f"{path}: it lists no SHA256 hashes, so it is no InRelease of a suite\n  remedy: delete it, give another mirror")
    return about, {name: it for it, _, name in (row.split() for row in block[1].splitlines())}


def opened(lists, mirror, suite, hashes, names):
    """The first of these lists that the release has, as lines; downloaded unless it is here."""
    for name in names:
        if name not in hashes:
            continue
        path = lists / name.replace("/", "_")
        if not path.exists() or digest(path) != hashes[name]:
            data = fetch(f"{mirror}/dists/{suite}/{name}")
            if hashlib.sha256(data).hexdigest() != hashes[name]:
                stop(f"{mirror}: {name} is not the one of the InRelease in {lists}\n  remedy: delete that folder, try again")
            path.write_bytes(data)
        plain = {".xz": lzma.open, ".gz": gzip.open}[path.suffix](path, "rb")
        return io.TextIOWrapper(io.BufferedReader(plain, 1 << 20), encoding="utf-8", errors="backslashreplace", newline="\n")
    stop(f"this release has none of {', '.join(names)}\n  remedy: give another --suite")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stanzas(lines):
    found, name = {}, None
    for line in lines:
        if line == "\n":
            if found:
                yield found
            found, name = {}, None
        elif line[0] in " \t":
            found[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            found[name] = value.strip()
    if found:
        yield found


def packages(value):
    """Packages of a list: `a (>= 1), b:any | c [amd64] <!nocheck>` names a, b and c."""
    for part in re.split(r"[,|]", value):
        name = re.match(r"[^\s:(\[<]+", part.strip())
        if name and "${" not in name[0]:
            yield name[0]


def people(value):
    """People of a list, which is separated by commas that names may hold too: an address ends each."""
    for person in re.findall(r"[^<>]*<[^<>]*>", value):
        yield "person:" + person.strip(" ,\n\t")


def host(url):
    found = re.match(r"\w+://(?:www\.)?([^/:\s]+)", url)
    return found and f"host:{found[1].lower()}"


def of_package(package):
    name = package["Package"]
    for field, relation in PACKAGES.items():
        prefix = "source:" if relation in OF_SOURCES else ""
        for other in packages(package.get(field, "")):
            yield name, relation, prefix + other
    yield name, "source", "source:" + package.get("Source", name).split(" ")[0]
    for field in VALUES:
        if package.get(field):
            yield name, field.lower(), f"{field.lower()}:{package[field]}"
    yield name, "architecture", f"architecture:{package['Architecture']}"
    for person in people(package.get("Maintainer", "")):
        yield name, "maintainer", person
    for task in re.split(r",\s*", package.get("Task", "")):
        if task:
            yield name, "task", f"task:{task}"
    if host(package.get("Homepage", "")):
        yield name, "homepage", host(package["Homepage"])
    for tag in tags(package.get("Tag", "")):
        yield name, "tag:" + tag.split("::")[0], f"tag:{tag}"


def tags(value):
    """Tags of a list; `implemented-in::{c,c++}` is two."""
    for part in re.findall(r"[^,{]+(?:\{[^}]*\})?", value):
        facet, _, value = part.strip().partition("::")
        for tag in value.strip("{}").split(","):
            if facet and tag:
                yield f"{facet}::{tag}"


def of_source(source):
    name = "source:" + source["Package"]
    for field, relation in SOURCES.items():
        for other in packages(source.get(field, "")):
            if not other.startswith("@"):
                yield name, relation, other
    for field in SOURCE_VALUES:
        for value in source.get(field, "").split(", "):
            if value:
                yield name, f"source-{field.lower()}", f"{field.lower()}:{value}"
    for architecture in source.get("Architecture", "").split():
        yield name, "source-architecture", f"architecture:{architecture}"
    for field, relation in (("Maintainer", "source-maintainer"), ("Uploaders", "uploader")):
        for person in people(source.get(field, "")):
            yield name, relation, person
    for field in source:
        if field.startswith("Vcs-") and field not in ("Vcs-Browser", "Vcs-Mtn"):
            yield name, "vcs", f"vcs:{field[4:].lower()}"
    for field, relation in (("Vcs-Browser", "vcs-host"), ("Homepage", "source-homepage")):
        if host(source.get(field, "")):
            yield name, relation, host(source[field])


def metadata(lists):
    """The facts of Packages and Sources, as lines."""
    for stanza in stanzas(lists("main/binary-amd64/Packages")):
        for fact in of_package(stanza):
            yield graph.line(*fact)
    for stanza in stanzas(lists("main/source/Sources")):
        # Older versions of sources stay as long as something was built with them.
        if stanza.get("Extra-Source-Only") != "yes":
            for fact in of_source(stanza):
                yield graph.line(*fact)


def located(lines):
    """(path, packages) of a Contents list: a path, which may hold blanks, blanks, and SECTION/PACKAGE,SECTION/PACKAGE."""
    seen = {}
    for line in lines:
        path, _, where = line.rstrip("\n").rpartition(" ")
        if where not in seen:
            seen[where] = frozenset(it.rpartition("/")[2] for it in where.split(","))
        yield "/" + path.rstrip().replace("\t", " "), seen[where]


def files(lists, writer, known):
    """Adds the facts of Contents; returns how many entities only they have. `known` holds those of the metadata."""
    directories, extensions, owners, count = set(), set(), set(), 0
    # Paths of the first, smaller list, with their packages: the second one repeats some.
    first = {}
    for name in ("amd64", "all"):
        for path, names in located(lists(f"main/Contents-{name}")):
            owners |= names
            before = first.get(path, frozenset())
            writer.add("owner", [f"{path}\towner\t{name}\n" for name in sorted(names - before)])
            if name == "amd64":
                first[path] = names
            if before:
                continue
            count += 1
            directory, _, name_there = path.rpartition("/")
            directories.add(directory)
            writer.add("directory", [f"{path}\tdirectory\t{directory}/\n"])
            stem, _, extension = name_there.rpartition(".")
            if stem and 0 < len(extension) <= 16 and " " not in extension:
                extensions.add(extension)
                writer.add("extension", [f"{path}\textension\textension:{extension}\n"])
    for directory in list(directories):
        while directory:
            directory = directory.rpartition("/")[0]
            if directory in directories:
                break
            directories.add(directory)
    above = [f"{path}/\tparent\t{path.rpartition('/')[0]}/\n" for path in sorted(directories) if path]
    writer.add("parent", above)
    return count + len(directories) + len(extensions) + len(owners - known)


def main():
    started = time.monotonic()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", required=True, type=pathlib.Path, help="folder of the graph")
    options.add_argument("--mirror", help="address of a mirror, the part before /dists [default: that of apt]")
    options.add_argument("--suite", help="codename of a release [default: that of apt]")
    options.add_argument("--files", action="store_true", help="also the files of every package")
    options.add_argument("--held-out", type=int, default=20_000, help="facts each of valid and test [default: 20000]")
    options.add_argument("--seed", type=int, default=0, help="seed of the split [default: 0]")
    options.add_argument("--lists", type=pathlib.Path, help="folder of the downloaded lists [default: OUT/lists]")
    args = options.parse_args()
    folder = args.lists or args.out / "lists"
    folder.mkdir(parents=True, exist_ok=True)
    mirror, suite = place(args.mirror, args.suite)
    about, hashes = release(folder, mirror, suite)

    def lists(name):
        return opened(folder, mirror, suite, hashes, [f"{name}.xz", f"{name}.gz"])

    parts = graph.split(metadata(lists), args.held_out, args.seed)
    more = (lambda writer, known: files(lists, writer, known)) if args.files else None
    about = {"source": "Debian package lists, main, amd64 and all", **about, "seed": args.seed}
    graph.write(args.out, parts, about, more, started)


if __name__ == "__main__":
    main()
