"""The command from start to end: `optimargin train` and LIBLINEAR's and LIBSVM's packages.

    python benchmarks/command.py [--repeats N] [--without-libsvm]

Each run is a fresh process that imports what it needs, reads a plain svmlight file, trains with
default parameters and an intercept, and saves the model. Times are medians of runs taken in turn;
LIBSVM, the slowest, runs once.
"""

import argparse
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

from data import FOLDER
from report import write
from timing import interleaved_medians, machine

LIBLINEAR = """
import sys
from liblinear.liblinearutil import save_model, svm_read_problem, train
y, x = svm_read_problem(sys.argv[1])
save_model(sys.argv[2], train(y, x, "-s 1 -B 1 -q"))
"""
LIBSVM = """
import sys
from libsvm.svmutil import svm_read_problem, svm_save_model, svm_train
y, x = svm_read_problem(sys.argv[1])
svm_save_model(sys.argv[2], svm_train(y, x, "-t 2 -q"))
"""
SETS = ("ijcnn1", "adult-a")


def run(*arguments):
    """Return a function that runs the arguments with this Python."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True)


def commands(data, model):
    """Return the linear competitors."""
    return {
        "optimargin": run("-m", "optimargin", "train", data, model, "--linear", "-q"),
        "LIBLINEAR": run("-c", LIBLINEAR, data, model + ".liblinear"),
    }


def row(name, kind, medians, peer):
    """Return one line of the table."""
    return {
        "file": name,
        "model": kind,
        "optimargin train [s]": medians["optimargin"],
        "peer": peer,
        "peer [s]": medians.get(peer),
        "ratio": medians["optimargin"] / medians[peer] if peer in medians else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-libsvm", action="store_true")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        for name in SETS:
            data = Path(folder, f"{name}.svm")
            data.write_bytes(lzma.decompress((FOLDER / f"{name}.svm.xz").read_bytes()))
            competitors = commands(str(data), model)
            for compete in competitors.values():
                compete()  # now files and libraries are in memory for both
            medians = interleaved_medians(competitors, args.repeats)
            rows.append(row(name, "linear", medians, "LIBLINEAR"))
            print(rows[-1], flush=True)
        kernel = {"optimargin": run("-m", "optimargin", "train", str(data), model, "-q")}
        medians = interleaved_medians(kernel, args.repeats)
        if not args.without_libsvm:
            peer = {"LIBSVM": run("-c", LIBSVM, str(data), model + ".libsvm")}
            medians |= interleaved_medians(peer, repeats=1)
        rows.append(row(SETS[-1], "RBF kernel", medians, "LIBSVM"))
    write(
        "command",
        "The command from start to end: import, read, train, save",
        rows,
        machine(),
        ["The ratio is optimargin's time over the peer's: below one is faster."],
        command="python benchmarks/command.py",
    )


if __name__ == "__main__":
    main()
