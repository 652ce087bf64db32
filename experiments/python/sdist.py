"""The source package builds, is small and installs: `python experiments/python/sdist.py`.

maturin makes the archive, which must be below 6 MB and hold no experiments, tests or fixtures. pip installs it in an empty folder into
a fresh environment, compiling everything; there the package is imported and asked. Needs maturin, a C compiler, Rust and a network; it takes
as long as a release build.
"""

import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
MOST = 6_000_000
CODE = """
import ruge
model = ruge.train("demo", dim=8, epochs=2)
print(ruge.__version__, model.predict("Spain", "borders", top=1)[0].entity)
"""


def main(*words):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.executable, "-m", "maturin", "sdist", "--out", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        (archive,) = folder.glob("ruge-*.tar.gz")
        with tarfile.open(archive) as opened:
            names = [name.split("/", 1)[1] for name in opened.getnames() if "/" in name]
        foreign = [name for name in names if name.split("/")[0] in ("experiments", "fixtures", "tests", "runs", "target", "fuzz")]
        size = archive.stat().st_size
        print(f"{archive.name}: {size / 1e6:.2f} MB, {len(names)} files, {len(foreign)} that do not belong there")
        assert size < MOST and not foreign, foreign[:10]
        if "--no-install" in words:
            return
        empty, start = folder / "empty", time.monotonic()
        empty.mkdir()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", archive], cwd=empty, check=True)
        print(f"installed in {time.monotonic() - start:.0f} s")
        print(subprocess.run([python, "-c", CODE], cwd=empty, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
