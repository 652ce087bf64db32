"""Mixed load for a while, some of it malformed, with reloads: nothing but 503 may be a 5xx, and memory stays.

    ruge serve runs/demo --reviews /tmp/mixed.db &
    python tests/serve/mixed.py PID [--minutes 60] [http://127.0.0.1:7997]
"""

import argparse
import http.client
import json
import pathlib
import random
import threading
import time
import urllib.parse
from collections import Counter

parser = argparse.ArgumentParser()
parser.add_argument("pid", type=int)
parser.add_argument("base", nargs="?", default="http://127.0.0.1:7997")
parser.add_argument("--minutes", type=float, default=60)
parser.add_argument("--clients", type=int, default=4)
args = parser.parse_args()
place = urllib.parse.urlparse(args.base)
statuses, times, lock = Counter(), [], threading.Lock()
end = time.monotonic() + args.minutes * 60


def link():
    return http.client.HTTPConnection(place.hostname, place.port, timeout=60)


def memory():
    line = next(line for line in pathlib.Path(f"/proc/{args.pid}/status").read_text().splitlines() if "VmRSS" in line)
    return int(line.split()[1]) // 1024


first = link()
first.request("GET", "/api/v1/facts?limit=1000")
facts = json.loads(first.getresponse().read())["facts"]
MALFORMED = [
    ("POST", "/api/v1/predict", b"{"),
    ("POST", "/api/v1/predict", b'{"head":1}'),
    ("POST", "/api/v1/score", b"[" * 100_000),
    ("GET", "/api/v1/entity?name=%FF%FE", None),
    ("GET", "/api/v1/rule?id=-1", None),
    ("GET", "/../../etc/passwd", None),
    ("POST", "/api/v1/predict/batch", b"\x00\xff\n{\n"),
    ("PUT", "/api/v1/suggestions/decision", b'{"head":"no one"}'),
]


def client(number):
    chance, connection = random.Random(number), link()
    while time.monotonic() < end:
        fact = chance.choice(facts)
        query = urllib.parse.urlencode({key: fact[key] for key in ("head", "relation", "tail")})
        name = urllib.parse.urlencode({"name": fact["head"]})
        kind = chance.random()
        method, body = "GET", None
        if kind < 0.05:
            method, path, body = chance.choice(MALFORMED)
        elif kind < 0.3:
            path = "/api/v1/predict?" + urllib.parse.urlencode({key: fact[key] for key in ("head", "relation")})
        elif kind < 0.45:
            path = "/api/v1/search?q=" + urllib.parse.quote(fact["head"][: chance.randint(1, 8)])
        elif kind < 0.6:
            path = "/entity?" + name
        elif kind < 0.75:
            path = "/fact?" + query
        elif kind < 0.85:
            path = chance.choice(["/", "/review", "/rules", "/relations", "/model", "/healthz", "/metrics"])
        elif kind < 0.95:
            method, path = "POST", "/api/v1/score"
            body = json.dumps({"triples": [{key: it[key] for key in ("head", "relation", "tail")} for it in chance.choices(facts, k=50)]}).encode()
        else:
            method, path = "PUT", "/api/v1/suggestions/decision"
            body = json.dumps({key: fact[key] for key in ("head", "relation", "tail")} | {"decision": "accept"}).encode()
        headers = {"Content-Type": "application/x-ndjson" if "batch" in path else "application/json"} if body else {}
        asked = time.monotonic()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (http.client.HTTPException, OSError) as error:
            status, connection = type(error).__name__, link()
        with lock:
            statuses[status] += 1
            times.append(time.monotonic() - asked)


threads = [threading.Thread(target=client, args=(number,)) for number in range(args.clients)]
[thread.start() for thread in threads]
time.sleep(min(60, args.minutes * 15))
before = memory()
while time.monotonic() < end:
    time.sleep(min(30, max(0, end - time.monotonic())))
    reload = link()
    reload.request("POST", "/api/v1/reload", b"{}", {"Content-Type": "application/json"})
    statuses[f"reload {reload.getresponse().status}"] += 1
[thread.join() for thread in threads]
times.sort()
print(dict(statuses))
print(f"{len(times)} requests, p50 {times[len(times) // 2] * 1000:.1f} ms, p99 {times[len(times) * 99 // 100] * 1000:.1f} ms, "
      f"memory {before} MB then {memory()} MB")
