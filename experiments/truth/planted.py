#!/usr/bin/env python3
"""Is truth right? Removes facts at random, runs `ruge` on the rest, and looks whether proposals were removed facts.

    experiments/truth/planted.py --ruge target/release/ruge --data data/umls --remove 0.1 0.3 --seeds 5

DATA is a folder with train, valid and test (tab-separated, also .gz), or one file. For every share and seed: the facts of
all parts are put together, the share is removed, `ruge run` learns from the rest (which it splits by itself), and `ruge complete`
proposes. A proposal is right if it was removed. Seeds are pooled. Printed, with the true completeness given and with the program's estimate: the expected calibration error
over proposals of truth 0.1 or more, and the Brier score over all candidates; buckets of a tenth with their number of proposals,
mean truth and share of right ones, and for those of fewer than 500 the 99.8 % interval of that share, bootstrapped by subject;
the share of removed facts that are proposed with at least 0.1. `--json FILE` writes all of it for programs. Needs Python 3 and
nothing else.
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


def interval(cases, seed, times=2_000, level=0.998):
    """Where the share of right ones lies, if subjects are drawn again. Cases are (truth, right, subject)."""
    subjects = {}
    for _, right, subject in cases:
        count = subjects.setdefault(subject, [0, 0])
        count[0] += 1
        count[1] += right
    counts, chance, shares = list(subjects.values()), random.Random(seed), []
    for _ in range(times):
        drawn = chance.choices(counts, k=len(counts))
        shares.append(sum(right for _, right in drawn) / sum(size for size, _ in drawn))
    shares.sort()
    cut = round((1 - level) / 2 * times)
    return [shares[cut], shares[times - 1 - cut]]


def calibration(cases, least=0.1, small=500):
    """The calibration error, and the buckets of a tenth."""
    tenths = {}
    for case in cases:
        if case[0] >= least:
            tenths.setdefault(min(int(case[0] * 10), 9), []).append(case)
    size = sum(map(len, tenths.values()))
    buckets = []
    for tenth, inside in sorted(tenths.items()):
        n = len(inside)
        bucket = {"from": tenth / 10, "n": n, "truth": sum(x[0] for x in inside) / n, "right": sum(x[1] for x in inside) / n}
        if n < small:
            bucket["interval"] = interval(inside, tenth)
        buckets.append(bucket)
    error = sum(x["n"] * abs(x["truth"] - x["right"]) for x in buckets) / max(size, 1)
    return {"ece": error, "proposals": size, "buckets": buckets}


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
    options.add_argument("--json", help="a file for all figures")
    args = options.parse_args()
    lines = facts(args.data)
    work = [(lines, share, seed, args) for share in args.remove for seed in range(args.seeds)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda parts: plant(*parts), work))
    rows = []
    for share in args.remove:
        of_share = [result for parts, result in zip(work, results) if parts[1] == share]
        for model in args.models:
            rows.append(figures(args, model, share, len(lines), [result[model] for result in of_share]))
            show(rows[-1])
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


def plant(lines, share, seed, args):
    """One run; by model: truth, whether it was removed, and subject of each candidate, given C and not; and the estimate."""
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
                of_model[name] = [(x["truth"], "\t".join(x[n] for n in names) in gone, (seed, x["head"])) for x in out["facts"]]
                of_model["estimate"] = out["completeness"]["share"]
    return found


def figures(args, model, share, size, results):
    """All figures of one model, seeds pooled."""
    row = {"data": args.data, "model": model, "removed": share, "how": args.how, "seeds": args.seeds, "facts": size}
    for name in ("given", "estimated"):
        cases = [case for result in results for case in result[name]]
        brier = sum((truth - right) ** 2 for truth, right, _ in cases) / len(cases)
        row[name] = {**calibration(cases), "brier": brier, "candidates": len(cases)}
    found = sum(right for result in results for truth, right, _ in result["given"] if truth >= 0.1)
    row["recall"] = found / sum(result["gone"] for result in results)
    row["estimates"] = [result["estimate"] for result in results]
    row["completeness"] = [1 - result["gone"] / size for result in results]
    return row


def show(row):
    model = "" if row["model"] == "." else f" ({row['model']})"
    print(f"{row['data']}{model}, {row['removed']:.0%} removed by {row['how']}, {row['seeds']} seeds, {row['facts']} facts")
    for name in ("given", "estimated"):
        part = row[name]
        print(f"  C {name}: ECE {part['ece']:.3f} over {part['proposals']} proposals of 0.1 or more", end="; ")
        print(f"Brier of {part['candidates']} candidates {part['brier']:.5f}")
        print("    bucket       n  truth  right  99.8 % interval of right, if fewer than 500")
        for bucket in part["buckets"]:
            print(f"    {bucket['from']:.1f}    {bucket['n']:>7}  {bucket['truth']:.3f}  {bucket['right']:.3f}", end="")
            if "interval" in bucket:
                low, high = bucket["interval"]
                print(f"  {low:.3f} to {high:.3f}{'' if low <= bucket['truth'] <= high else ': truth is outside'}", end="")
            elif abs(bucket["truth"] - bucket["right"]) > 0.07:
                print("  off by more than 0.07", end="")
            print()
    true = ", ".join(f"{share:.2f}" for share in sorted(set(row["completeness"])))
    estimates = ", ".join(f"{share:.3f}" for share in row["estimates"])
    print(f"  proposed at 0.1 or more: {row['recall']:.3f} of the removed facts; C is {true}, estimated {estimates}", flush=True)


main()
