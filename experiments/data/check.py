#!/usr/bin/env python3
"""Tests of the scripts of this folder, against a mirror of four packages that is made here and counted by hand.

    experiments/data/check.py
"""
import contextlib, gzip, hashlib, io, json, lzma, pathlib, random, sys, tempfile, unittest

import debian, graph

PACKAGES = """Package: left
Source: both (1.2)
Architecture: amd64
Maintainer: Ada Lovelace <ada@example.org>
Depends: libc6 (>= 2.36), mail-agent | right:any [amd64] <!nocheck>
Provides: mail-agent (= 1)
Section: utils
Priority: optional
Homepage: https://www.example.org/left
Description: a package
 Depends: not this line
Tag: role::program, implemented-in::{c,c++},
 scope::utility

Package: right
Source: both
Architecture: all
Maintainer: Ada Lovelace <ada@example.org>
Built-Using: glibc (= 2.36)
Section: utils
Priority: optional

Package: libc6
Architecture: amd64
Maintainer: Libraries, and friends <libs@example.org>
Section: libs
Priority: required
Multi-Arch: same
"""
SOURCES = """Package: both
Binary: left, right
Architecture: any all
Maintainer: Ada Lovelace <ada@example.org>
Uploaders: Grace Hopper <grace@example.org>, Lovelace, A. <a@example.org>
Build-Depends: debhelper-compat (= 13), libc6-dev | left
Testsuite-Triggers: @builddeps@, right
Vcs-Browser: https://code.example.org/both
Vcs-Git: https://code.example.org/both.git
Section: utils

Package: old
Extra-Source-Only: yes
Build-Depends: gone
"""
AMD64 = """usr/bin/left                                            utils/left
usr/share/doc/left/README.txt                           utils/left,utils/right
usr/share/a  b.tar.gz libs/libc6
"""
ALL = """usr/share/doc/left/README.txt                           utils/right
usr/share/doc/right/.hidden                             non-free/utils/right
"""


def mirror(folder, suite="test"):
    lists = {
        "main/binary-amd64/Packages.xz": lzma.compress(PACKAGES.encode()),
        "main/source/Sources.xz": lzma.compress(SOURCES.encode()),
        "main/Contents-amd64.gz": gzip.compress(AMD64.encode()),
        "main/Contents-all.gz": gzip.compress(ALL.encode()),
    }
    place = folder / "dists" / suite
    rows = "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in lists.items())
    for name, data in lists.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    (place / "InRelease").write_text(f"Codename: {suite}\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n{rows}")
    return folder.as_uri()


def build(out, address, *more):
    words = ["debian.py", "--out", str(out), "--mirror", address, "--suite", "test", "--held-out", "2", *more]
    before, sys.argv = sys.argv, words
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            debian.main()
    finally:
        sys.argv = before
    return {name: (out / f"{name}.txt").read_text() for name in ("train", "valid", "test")}


class Debian(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.address = mirror(self.path / "mirror")

    def tearDown(self):
        self.folder.cleanup()

    def facts(self, splits):
        lines = "".join(splits.values()).splitlines()
        self.assertEqual(len(lines), len(set(lines)), "no fact twice")
        return set(lines)

    def test_what_packages_say_is_a_fact_each(self):
        facts = self.facts(build(self.path / "a", self.address))
        for fact in (
            "left\tdepends\tlibc6", "left\tdepends\tmail-agent", "left\tdepends\tright", "left\tprovides\tmail-agent",
            "left\tsource\tsource:both", "right\tsource\tsource:both", "libc6\tsource\tsource:libc6",
            "left\thomepage\thost:example.org", "left\ttag:implemented-in\ttag:implemented-in::c",
            "left\ttag:implemented-in\ttag:implemented-in::c++", "left\ttag:scope\ttag:scope::utility",
            "libc6\tmaintainer\tperson:Libraries, and friends <libs@example.org>",
            "right\tbuilt-using\tsource:glibc", "source:both\tuploader\tperson:Lovelace, A. <a@example.org>",
            "source:both\tbuild-depends\tlibc6-dev", "source:both\tbuild-depends\tleft",
            "source:both\ttestsuite-triggers\tright", "source:both\tvcs\tvcs:git", "libc6\tmulti-arch\tmulti-arch:same",
        ):
            self.assertIn(fact, facts)
        # left: 3 + 1 + 1 source + 2 values + architecture + maintainer + homepage + 4 tags; right: 6 and built-using;
        # libc6: 6 and multi-arch; the source: 3 + 1 + 1 value + 2 architectures + 3 people + vcs + its host.
        self.assertEqual(len(facts), 14 + 6 + 6 + 12)

    def test_files_are_added_to_train_and_change_no_other_split(self):
        plain = build(self.path / "a", self.address)
        full = build(self.path / "b", self.address, "--files")
        self.assertEqual((plain["valid"], plain["test"]), (full["valid"], full["test"]))
        more = self.facts(full) - self.facts(plain)
        self.assertEqual(sum("\towner\t" in fact for fact in more), 5, "one file has two owners, said twice of one")
        self.assertIn("/usr/share/doc/left/README.txt\towner\tright", more)
        self.assertIn("/usr/share/a  b.tar.gz\tdirectory\t/usr/share/", more)
        self.assertIn("/usr/share/a  b.tar.gz\textension\textension:gz", more)
        self.assertEqual(sum("\tdirectory\t" in fact for fact in more), 4)
        self.assertEqual(sum("\textension\t" in fact for fact in more), 2, "a hidden file has none")
        # /usr, /usr/bin, /usr/share, /usr/share/doc and two below it.
        self.assertEqual(sum("\tparent\t" in fact for fact in more), 6)
        self.assertIn("/usr/\tparent\t/", more)
        about = json.loads((self.path / "b/graph.json").read_text())
        names = {name for fact in self.facts(full) for name in fact.split("\t")[::2]}
        self.assertEqual((about["facts"], about["entities"]), (len(self.facts(full)), len(names)))
        self.assertEqual(about["in_release_sha256"], debian.digest(self.path / "b/lists/InRelease"))
        for name, text in full.items():
            self.assertEqual(about["files"][f"{name}.txt"]["sha256"], hashlib.sha256(text.encode()).hexdigest())

    def test_a_release_is_built_again_without_its_mirror_and_a_changed_list_is_refused(self):
        first = build(self.path / "a", self.address)
        gone = (self.path / "gone").as_uri()
        self.assertEqual(build(self.path / "a", gone), first)
        (self.path / "mirror/dists/test/main/source/Sources.xz").write_bytes(b"changed")
        with self.assertRaisesRegex(SystemExit, "is not the one of the InRelease"):
            build(self.path / "b", self.address)


class Split(unittest.TestCase):
    def test_nothing_is_left_out_of_train(self):
        for seed in range(20):
            draw = random.Random(seed)
            facts = {graph.line(f"e{draw.randrange(30)}", f"r{draw.randrange(4)}", f"e{draw.randrange(30)}") for _ in range(200)}
            parts = graph.split(facts, 25, seed)
            self.assertEqual([len(part) for part in parts[1:]], [25, 25])
            self.assertEqual(set().union(*parts), facts)
            self.assertEqual(sum(len(part) for part in parts), len(facts))
            inside = {name for fact in parts[0] for name in graph.ends(fact)}
            self.assertEqual({name for fact in facts for name in graph.ends(fact)}, inside)
            self.assertEqual(graph.split(reversed(sorted(facts)), 25, seed), parts)
            self.assertNotEqual(graph.split(facts, 25, seed + 1), parts)

    def test_a_loop_counts_for_both_its_ends(self):
        # The only fact of an entity stays, although it names the entity twice.
        facts = [graph.line("a", "r", "a"), graph.line("b", "r", "c"), graph.line("b", "s", "c"), graph.line("c", "s", "b")]
        for seed in range(20):
            train, valid, test = graph.split(facts, 1, seed)
            self.assertIn(facts[0], train)


if __name__ == "__main__":
    unittest.main()
