"""The figures of docs/python.md: `python experiments/python/measure.py PART [FOLDER]`.

    input [N]             N triples (5,000,000) from a polars frame and from the same as TSV: seconds, memory
    questions MODEL DATA [BENCH]   predict, one question at a time: per second; and what Python adds to Engine::predict, which BENCH
                          times: the program of `cargo bench -p ruge --bench ask --no-run`, built as the package is
    threads MODEL [S]     eight threads ask for S seconds (60) with the log at DEBUG: equal answers, no deadlock
    free FB15K            how much a Python thread counts while rules are mined with one thread
    interrupts N          N interrupts at random moments; each run is resumed, and must end with the same bytes
    import                milliseconds to import the package, and for `ruge --version`
"""

import collections
import hashlib
import logging
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PEAK = "import resource; print('peak MB', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)"


def timed(code, folder):
    done = subprocess.run([sys.executable, "-c", code + "\n" + PEAK], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def from_frames(count=5_000_000):
    make = f"""
import polars as pl, time, ruge
n = {count}
at = pl.int_range(n, eager=True)
frame = pl.DataFrame({{"at": at}}).select(
    head=pl.format("http://example.org/entity/{{}}", (pl.col("at") * 2654435761) % (n // 10)),
    relation=pl.format("http://example.org/relation/{{}}", pl.col("at") % 200),
    tail=pl.format("http://example.org/entity/{{}}", (pl.col("at") * 40503 + 7) % (n // 10)),
)
"""
    with tempfile.TemporaryDirectory() as folder:
        timed(make + 'frame.write_parquet("f.parquet"); frame.write_csv("f.tsv", separator="\\t", include_header=False)', folder)
        load = 'import polars as pl, time, ruge\nframe = pl.read_parquet("f.parquet")\n'
        for _ in range(3):
            print("frame  ", *timed(load + 'print("frame MB", round(frame.estimated_size() / 1e6))\nt = time.time(); g = ruge.Graph(frame); print(round(time.time() - t, 2), "s", g.digest[:8])', folder))
            print("TSV    ", *timed('import time, ruge\nt = time.time(); g = ruge.Graph("f.tsv"); print(round(time.time() - t, 2), "s", g.digest[:8])', folder))
        print("frame alone", *timed(load, folder))


def questions(path, data, bench=None):
    import ruge

    model = ruge.load(path)
    facts = ruge.Graph(data).triples("train")
    # Those that `cargo bench -p ruge --bench ask` asks.
    asked = [facts[at] for at in range(0, len(facts), -(-len(facts) // 200))]
    model.predict(asked[0][0], asked[0][1])
    model.explain(*asked[0])

    def median(ask, clock=time.perf_counter):
        times = []
        for head, relation, _ in asked:
            start = clock()
            ask(head, relation)
            times.append(clock() - start)
        return 1e6 * statistics.median(times)

    for _ in range(3):
        whole = median(model.predict)
        native = median(lambda h, r: model._core.predict([(h, r, None)], 10, False, None, False, False, None))
        # The answers are computed by threads of a pool: what the calling thread computes is arguments, JSON and rows. Processor time is
        # not disturbed by other programs.
        own, all_threads = median(model.predict, time.thread_time), median(model.predict, time.process_time)
        said = f"{1e6 / whole:.0f} questions a second: {whole:.0f} us each, {whole - native:.0f} us of it outside the native part; "
        said += f"processor time {all_threads:.0f} us, {own:.0f} us of it in the calling thread"
        if bench:
            text = subprocess.run([bench, path], check=True, capture_output=True, text=True).stdout
            rust = 1000 * float(text.split("predict ")[1].split(" ms")[0])
            said += f"; Engine::predict in Rust {rust:.0f} us, so Python adds {whole - rust:.0f} us"
        print(said, flush=True)


def threads(path, seconds=60.0):
    import ruge

    logging.basicConfig(level=logging.DEBUG, filename=os.devnull)
    model = ruge.load(path)
    heads = model.entities.names[:40]
    relation = model.relations.names[0]
    expected = {head: model.predict(head, relation).to_dicts() for head in heads}
    asked, wrong = collections.Counter(), []
    end = time.monotonic() + seconds

    def ask(number):
        draw = random.Random(number)
        while time.monotonic() < end:
            head = draw.choice(heads)
            answers = model.predict(head, relation).to_dicts()
            if answers != expected[head]:
                wrong.append(head)
            if answers:
                model.explain(head, relation, answers[0]["entity"])
            asked[number] += 1

    workers = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(seconds + 60)
    alive = sum(worker.is_alive() for worker in workers)
    print(f"{sum(asked.values())} questions and explanations by 8 threads in {seconds:g} s; {len(wrong)} wrong, {alive} threads stuck")
    os._exit(bool(wrong or alive))


def free(data):
    import ruge

    graph = ruge.Graph(data)
    done = threading.Event()
    counted = [0]

    def count():
        while not done.is_set():
            counted[0] += 1

    def rate(work):
        done.clear()
        counted[0] = 0
        thread = threading.Thread(target=count)
        start = time.perf_counter()
        thread.start()
        work()
        done.set()
        thread.join()
        return counted[0] / (time.perf_counter() - start)

    alone = rate(lambda: time.sleep(3))
    beside = rate(lambda: ruge.mine(graph, threads=1, preset="amie"))
    print(f"a thread of Python counts {100 * beside / alone:.0f} % of what it counts alone while rules are mined")


SCRIPT = """
import sys, time
try:
    import ruge
    ruge.train("demo", dim=32, epochs=40, guidance="ruge", out="run", checkpoint_every=0, resume="resume" in sys.argv)
except KeyboardInterrupt:
    # The same clock in all processes.
    print("raised at", time.monotonic(), file=sys.stderr)
    raise
"""


def interrupts(count=100):
    sha = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        whole = folder / "whole"
        whole.mkdir()
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", SCRIPT], cwd=whole, check=True)
        took = time.monotonic() - start
        expected = sha(whole / "run" / "model.safetensors")
        waits, ends, came, early, late = [], [], 0, 0, 0
        for at in range(count):
            place = folder / str(at)
            place.mkdir()
            words, tries = [sys.executable, "-c", SCRIPT], 0
            while True:
                child = subprocess.Popen(words, cwd=place, stderr=subprocess.PIPE, text=True)
                if tries == 0:
                    time.sleep(draw.uniform(0.0, took))
                    asked = time.monotonic()
                    child.send_signal(signal.SIGINT)
                said = child.communicate()[1]
                if tries == 0 and child.returncode != 0:
                    ends.append(time.monotonic() - asked)
                    came += "KeyboardInterrupt" in said
                    waits += [float(line.split()[-1]) - asked for line in said.splitlines() if line.startswith("raised at")]
                tries += 1
                if child.returncode == 0:
                    late += tries == 1
                    break
                assert "panic" not in said, said
                # Before there was anything to keep, the same call begins again.
                resumes = (place / "run" / "checkpoint.safetensors").exists()
                early += not resumes
                words = [sys.executable, "-c", SCRIPT, *(["resume"] if resumes else [])]
                assert tries < 4, said
            assert sha(place / "run" / "model.safetensors") == expected, at
        print(
            f"{count} interrupts in a run of {took:.1f} s: all end with the same bytes; {came} KeyboardInterrupt, {early} before "
            f"anything was kept, {late} after the end; the slowest exception came after {max(waits):.2f} s, the slowest end of a "
            f"process after {max(ends):.2f} s (load {os.getloadavg()[0]:.0f})"
        )


def imports():
    def median(words):
        times = []
        for _ in range(15):
            start = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            times.append(1000 * (time.perf_counter() - start))
        return statistics.median(times)

    bare = median([sys.executable, "-c", "pass"])
    print(f"import ruge: {median([sys.executable, '-c', 'import ruge']) - bare:.0f} ms beside {bare:.0f} ms of Python itself")
    print(f"python -m ruge --version: {median([sys.executable, '-m', 'ruge', '--version']):.0f} ms")


if __name__ == "__main__":
    part, *rest = sys.argv[1:]
    {
        "input": lambda: from_frames(*map(int, rest)),
        "questions": lambda: questions(*rest),
        "threads": lambda: threads(rest[0], *map(float, rest[1:])),
        "free": lambda: free(*rest),
        "interrupts": lambda: interrupts(*map(int, rest)),
        "import": imports,
    }[part]()
