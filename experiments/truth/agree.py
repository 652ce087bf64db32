#!/usr/bin/env python3
"""Do all commands give one fact one truth, and do the parts of an explanation sum up to the score that ranks?

    experiments/truth/agree.py --ruge target/release/ruge --facts 50 --sums 250 runs/demo runs/umls runs/kinships runs/codex-s

For every folder of `ruge run`: proposed facts of `ruge complete` (every k-th, so that sure and unsure ones are among them) are asked about
by `explain` and by `predict`; the facts that the run itself proposed (proposals.json) and showed (predictions.json) are compared, too. All
truths must be equal to the last digit. Then listed facts and proposed ones are explained for the deployed model, the guided one and the one
without rules, asked for the tail and for the head: the parts must sum up to the score, and the score must be the one that `predict` prints
for that question, both within 1e-4. Needs Python 3 and nothing else. Exits with 1 if anything differs.
"""
import argparse, concurrent.futures, json, pathlib, subprocess, sys, tempfile

NAMES = ("head", "relation", "tail")


def of(fact):
    return tuple(fact[name] for name in NAMES)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ruge", default="ruge")
    options.add_argument("--facts", type=int, default=50, help="facts of each run whose truth is compared")
    options.add_argument("--sums", type=int, default=250, help="facts of each run that are explained, for each kind of model and each end")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("runs", nargs="+", type=pathlib.Path)
    args = options.parse_args()

    def ruge(*words):
        done = subprocess.run([args.ruge, *map(str, words), "--quiet", "--threads", "1"], capture_output=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr.decode()}")
        return done.stdout.decode()

    def ask(*words):
        return json.loads(ruge(*words, "--json"))

    def answers(model, facts, side, *more):
        """What `predict` says about facts, asked for one end: score, truth and whether it is listed."""
        found = {}
        open_end = "tail" if side == "tail" else "head"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            lines = [{name: value for name, value in zip(NAMES, fact) if name != open_end} for fact in facts]
            (folder / "questions").write_text("".join(json.dumps(line) + "\n" for line in lines))
            (folder / "candidates").write_text("".join(f"{name}\n" for name in sorted({fact[at] for fact in facts for at in (0, 2)})))
            flags = ["--queries", folder / "questions", "--candidates", folder / "candidates", "--top", 1_000_000, "--to", "jsonl"]
            for line in ruge("predict", model, *flags, *more).splitlines():
                result = json.loads(line)
                for answer in result["answers"]:
                    found[of({**result, open_end: answer["entity"]})] = answer
        return found

    def gaps(model, fact, side, predicted):
        """How far the sum of the parts and the answer of `predict` are from the score."""
        why = ask("explain", model, *fact, "--side", side, "--all")
        return abs(sum(part["value"] for part in why["parts"]) - why["score"]), abs(predicted - why["score"]), why["side"] != side

    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for run in args.runs:
            proposed = ask("complete", run, "--min-truth", 0.01)["facts"]
            truth = {of(fact): fact["truth"] for fact in proposed}
            some = list(truth)[:: max(1, len(truth) // args.facts)][: args.facts]
            told = answers(run, some, "tail", "--new")
            explained = list(pool.map(lambda fact: ask("explain", run, *fact)["truth"], some))
            differ = sum(len({truth[fact], why, told[fact]["truth"]}) > 1 for fact, why in zip(some, explained))
            print(f"{run}: {len(some)} facts by complete, explain and predict, {differ} with more than one truth", flush=True)
            kept = json.loads((run / "proposals.json").read_text())["facts"]
            shown = [x for x in json.loads((run / "predictions.json").read_text()) if x["standing"] == "new"]
            own = [(of(x), x["truth"]) for x in kept] + [(of(x["explanation"]), x["truth"]) for x in shown]
            others = sum(truth.get(fact) != value for fact, value in own)
            print(f"  {len(own)} facts that the run proposed or showed, {others} with another truth by complete", flush=True)
            wrong += differ + others

            # Listed facts: known answers to the same questions.
            around = answers(run, list(truth)[:: max(1, len(truth) // args.sums)][: args.sums], "tail")
            listed = [fact for fact, answer in around.items() if answer["known"]][: args.sums // 2]
            new = list(truth)[:: max(1, len(truth) // (args.sums - len(listed)))][: args.sums - len(listed)]
            for model in (run, run / "guided", run / "unguided"):
                for side in ("tail", "head"):
                    predicted = {**answers(model, listed, side), **answers(model, new, side, "--new")}
                    # To a model that has not seen all parts, a listed fact may not be new, and is asked about as it is.
                    asked = [fact for fact in listed + new if fact in predicted]
                    found = list(pool.map(lambda fact: gaps(model, fact, side, predicted[fact]["score"]), asked))
                    sums, scores = max(x[0] for x in found), max(x[1] for x in found)
                    print(
                        f"  {model}, {side}: {len(found)} facts, {len(listed)} of them listed; largest difference of sum and score {sums:.1e}, "
                        f"of score and answer {scores:.1e}",
                        flush=True,
                    )
                    wrong += sum(x[0] > 1e-4 or x[1] > 1e-4 or x[2] for x in found)
    sys.exit(1 if wrong else 0)


main()
