"""Kills a server at random moments while it takes decisions and facts: whatever it confirmed is there afterwards.

    python tests/serve/kill.py RUGE runs/demo [--rounds 100]

Uses a port and a file of reviews of its own.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

BASE = "http://127.0.0.1:7993"


def send(method, path, body):
    request = urllib.request.Request(
        BASE + path, data=json.dumps(body).encode(), method=method, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def read(path):
    with urllib.request.urlopen(BASE + path, timeout=20) as answer:
        return json.loads(answer.read())


def start(args, reviews):
    command = [args.ruge, "serve", args.model, "--listen", BASE[7:], "--reviews", reviews, "--no-suggestions"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if not server.stdout.readline():
        sys.exit(f"the server does not start: {server.wait()}")
    return server


def check(confirmed, added, uncertain):
    """What was confirmed must be there; what was under way may be either."""
    kept = {}
    for state in ("accepted", "rejected"):
        for item in read(f"/api/v1/suggestions?state={state}&limit=1000")["suggestions"]:
            kept[item["head"], item["relation"], item["tail"]] = item["decision"]
    lost = [fact for fact, decision in confirmed.items() if fact not in uncertain and kept.get(fact) != decision]
    names = {item["entity"] for item in read("/api/v1/neighbours?name=Belgium&limit=1000")["nodes"]}
    return lost + [name for name in added if name not in names]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ruge")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_intermixed_args()
    chance = random.Random(time.time_ns())
    folder = tempfile.mkdtemp()
    reviews = os.path.join(folder, "reviews.db")
    confirmed, added, decisions, lost = {}, [], 0, []
    server = start(args, reviews)
    entities = sorted({fact["head"] for fact in read("/api/v1/facts?limit=1000")["facts"]})
    for turn in range(args.rounds):
        uncertain = set()
        killer = threading.Timer(chance.uniform(0.02, 1.5), lambda: server.send_signal(signal.SIGKILL))
        killer.start()
        try:
            while True:
                fact = (chance.choice(entities), "located_in", chance.choice(entities))
                decision = chance.choice(["accept", "reject"])
                uncertain.add(fact)
                send("PUT", "/api/v1/suggestions/decision", dict(zip(("head", "relation", "tail"), fact)) | {"decision": decision})
                uncertain.discard(fact)
                confirmed[fact] = decision
                decisions += 1
                if chance.random() < 0.1:
                    name = f"New place {turn} {decisions}"
                    send("POST", "/api/v1/facts", {"facts": [{"head": name, "relation": "located_in", "tail": "Belgium"}]})
                    added.append(name)
        except (urllib.error.URLError, ConnectionError, OSError):
            pass
        server.wait()
        server = start(args, reviews)
        lost += check(confirmed, added, uncertain)
        for fact in uncertain:
            confirmed.pop(fact, None)
    server.terminate()
    code = server.wait(timeout=20)
    print(f"{args.rounds} kills, {decisions} confirmed decisions, {len(added)} added facts, {len(lost)} lost; ended with {code}")
    sys.exit(1 if lost or code else 0)


if __name__ == "__main__":
    main()
