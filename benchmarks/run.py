"""Run the benchmarks one after the other, each alone in a process of its own."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "dense",
    "linear",
    "suboptimality",
    "crossovers",
    "kernel",
    "algorithm_1",
    "sgd",
    "svrg",
    "scaling",
    "ldm",
)


def main():
    folder = Path(__file__).parent
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, folder / f"{name}.py"], check=True)


if __name__ == "__main__":
    main()
