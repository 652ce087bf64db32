"""What the scripts of this folder share: facts become a folder with train, valid and test that `ruge` reads.

Everything is a function of the facts and of the seed: the order of the facts, the operating system and the version of Python
change nothing. A fact is a line `head TAB relation TAB tail`.
"""
import hashlib, json, pathlib, time
from collections import Counter


def line(head, relation, tail):
    """A fact as a line; names hold no tabs and no line ends."""
    return "\t".join(" ".join(part.split()) for part in (head, relation, tail)) + "\n"


def split(facts, held_out, seed):
    """`held_out` facts each for valid and test, and the rest for train, with no entity and no relation left out of train.

    Facts are drawn in the order of a hash of each, so a fact that comes or goes later moves no other one.
    """
    facts = sorted(set(facts))
    left = Counter()
    for fact in facts:
        left.update(ends(fact))
    salt = f"{seed}\n".encode()
    drawn = sorted(facts, key=lambda fact: hashlib.sha256(salt + fact.encode()).digest())
    out = []
    for fact in drawn:
        if len(out) == 2 * held_out:
            break
        names = ends(fact)
        if all(left[name] > times for name, times in Counter(names).items()):
            left.subtract(names)
            out.append(fact)
    valid, test = sorted(out[::2]), sorted(out[1::2])
    gone = set(out)
    return [fact for fact in facts if fact not in gone], valid, test


def ends(fact):
    head, relation, tail = fact.rstrip("\n").split("\t")
    return [("entity", head), ("relation", relation), ("entity", tail)]


class Writer:
    """Writes facts to a file, and counts and hashes them on the way."""

    def __init__(self, path):
        self.path, self.hash, self.relations, self.bytes = path, hashlib.sha256(), Counter(), 0
        self.file, self.buffer = open(path, "wb"), []

    def add(self, relation, lines):
        self.relations[relation] += len(lines)
        self.buffer += lines
        if len(self.buffer) >= 100_000:
            self.flush()

    def add_all(self, lines):
        for fact in lines:
            self.add(fact.split("\t", 2)[1], [fact])

    def flush(self):
        block = "".join(self.buffer).encode()
        self.hash.update(block)
        self.file.write(block)
        self.bytes += len(block)
        self.buffer.clear()

    def close(self):
        self.flush()
        self.file.close()
        return {"facts": sum(self.relations.values()), "bytes": self.bytes, "sha256": self.hash.hexdigest()}


def write(folder, parts, about, more=None, started=None):
    """Writes train, valid and test, `SHA256SUMS`, and `graph.json` with what the graph is made of; prints the counts.

    `more` adds facts to train that are too many for memory: a function that gets the writer and returns the number of entities
    that only these facts have.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    entities, relations, files = set(), Counter(), {}
    for name, facts in zip(("train", "valid", "test"), parts):
        writer = Writer(folder / f"{name}.txt")
        writer.add_all(facts)
        for fact in facts:
            head, _, tail = fact.rstrip("\n").split("\t")
            entities.update((head, tail))
        count = len(entities)
        if more and name == "train":
            count += more(writer, entities)
            extra = count - len(entities)
        files[f"{name}.txt"] = writer.close()
        relations.update(writer.relations)
    total = len(entities) + (extra if more else 0)
    about = {
        **about,
        "facts": sum(relations.values()),
        "entities": total,
        "relations": dict(sorted(relations.items())),
        "files": files,
    }
    (folder / "graph.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    (folder / "SHA256SUMS").write_text("".join(f"{it['sha256']}  {name}\n" for name, it in files.items()))
    print(f"{folder}: {about['facts']:,} facts, {total:,} entities, {len(relations)} relations")
    for name, it in files.items():
        print(f"  {name:9} {it['facts']:>10,} facts  sha256 {it['sha256']}")
    if started:
        print(f"  {time.monotonic() - started:.0f} s, {peak_megabytes()} MB of memory")
    return about


def peak_megabytes():
    try:
        import resource
    except ImportError:
        return "?"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
