"""Out of core: the size of data on disk against the peak memory of the process that fits them.

    python benchmarks/out_of_core.py [--rows N] [--features D] [--folder PATH]

Memory is anonymous memory: the largest RssAnon in /proc/self/status, read every 10 ms.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from report import write
from timing import machine

from optimargin import LinearODMClassifier

FIT = """
import sys, threading, time
import numpy as np
from optimargin import LinearODMClassifier
from optimargin.chunks import NpyChunks

peak = 0
def watch():
    global peak
    while True:
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.01)

threading.Thread(target=watch, daemon=True).start()
begin = time.perf_counter()
model = LinearODMClassifier(tol=1e-10).fit_chunks(NpyChunks(*sys.argv[1:]))
print(repr(model.objective_), peak, time.perf_counter() - begin, model.dual_gap_)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--folder", default=None)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        files = [Path(folder, name) for name in ("X.npy", "y.npy")]
        shape = args.rows, args.features
        X = np.lib.format.open_memmap(files[0], mode="w+", dtype=np.float64, shape=shape)
        y = np.empty(args.rows)
        for first in range(0, args.rows, 50_000):
            part = slice(first, first + 50_000)
            X[part] = rng.normal(size=X[part].shape)
            y[part] = np.sign(X[part, :9].sum(axis=1) + 2 * rng.normal(size=len(y[part])))
        np.save(files[1], y)
        run = subprocess.run(
            [sys.executable, "-c", FIT, *files], capture_output=True, text=True, check=True
        )
        objective, peak, seconds, gap = map(float, run.stdout.split())
        whole = LinearODMClassifier().fit(np.asarray(X), y).objective_
    row = {
        "rows": args.rows,
        "features": args.features,
        "data [MB]": X.nbytes / 1e6,
        "peak anonymous memory [MB]": peak / 1e6,
        "data / memory": X.nbytes / peak,
        "fit [s]": seconds,
        "gap": gap,
        "relative difference of the objective": abs(objective / whole - 1),
    }
    command = "python benchmarks/out_of_core.py"
    write("out_of_core", "Linear ODM out of core", [row], machine(), [], command=command)


if __name__ == "__main__":
    main()
