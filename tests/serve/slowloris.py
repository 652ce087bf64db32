"""Clients that never finish: half headers, half bodies, a batch whose lines do not come, and answers that nobody takes. Others must be
answered meanwhile, the slow ones must be gone after a while, and the server must end when it is told to, however many hold on.

    python tests/serve/slowloris.py RUGE runs/demo [--each 500]

Starts a server of its own. A good request must be answered within 2 seconds at any time; all slow ones must be closed within 35 seconds
(those that take no answer within 75: they are told apart from slow networks by half a minute without a byte); SIGTERM must end the server
within 12 seconds while 500 more of them hold on.
"""

import argparse
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HOST, PORT = "127.0.0.1", 7992
HEAD = f"HTTP/1.1\r\nHost: {HOST}\r\n"
JSON = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"


def half_header():
    return link(f"GET /healthz {HEAD}X-Slow: ")


def half_body():
    return link(f"POST /api/v1/score {HEAD}{JSON}")


def half_batch():
    return link(
        f"POST /api/v1/predict/batch {HEAD}Content-Type: application/x-ndjson\r\nContent-Length: 100000\r\n\r\n"
        "Brussels\tlocated_in\t?\n"
    )


def no_reader():
    """Asks for much, again and again, and takes nothing."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.connect((HOST, PORT))
    small.setblocking(False)
    for _ in range(2000):
        try:
            small.send(f"GET /api/v1/facts?limit=1000 {HEAD}\r\n".encode())
        except (BlockingIOError, ConnectionError):
            break
    return small


def link(text):
    new = socket.create_connection((HOST, PORT))
    new.sendall(text.encode())
    new.setblocking(False)
    return new


def is_open(slow, reads):
    try:
        # Whoever takes nothing learns of the end by sending.
        return bool(slow.recv(1 << 16)) if reads else slow.send(b" ") > 0
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def good(worst):
    asked = time.monotonic()
    with urllib.request.urlopen(f"http://{HOST}:{PORT}/healthz", timeout=10) as answer:
        assert answer.status == 200
    return max(worst, time.monotonic() - asked)


def hold(kinds, limit, reads=True):
    """Opens them, asks politely in between, and waits until all are gone."""
    slow, worst, began = [], 0.0, time.monotonic()
    for at, kind in enumerate(kinds):
        try:
            slow.append(kind())
        except ConnectionError:
            pass
        if at % 50 == 49:
            worst = good(worst)
    while slow and time.monotonic() - began < limit:
        worst = good(worst)
        slow = [one for one in slow if is_open(one, reads)]
        time.sleep(0.25)
    return time.monotonic() - began, len(slow), worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ruge")
    parser.add_argument("model")
    parser.add_argument("--each", type=int, default=500)
    args = parser.parse_intermixed_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    command = [args.ruge, "serve", args.model, "--listen", f"{HOST}:{PORT}", "--read-only", "--no-suggestions"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if not server.stdout.readline():
        sys.exit(f"the server does not start: {server.wait()}")
    wrong = False
    try:
        for name, kinds, limit, reads in (
            ("half headers and half bodies", [half_header, half_body] * args.each, 35, True),
            ("batches that stop", [half_batch] * 100, 35, True),
            ("answers not taken", [no_reader] * 50, 75, False),
        ):
            took, left, worst = hold(kinds, limit, reads)
            wrong |= bool(left) or worst > 2
            print(f"{name}: {len(kinds)}, {left} left after {took:.0f} s; the slowest good answer took {worst * 1000:.0f} ms")
        held = [kind() for kind in [half_header, half_body, half_batch, no_reader] * (args.each // 4)]
        asked = time.monotonic()
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=30)
        took = time.monotonic() - asked
        wrong |= took > 12 or code != 0
        print(f"SIGTERM with {len(held)} of them: ended with {code} after {took:.1f} s")
    finally:
        server.kill()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
