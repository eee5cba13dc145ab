"""Run the benchmarks one after another, each in its own process."""

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
    "command",
    "dask_cluster",
    "out_of_core",
    "large_kernel ijcnn1",
    "large_kernel adult-a",
    "large_kernel generated",
)


def main():
    folder = Path(__file__).parent
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        script, *arguments = name.split()
        subprocess.run([sys.executable, folder / f"{script}.py", *arguments], check=True)


if __name__ == "__main__":
    main()
