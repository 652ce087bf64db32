"""Mixed load for a while, some of it malformed, with reloads and slow clients: nothing but 503 may be a 5xx, memory stays, nobody waits long.

    python tests/serve/mixed.py RUGE runs/demo [--minutes 60] [--clients 4] [--slow 200]

Starts a server of its own. Fails on a 5xx that is not 503, on a connection that breaks off, on a malformed request that is taken, on memory
that grows by more than 5 percent from the second quarter of the time to the last, and on a 99th percentile above --p99 milliseconds.
"""

import argparse
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections import Counter

HOST, PORT = "127.0.0.1", 7991
MALFORMED = [
    ("POST", "/api/v1/predict", b"{", 400),
    ("POST", "/api/v1/predict", b'{"head":1}', 400),
    ("POST", "/api/v1/score", b"[" * 100_000, 400),
    ("GET", "/api/v1/entity?name=%FF%FE", None, 422),
    ("GET", "/api/v1/rule?id=-1", None, 400),
    ("GET", "/rules?cursor=18446744073709551615", None, 422),
    ("GET", "/../../etc/passwd", None, 404),
    ("POST", "/api/v1/predict/batch", b"\x00\xff\n{\n", 200),
    ("PUT", "/api/v1/suggestions/decision", b'{"head":"no one"}', 400),
]


class Load:
    def __init__(self, args, server):
        self.args, self.server = args, server
        self.statuses, self.times, self.lock = Counter(), [], threading.Lock()
        self.wrong = Counter()
        self.end = time.monotonic() + args.minutes * 60
        first = self.link()
        first.request("GET", "/api/v1/facts?limit=1000")
        self.facts = json.loads(first.getresponse().read())["facts"]

    def link(self):
        return http.client.HTTPConnection(HOST, PORT, timeout=60)

    def memory(self):
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text().splitlines()
        return int(next(line for line in status if "VmRSS" in line).split()[1]) / 1024

    def request(self, chance):
        """A method, a path, a body, and the status that a malformed one must have."""
        fact = chance.choice(self.facts)
        triple = {key: fact[key] for key in ("head", "relation", "tail")}
        query, name = urllib.parse.urlencode(triple), urllib.parse.urlencode({"name": fact["head"]})
        kind = chance.random()
        if kind < 0.05:
            return chance.choice(MALFORMED)
        if kind < 0.3:
            return "GET", f"/api/v1/predict?{urllib.parse.urlencode({key: fact[key] for key in ('head', 'relation')})}", None, None
        if kind < 0.45:
            return "GET", "/api/v1/search?q=" + urllib.parse.quote(fact["head"][: chance.randint(1, 8)]), None, None
        if kind < 0.6:
            return "GET", f"/entity?{name}", None, None
        if kind < 0.75:
            return "GET", f"/fact?{query}", None, None
        if kind < 0.85:
            return "GET", chance.choice(["/", "/review", "/rules", "/relations", "/model", "/healthz", "/metrics"]), None, None
        if kind < 0.9:
            some = [{key: it[key] for key in triple} for it in chance.choices(self.facts, k=50)]
            return "POST", "/api/v1/score", json.dumps({"triples": some}).encode(), None
        if kind < 0.95:
            lines = "".join(f"{it['head']}\t{it['relation']}\t?\n" for it in chance.choices(self.facts, k=200))
            return "POST", "/api/v1/predict/batch?top=3", lines.encode(), None
        if kind < 0.96:
            fact = {"head": f"New {chance.randint(0, 20)}", "relation": "located_in", "tail": "Belgium"}
            return "POST", "/api/v1/facts", json.dumps({"facts": [fact]}).encode(), None
        return "PUT", "/api/v1/suggestions/decision", json.dumps(triple | {"decision": "accept"}).encode(), None

    def client(self, number):
        chance, connection = random.Random(number), self.link()
        while time.monotonic() < self.end:
            method, path, body, expected = self.request(chance)
            headers = {"Content-Type": "application/x-ndjson" if "batch" in path else "application/json"} if body else {}
            asked = time.monotonic()
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                status = answer.status
                if "batch" in path and expected is None:
                    lines = [json.loads(line) for line in text.splitlines()]
                    if len(lines) != 200 or any("answers" not in line for line in lines):
                        self.wrong["a batch lost lines"] += 1
            except (http.client.HTTPException, OSError) as error:
                status, connection = type(error).__name__, self.link()
            place = path.split("?")[0]
            with self.lock:
                self.statuses[status] += 1
                # Adding facts makes a snapshot and has a limit of its own, and a batch is many questions.
                if path != "/api/v1/facts" and "batch" not in path:
                    self.times.append((time.monotonic() - asked, place))
                good = status == expected if expected else status in (200, 503)
                if not good and status != 503:
                    self.wrong[f"{method} {place}: {status}"] += 1

    def slow(self, number):
        """Sends a header or a body letter by letter, and begins again when it is cut off."""
        chance = random.Random(-number)
        head = f"HTTP/1.1\r\nHost: {HOST}\r\n"
        texts = [f"GET /healthz {head}X: ", f"POST /api/v1/score {head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"]
        while time.monotonic() < self.end:
            try:
                link = socket.create_connection((HOST, PORT), timeout=5)
                link.sendall(chance.choice(texts).encode())
                while time.monotonic() < self.end:
                    time.sleep(chance.uniform(1, 5))
                    link.sendall(b"x")
            except OSError:
                time.sleep(0.5)

    def run(self):
        threads = [threading.Thread(target=self.client, args=(number,)) for number in range(self.args.clients)]
        threads += [threading.Thread(target=self.slow, args=(number,), daemon=True) for number in range(self.args.slow)]
        [thread.start() for thread in threads]
        memory = []
        while time.monotonic() < self.end:
            time.sleep(min(30, max(0, self.end - time.monotonic())))
            memory.append(self.memory())
            reload = self.link()
            reload.request("POST", "/api/v1/reload", b"{}", {"Content-Type": "application/json"})
            status = reload.getresponse().status
            self.statuses[f"reload {status}"] += 1
            if status not in (200, 503):
                self.wrong[f"reload: {status}"] += 1
        [thread.join() for thread in threads[: self.args.clients]]
        # Caches fill, and looking for new facts takes memory while it lasts: the last quarter against the second.
        quarter = max(1, len(memory) // 4)
        before, after = max(memory[quarter : 2 * quarter]), max(memory[-quarter:])
        times = sorted(took for took, _ in self.times)
        p50, p99 = (times[len(times) * share // 100] * 1000 for share in (50, 99))
        print(dict(self.statuses))
        slowest = Counter(place for took, place in self.times if took * 1000 >= p99)
        print(f"{len(times)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms (mostly {slowest.most_common(3)}), MB every 30 s: {[round(it) for it in memory]}")
        if after > before * 1.05:
            self.wrong["memory grew"] += 1
        if p99 > self.args.p99:
            self.wrong["slow"] += 1
        print("wrong:", dict(self.wrong))
        return not self.wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ruge")
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--p99", type=float, default=100)
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [args.ruge, "serve", args.model, "--listen", f"{HOST}:{PORT}", "--reviews", f"{folder}/reviews.db"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if not server.stdout.readline():
                sys.exit(f"the server does not start: {server.wait()}")
            good = Load(args, server).run()
        finally:
            server.terminate()
        print(f"the server ended with {server.wait(timeout=30)}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
