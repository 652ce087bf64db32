#!/usr/bin/env python3
"""What is the truth of facts that people have verified to be false? CoDEx-S has such facts for valid and test.

    experiments/truth/negatives.py --ruge target/release/ruge --data data/codex-s

DATA is a folder with train, valid, test and test_negatives (tab-separated, also .gz). `ruge run` learns from train and valid
alone, so that test facts and negatives are both unlisted; `ruge predict --queries` is asked which relations hold between their ends,
which gives the truth of each (the same as in `explain`). Printed, before and after some of these facts are given as judgements with
`--feedback`: mean truth of true and of false ones, the area under the precision-recall curve, the Brier score. The judged facts are
left out of all figures. `--json FILE` writes them for programs. Needs Python 3 and nothing else.
"""
import argparse, gzip, json, pathlib, random, subprocess, tempfile


def facts(folder, name):
    for path in sorted(folder.iterdir()):
        if path.name.split(".")[0] == name:
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
            return [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
    raise SystemExit(f"{folder}: no file {name}")


def figures(pairs):
    """Mean truth of true and of false facts, area under precision and recall, Brier score."""
    of = lambda wanted: [truth for truth, holds in pairs if holds == wanted]
    area, hits, recalled, total = 0.0, 0, 0.0, len(of(True))
    ordered = sorted(pairs, reverse=True, key=lambda pair: pair[0])
    at = 0
    while at < len(ordered):
        end = at
        while end < len(ordered) and ordered[end][0] == ordered[at][0]:
            hits += ordered[end][1]
            end += 1
        area += (hits / total - recalled) * hits / end
        recalled, at = hits / total, end
    brier = sum((truth - holds) ** 2 for truth, holds in pairs) / len(pairs)
    mean = lambda values: sum(values) / len(values)
    return {
        "true": total, "false": len(pairs) - total, "truth_if_true": mean(of(True)), "truth_if_false": mean(of(False)),
        "auc_pr": area, "brier": brier,
    }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ruge", default="ruge")
    options.add_argument("--data", required=True, type=pathlib.Path)
    options.add_argument("--seed", default="0")
    options.add_argument("--judged", type=int, default=50, help="judgements that are given as feedback")
    options.add_argument("--threads", default="", help="threads of every command")
    options.add_argument("--run-flags", nargs="*", default=[])
    options.add_argument("--json", help="a file for all figures")
    args = options.parse_args()
    test, negatives = facts(args.data, "test"), facts(args.data, "test_negatives")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "data").mkdir()
        for part in ("train", "valid"):
            lines = ["\t".join(fact) + "\n" for fact in facts(args.data, part)]
            (folder / "data" / f"{part}.tsv").write_text("".join(lines))
        threads = ["--threads", args.threads] if args.threads else []
        run = ["run", folder / "data", "--out", folder / "run", "--seed", args.seed, "--quiet", *threads, *args.run_flags]
        subprocess.run([args.ruge, *map(str, run)], check=True, stdout=subprocess.DEVNULL)

        def ask(judged, *more):
            """Pairs of truth and whether it holds; facts with a name that only test has are unknown to the model, and left out."""
            pairs = sorted({(fact[0], fact[2]) for fact, _ in judged})
            (folder / "questions").write_text("".join(json.dumps({"head": h, "tail": t}) + "\n" for h, t in pairs))
            flags = ["--queries", folder / "questions", "--top", "1000000", "--to", "jsonl", "--lenient", "--quiet", *threads, *more]
            ask = [args.ruge, "predict", folder / "run", *flags]
            lines = subprocess.run(list(map(str, ask)), check=True, capture_output=True).stdout.decode().splitlines()
            truths = {}
            for result in map(json.loads, lines):
                for answer in result["answers"]:
                    truths[result["head"], answer["relation"], result["tail"]] = answer["truth"]
            return [(truths[tuple(fact)], holds) for fact, holds in judged if tuple(fact) in truths]

        judged = [(fact, True) for fact in test] + [(fact, False) for fact in negatives]
        random.Random(0).shuffle(judged)
        feedback, rest = judged[: args.judged], judged[args.judged :]
        path = folder / "feedback.tsv"
        known = {name for part in ("train", "valid") for fact in facts(args.data, part) for name in (fact[0], fact[2])}
        said = [(fact, holds) for fact, holds in feedback if fact[0] in known and fact[2] in known]
        path.write_text("".join("\t".join([*fact, "true" if holds else "false"]) + "\n" for fact, holds in said))
        rows = {"before": figures(ask(rest)), f"after {len(said)} judgements": figures(ask(rest, "--feedback", path))}
    print(f"{args.data}, seed {args.seed}: {rows['before']['true']} true facts of test and {rows['before']['false']} negatives")
    print("                        mean truth if true  if false  AUC-PR  Brier")
    for name, row in rows.items():
        print(f"  {name:<24}{row['truth_if_true']:.3f}     {row['truth_if_false']:.3f}   {row['auc_pr']:.3f}   {row['brier']:.3f}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


main()
