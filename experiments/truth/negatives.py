#!/usr/bin/env python3
"""What is the truth of facts that people have verified to be false? CoDEx-S has such facts for valid and test.

    experiments/truth/negatives.py --ruge target/release/ruge --data data/codex-s

DATA is a folder with train, valid, test and test_negatives (tab-separated, also .gz). `ruge run` learns from train and valid
alone, so that test facts and negatives are both unlisted; `ruge explain` is asked for the truth of each. Printed: mean truth of both,
the area under the precision-recall curve, the Brier score; then the same when some of these facts are given as judgements with
`--feedback` (they are left out of both figures). Needs Python 3 and nothing else.
"""
import argparse, concurrent.futures, gzip, json, pathlib, random, subprocess, tempfile


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
    return mean(of(True)), mean(of(False)), area, brier


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ruge", default="ruge")
    options.add_argument("--data", required=True, type=pathlib.Path)
    options.add_argument("--seed", default="0")
    options.add_argument("--judged", type=int, default=50, help="judgements that are given as feedback")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--run-flags", nargs="*", default=[])
    args = options.parse_args()
    test, negatives = facts(args.data, "test"), facts(args.data, "test_negatives")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "data").mkdir()
        for part in ("train", "valid"):
            lines = ["\t".join(fact) + "\n" for fact in facts(args.data, part)]
            (folder / "data" / f"{part}.tsv").write_text("".join(lines))
        run = ["run", folder / "data", "--out", folder / "run", "--seed", args.seed, "--quiet", *args.run_flags]
        subprocess.run([args.ruge, *map(str, run)], check=True, stdout=subprocess.DEVNULL)

        def truth(fact, *more):
            ask = [args.ruge, "explain", str(folder / "run"), *fact, "--json", "--quiet", "--threads", "1", *map(str, more)]
            done = subprocess.run(ask, capture_output=True)
            # A name that only test has is unknown to the model.
            return json.loads(done.stdout)["truth"] if done.returncode == 0 else None

        def ask(judged, *more):
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                found = list(pool.map(lambda pair: truth(pair[0], *more), judged))
            return [(value, holds) for value, (_, holds) in zip(found, judged) if value is not None]

        judged = [(fact, True) for fact in test] + [(fact, False) for fact in negatives]
        random.Random(0).shuffle(judged)
        feedback, rest = judged[: args.judged], judged[args.judged :]
        path = folder / "feedback.tsv"
        path.write_text("".join("\t".join([*fact, "true" if holds else "false"]) + "\n" for fact, holds in feedback))
        for name, more in (("no feedback", []), (f"{args.judged} judgements", ["--feedback", path])):
            pairs = ask(rest, *more)
            true, false, area, brier = figures(pairs)
            print(f"{name}: {len(pairs)} facts, mean truth {true:.3f} if true, {false:.3f} if false; AUC-PR {area:.3f}, Brier {brier:.3f}", flush=True)


main()
