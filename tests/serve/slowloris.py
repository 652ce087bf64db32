"""Clients that never finish: 250 that send half of their headers, 250 that send half of a body. Others must be answered meanwhile.

    ruge serve runs/demo &
    python tests/serve/slowloris.py [127.0.0.1:7997]

The slow ones must all be closed within 45 seconds; a good request must be answered within 2 seconds at any time.
"""

import socket
import sys
import time
import urllib.request

host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7997").split(":")
slow = []
for at in range(500):
    link = socket.create_connection((host, int(port)))
    if at % 2:
        link.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nX-Slow: ".encode())
    else:
        link.sendall(f"POST /api/v1/score HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    link.setblocking(False)
    slow.append(link)
began, worst = time.monotonic(), 0.0
while slow and time.monotonic() - began < 45:
    asked = time.monotonic()
    with urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=10) as answer:
        assert answer.status == 200
    worst = max(worst, time.monotonic() - asked)
    left = []
    for link in slow:
        try:
            if link.recv(1 << 16):
                left.append(link)
        except BlockingIOError:
            left.append(link)
        except ConnectionError:
            pass
    slow = left
    time.sleep(0.5)
print(f"all closed after {time.monotonic() - began:.0f} s, {len(slow)} left; the slowest good answer took {worst * 1000:.0f} ms")
sys.exit(1 if slow or worst > 2 else 0)
