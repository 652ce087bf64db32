"""Answers of the server are those of the command line.

    ruge serve runs/demo --read-only --no-suggestions --reviews /nowhere &
    python tests/serve/equal.py RUGE runs/demo [--questions 1000] [http://127.0.0.1:7997]

Asks the same questions twice, by HTTP and by `ruge predict --json`, `ruge explain --json` and `ruge predict --queries --to jsonl`, and
compares the JSON values. Only the seconds that an answer took may differ.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request


def fetch(address, body=None, kind="application/json"):
    request = urllib.request.Request(address, data=body, headers={"Content-Type": kind} if body else {})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ruge")
    parser.add_argument("model")
    parser.add_argument("base", nargs="?", default="http://127.0.0.1:7997")
    parser.add_argument("--questions", type=int, default=1000)
    args = parser.parse_intermixed_args()
    api = args.base.rstrip("/") + "/api/v1/"

    def run(*words):
        return json.loads(subprocess.run([args.ruge, *words, "--json"], check=True, capture_output=True).stdout)

    facts, cursor = [], ""
    while True:
        page = json.loads(fetch(f"{api}facts?limit=1000{cursor}"))
        facts += page["facts"]
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    chance = random.Random(0)
    wrong = 0
    for at in range(args.questions):
        fact = chance.choice(facts)
        keys = [["head", "relation"], ["relation", "tail"], ["head", "tail"]][at % 3]
        new = at % 2 == 0
        asked = {key: fact[key] for key in keys}
        if at % 10 < 8:
            body = {**asked, "new": new, "top": 7}
            found = json.loads(fetch(api + "predict", json.dumps(body).encode()))["answers"]
            flags = [word for key in keys for word in (f"--{key}", fact[key])] + ["--top", "7"] + ["--new"] * new
            expected = run("predict", args.model, *flags)["answers"]
        else:
            other = chance.choice(facts)["tail"] if new else fact["tail"]
            query = urllib.parse.urlencode({"head": fact["head"], "relation": fact["relation"], "tail": other})
            found = json.loads(fetch(f"{api}explain?{query}"))
            expected = run("explain", args.model, fact["head"], fact["relation"], other)
            found.pop("seconds"), expected.pop("seconds")
        if found != expected:
            wrong += 1
            print("differs:", fact, keys, json.dumps(found)[:300], json.dumps(expected)[:300])
    lines = "".join(f"{fact['head']}\t{fact['relation']}\t?\n" for fact in chance.choices(facts, k=args.questions))
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(lines)
        file.flush()
        command = [args.ruge, "predict", args.model, "--queries", file.name, "--to", "jsonl", "--top", "5"]
        expected = subprocess.run(command, check=True, capture_output=True).stdout
    found = fetch(api + "predict/batch?top=5", lines.encode(), "application/x-ndjson")
    pairs = list(zip(found.splitlines(), expected.splitlines(), strict=True))
    wrong += sum(json.loads(a) != json.loads(b) for a, b in pairs)
    print(f"{args.questions} questions one by one, {len(pairs)} in a batch: {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
