#!/usr/bin/env python3
"""Is truth right? Removes facts at random, runs `ruge` on the rest, and looks whether proposals were removed facts.

    experiments/truth/planted.py --ruge target/release/ruge --data data/umls --remove 0.1 0.3 --seeds 5

DATA is a folder with train, valid and test (tab-separated, also .gz), or one file. For every share and seed: the facts of
all parts are put together, the share is removed, `ruge run` learns from the rest (which it splits by itself), and `ruge complete`
proposes. A proposal is right if it was removed. Seeds are pooled. Printed: the expected calibration error over proposals of
truth 0.1 or more, with the true completeness given and with the program's estimate; the share of removed facts that are proposed
with at least 0.1; the Brier score over all candidates; buckets. Needs Python 3 and nothing else.
"""
import argparse, concurrent.futures, gzip, json, pathlib, random, subprocess, tempfile


def facts(path):
    path = pathlib.Path(path)
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if "negatives" not in p.name)
    lines = set()
    for file in files:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
        lines.update(line for line in text.splitlines() if line.count("\t") == 2)
    return sorted(lines)


def remove(lines, share, seed, how):
    """The facts to remove: each alike, or by a rate of its relation, or all values that an entity has for a relation."""
    chance = random.Random(seed)
    count = round(share * len(lines))
    if how == "facts":
        return set(chance.sample(lines, count))
    if how == "relations":
        names = sorted({line.split("\t")[1] for line in lines})
        rates = {name: share * 2 * chance.random() for name in names}
        return {line for line in lines if chance.random() < rates[line.split("\t")[1]]}
    groups = {}
    for line in lines:
        groups.setdefault(tuple(line.split("\t")[:2]), []).append(line)
    gone, order = set(), sorted(groups)
    chance.shuffle(order)
    for key in order:
        if len(gone) >= count:
            break
        gone.update(groups[key])
    return gone


def calibration(pairs, least=0.1):
    buckets = {}
    for truth, right in pairs:
        if truth >= least:
            bucket = buckets.setdefault(min(int(truth * 10), 9), [0, 0.0, 0])
            bucket[0] += 1
            bucket[1] += truth
            bucket[2] += right
    size = sum(bucket[0] for bucket in buckets.values())
    error = sum(abs(bucket[1] - bucket[2]) for bucket in buckets.values()) / max(size, 1)
    return error, size, [(k / 10, n, t / n, r / n) for k, (n, t, r) in sorted(buckets.items())]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ruge", default="ruge")
    options.add_argument("--data", required=True)
    options.add_argument("--remove", type=float, nargs="+", default=[0.1, 0.3])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--how", choices=["facts", "relations", "entities"], default="facts")
    options.add_argument("--models", nargs="*", default=["."], help="folders of the run, such as evaluated, unguided")
    options.add_argument("--threads", default="", help="threads of every command")
    options.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    options.add_argument("--run-flags", nargs="*", default=[])
    args = options.parse_args()
    lines = facts(args.data)
    work = [(lines, share, seed, args) for share in args.remove for seed in range(args.seeds)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda parts: plant(*parts), work))
    for share in args.remove:
        of_share = [result for parts, result in zip(work, results) if parts[1] == share]
        for model in args.models:
            show(args, model, share, len(lines), [result[model] for result in of_share])


def plant(lines, share, seed, args):
    """One run; by model: pairs of truth and whether it was removed, given C and not, and the estimate."""
    found = {}
    threads = ["--threads", args.threads] if args.threads else []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        gone = remove(lines, share, seed, args.how)
        (folder / "facts.tsv").write_text("".join(f"{x}\n" for x in lines if x not in gone))
        run = ["run", folder / "facts.tsv", "--out", folder / "run", "--seed", str(seed), "--quiet", *threads, *args.run_flags]
        subprocess.run([args.ruge, *map(str, run)], check=True, stdout=subprocess.DEVNULL)
        for model in args.models:
            of_model = found.setdefault(model, {"gone": len(gone)})
            for name in ("given", "estimated"):
                ask = ["complete", folder / "run" / model, "--min-truth", "0", "--json", "--quiet", *threads]
                ask += ["--completeness", str(1 - len(gone) / len(lines))] if name == "given" else []
                out = json.loads(subprocess.run([args.ruge, *map(str, ask)], check=True, capture_output=True).stdout)
                names = ("head", "relation", "tail")
                of_model[name] = [(x["truth"], "\t".join(x[n] for n in names) in gone) for x in out["facts"]]
                of_model["estimate"] = out["completeness"]["share"]
    return found


def show(args, model, share, size, results):
    model = "" if model == "." else f" ({model})"
    print(f"{args.data}{model}, {share:.0%} removed by {args.how}, {args.seeds} seeds, {size} facts")
    for name in ("given", "estimated"):
        pairs = [pair for result in results for pair in result[name]]
        error, count, buckets = calibration(pairs)
        brier = sum((truth - right) ** 2 for truth, right in pairs) / len(pairs)
        print(f"  C {name}: ECE {error:.3f} over {count} proposals of 0.1 or more; Brier of {len(pairs)} candidates {brier:.5f}")
        print("    " + "  ".join(f"{k:.1f}: {n} {t:.2f}/{r:.2f}" for k, n, t, r in buckets))
    found = sum(right for result in results for truth, right in result["given"] if truth >= 0.1)
    estimates = ", ".join(f"{result['estimate']:.3f}" for result in results)
    gone = sum(result["gone"] for result in results)
    print(f"  proposed at 0.1 or more: {found / gone:.3f} of the removed facts; C is {1 - share:.2f}, estimated {estimates}", flush=True)


main()
