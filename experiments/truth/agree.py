#!/usr/bin/env python3
"""Do all commands give one fact one truth, and do the parts of an explanation sum up to the score?

    experiments/truth/agree.py --ruge target/release/ruge --facts 50 --sums 250 runs/demo runs/umls runs/kinships runs/codex-s

For every run: proposed facts of `ruge complete` (every k-th, so that sure and unsure ones are among them) are asked about by `explain` and
by `predict`; the new facts that `ruge run --json` showed are explained, too. All truths must be equal to the last digit. Then facts of
train and proposed ones are explained for the deployed model, the guided one and the one without rules: the parts must sum up to the score within 1e-4.
Needs Python 3 and nothing else. Exits with 1 if anything differs.
"""
import argparse, concurrent.futures, json, pathlib, subprocess, sys


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ruge", default="ruge")
    options.add_argument("--facts", type=int, default=50, help="facts of each run whose truth is compared")
    options.add_argument("--sums", type=int, default=250, help="facts of each run whose parts are summed, for each kind of model")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("runs", nargs="+", type=pathlib.Path)
    args = options.parse_args()

    def ask(*words):
        done = subprocess.run([args.ruge, *map(str, words), "--json", "--quiet", "--threads", "1"], capture_output=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def truths(run, fact):
        names = [fact[key] for key in ("head", "relation", "tail")]
        explained = ask("explain", run, *names)["truth"]
        answers = ask("predict", run, "--head", names[0], "--relation", names[1], "--top", 1_000_000)["answers"]
        return fact["truth"], explained, next(x["truth"] for x in answers if x["entity"] == names[2])

    def gap(model, names):
        found = ask("explain", model, *names, "--all")
        return abs(sum(part["value"] for part in found["parts"]) - found["score"])

    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for run in args.runs:
            proposed = ask("complete", run, "--min-truth", 0.01)["facts"]
            some = proposed[:: max(1, len(proposed) // args.facts)][: args.facts]
            found = list(pool.map(lambda fact: truths(run, fact), some))
            differ = sum(len(set(each)) > 1 for each in found)
            print(f"{run}: {len(found)} facts, {differ} with more than one truth", flush=True)
            wrong += differ
            names = [[fact[key] for key in ("head", "relation", "tail")] for fact in proposed]
            names = names[:: max(1, len(names) // args.sums)][: args.sums]
            for model in (run, run / "guided", run / "unguided"):
                gaps = list(pool.map(lambda each: gap(model, each), names))
                print(f"  {model}: {len(gaps)} sums, largest difference {max(gaps):.1e}", flush=True)
                wrong += sum(each > 1e-4 for each in gaps)
    sys.exit(1 if wrong else 0)


main()
