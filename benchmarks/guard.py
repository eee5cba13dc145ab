"""A guard of the runtime: an old and a new commit do the same work in turn.

    python benchmarks/guard.py OLD [NEW] [--quick] [--threads N] [--group NAME] [--seed N]
        [--json PATH]

NEW is HEAD by default; changes that are not committed are not measured. Both commits are built with
the tools of this Python, kept in build/guard (delete it after a change of tools), and run with the
same dependencies, on generated data. Most groups have parameters that do not depend on defaults.
The groups "defaults" and "drawn" have no parameters at all: what users write. The cases of "drawn"
follow from --seed.

A ratio is old time over new time: above 1 is faster now. Runs are taken as old, new, new, old, ...,
in rounds of fresh processes, since the same code can differ by some percent from process to
process. The ratio is the median over all pairs of runs, beside its quartiles. A cell beyond its
limit, as a loss or as a gain, is measured twice more, and the median counts. Where other programs
run, threads wait for each other and ratios mean little: use --threads 1. Exit code 1: below a
limit, or NEW fails.
"""

import argparse
import gc
import io
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import timeit
import warnings
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from subprocess import PIPE

import numpy as np
from large_data import text_like
from sklearn.datasets import dump_svmlight_file

ROOT = Path(__file__).resolve().parents[1]
# An editable install puts a finder before all folders of PYTHONPATH, by a .pth file: the working
# tree would be measured. With -S no .pth file is read; `worker` passes on the folders of packages.
PYTHON = (sys.executable, "-S")

# The cells: each prepares what it needs and returns the function to time. They run in the workers:
# the guard itself never imports optimargin. They use nothing of it that is not public.
text = cache(text_like)


@cache
def dense(n_rows, n_features, n_classes=2, dtype="float64", waves=False):
    """Return uniform features; the class is the largest of some linear functions, or of waves."""
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, n_features))
    scores = (X - 0.5) @ rng.standard_normal((n_features, n_classes))
    scores = np.sin(4 * scores) if waves else scores
    y = (scores + 0.4 * rng.standard_normal(scores.shape)).argmax(axis=1)
    return X.astype(dtype), y


def make(estimator, **parameters):
    import optimargin

    shared = {"fit_intercept": True, "tol": 1e-6, "max_iter": 1000, "random_state": 0}
    return getattr(optimargin, estimator)(**{"solver": "auto"} | shared | parameters)


def linear(data, C1, chunk_rows=None, **parameters):
    X, y = data()
    model = make("LinearODMClassifier", C1=C1, C2=C1 / 4, D=0.2, **parameters)
    if chunk_rows is None:
        return partial(model.fit, X, y)
    from optimargin.chunks import ArrayChunks

    return partial(model.fit_chunks, ArrayChunks(X, y, chunk_rows=chunk_rows))


def kernel(n_rows, n_classes=2, then=None, **parameters):
    X, y = dense(n_rows, 10, n_classes, waves=True)
    parameters |= {"kernel": "rbf", "gamma": 0.6, "cache_size": 2000}
    model = make("ODMClassifier", C1=n_rows, C2=n_rows / 4, D=0.2, **parameters)
    if then == "predict":
        return partial(model.fit(X, y).predict, X[::-1].copy())
    if then == "leave one out":
        return partial(model.fit(X, y).loo_decision_function, X, y)
    return partial(model.fit, X, y)


def select(estimator, n_rows, n_classes=2, **parameters):
    model = make(estimator, max_evals=40, max_samples=1000, n_jobs=1, **parameters)
    return partial(model.fit, *dense(n_rows, 10, n_classes))


def default(task, n_rows, n_features, n_classes=2, *, then=None):
    """Fit an estimator without any parameters, or ask it for something afterwards."""
    import optimargin

    X, y = dense(n_rows, n_features, n_classes, waves=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if "Regressor" in task:
        y = np.sin(2 * X[:, 0]) + X[:, -1] + 0.1 * y
    model = getattr(optimargin, task)()
    fit = partial(model.fit, X) if task == "OneClassODM" else partial(model.fit, X, y)
    if then is None:
        return fit
    fit()
    asked = getattr(model, then)
    return partial(asked, X[:500]) if then in ("predict_interval", "p_values") else asked


# What can be asked of every estimator, and up to how many rows that takes seconds at the most.
ASKED = (
    ("ODMClassifier", None, 20_000),
    ("LinearODMClassifier", None, 20_000),
    ("ODMRegressor", None, 10_000),
    ("OneClassODM", None, 5_000),
    ("ODMClassifierCV", None, 2_000),
    ("LinearODMClassifierCV", None, 5_000),
    ("ODMRegressorCV", None, 2_000),
    ("ODMClassifier", "loo_decision_function", 3_000),
    ("ODMRegressor", "predict_interval", 2_000),
    ("OneClassODM", "p_values", 2_000),
    ("LinearODMClassifier", "kfold_decision_function", 20_000),
)


def drawn(seed, n_cases=14):
    """Return cases that a seed has drawn: what is asked, rows, features and classes."""
    rng, cells = np.random.default_rng(seed), {}
    while len(cells) < n_cases:
        task, then, most = ASKED[len(cells) % len(ASKED)]
        n_rows = int(100 * (most / 100) ** rng.random())
        n_features = int(rng.integers(2, 41))
        takes_classes = "Classifier" in task
        n_classes = int(rng.choice([2, 2, 3, 5, 10, 26])) if takes_classes else 2
        n_classes = n_classes if n_rows >= 20 * n_classes else 2
        name = f"{task} {n_rows} x {n_features}, {n_classes} classes {then or ''}".strip()
        cells[name] = partial(default, task, n_rows, n_features, n_classes, then=then)
    return cells


def command(*arguments):
    """Run the command with the package of this worker."""
    words = [*PYTHON, "-P", "-m", "optimargin", *arguments]  # -P: nothing from the current folder
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def on_file(kind, *options, predict=False):
    folder = Path(tempfile.mkdtemp(dir=os.environ["GUARD_FOLDER"]))
    data, model, labels = (str(folder / name) for name in ("data", "model", "labels"))
    if kind == "LIBSVM":
        dump_svmlight_file(*text(5_000, 5_000, 50), data)
    else:
        np.savetxt(data, np.column_stack(dense(3_000, 20)), fmt="%.6g", delimiter=",")
    train = partial(command, "train", data, model, *options, "-q")
    if predict:
        train()
        return partial(command, "predict", data, model, labels, "-q")
    return train


TALL, WIDE = partial(text, 40_000, 20_000, 75), partial(text, 3_000, 60_000, 150)
SHORT, SMALL = partial(text, 200_000, 1_000, 8), partial(text, 5_000, 5_000, 50)
DENSE, DENSE32 = partial(dense, 50_000, 54), partial(dense, 50_000, 54, dtype="float32")
PENALTIES = ("-c", "1000", "--C2", "250", "--D", "0.2", "-e", "1e-6", "--solver", "auto")
LINEAR, RBF = ("--linear", *PENALTIES), ("-t", "rbf", "-g", "0.15", *PENALTIES)
PAPER = dict.fromkeys(("C1s", "C2s", "Ds", "widths"), "paper")
CELLS = {
    "defaults": {
        "ODMClassifier 150 rows": partial(default, "ODMClassifier", 150, 10),
        "ODMClassifier 1000 rows, 5 classes": partial(default, "ODMClassifier", 1000, 10, 5),
        "ODMClassifier 8000 rows": partial(default, "ODMClassifier", 8000, 10),
        "LinearODMClassifier 20,000 rows": partial(default, "LinearODMClassifier", 20_000, 30),
        "ODMRegressor 2000 rows": partial(default, "ODMRegressor", 2000, 8),
        "OneClassODM 1000 rows": partial(default, "OneClassODM", 1000, 8),
        "ODMClassifierCV 200 rows": partial(default, "ODMClassifierCV", 200, 10),
        "ODMClassifierCV 1000 rows": partial(default, "ODMClassifierCV", 1000, 10),
        "ODMClassifierCV 800 rows, 8 classes": partial(default, "ODMClassifierCV", 800, 10, 8),
        "ODMClassifierCV 2000 rows, 26 classes": partial(default, "ODMClassifierCV", 2000, 10, 26),
        "LinearODMClassifierCV 1000 rows": partial(default, "LinearODMClassifierCV", 1000, 10),
        "ODMRegressorCV 500 rows": partial(default, "ODMRegressorCV", 500, 8),
        "leave one out, 1000 rows": partial(
            default, "ODMClassifier", 1000, 10, then="loo_decision_function"
        ),
        "intervals, 800 rows": partial(default, "ODMRegressor", 800, 8, then="predict_interval"),
    },
    "drawn": drawn(int(os.environ.get("GUARD_SEED", "0"))),
    "linear": {
        "text 40,000 x 20,000, C1=1000": partial(linear, TALL, 1e3),
        "text 40,000 x 20,000, C1=10,000": partial(linear, TALL, 1e4),
        "text 3000 x 60,000, C1=32": partial(linear, WIDE, 32),
        "text 3000 x 60,000, C1=1000": partial(linear, WIDE, 1e3),
        "short rows 200,000 x 1000, C1=32": partial(linear, SHORT, 32),
        "short rows 200,000 x 1000, C1=50,000": partial(linear, SHORT, 5e4),
        "fit_chunks 50,000 x 54": partial(linear, DENSE, 1e3, chunk_rows=10_000),
        "svrg 5000 x 5000": partial(linear, SMALL, 1e3, solver="svrg"),
        "dcd 5000 x 5000": partial(linear, SMALL, 1e3, solver="dcd"),
    },
    "dense": {
        "50,000 x 54": partial(linear, DENSE, 1e3),
        "50,000 x 54, float32": partial(linear, DENSE32, 1e3),
        "5000 x 300": partial(linear, partial(dense, 5_000, 300), 1e3),
        "500 x 5000": partial(linear, partial(dense, 500, 5_000), 1e2),
    },
    "kernel": {
        **{f"RBF {m} rows": partial(kernel, m) for m in (300, 700, 1000, 2000, 5000)},
        "dcd 2000 rows": partial(kernel, 2000, solver="dcd"),
        "nystrom 20,000 rows": partial(kernel, 20_000, approximation="nystrom", n_components=300),
        "4 classes, 1500 rows": partial(kernel, 1500, n_classes=4),
        "predict 5000 x 5000": partial(kernel, 5000, then="predict"),
        "leave one out 500 rows": partial(kernel, 500, then="leave one out"),
    },
    "selection": {
        **{f"RBF {m} rows": partial(select, "ODMClassifierCV", m) for m in (60, 200, 500)},
        "RBF 150 rows, 3 classes": partial(select, "ODMClassifierCV", 150, 3),
        "linear 500 rows": partial(select, "LinearODMClassifierCV", 500),
        "paper's grid, cv=5, 60 rows": partial(select, "ODMClassifierCV", 60, cv=5, **PAPER),
        "LDM 60 rows": partial(select, "LDMClassifierCV", 60, cv=5),
    },
    "command": {
        "--version": lambda: partial(command, "--version"),
        "train --linear, LIBSVM file": partial(on_file, "LIBSVM", *LINEAR),
        "predict, LIBSVM file": partial(on_file, "LIBSVM", *LINEAR, predict=True),
        "train RBF, CSV file": partial(on_file, "CSV", *RBF),
        "predict, CSV file": partial(on_file, "CSV", *RBF, predict=True),
    },
}
SLOW = {("kernel", "RBF 5000 rows"), ("command", "predict, CSV file")}  # not with --quick


def work(site):
    """Be a worker: prepare and time cells, as the lines of standard input ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the guard ends its workers itself
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed must not get among the answers
    import optimargin

    if not Path(optimargin.__file__).resolve().is_relative_to(site):
        sys.exit(f"guard: {optimargin.__file__} is not in {site}: the wrong build is imported.")
    from timing import keep_memory, machine, rest

    keep_memory()
    warnings.simplefilter("ignore")
    gc.freeze()  # the modules are not looked at again: a collection then takes no time
    print(json.dumps(machine()), file=answers, flush=True)
    for line in sys.stdin:
        cell, calls = json.loads(line)
        try:
            if cell:
                function = None  # frees the memory of the cell before
                function = CELLS[cell[0]][cell[1]]()
            gc.collect()
            rest()
            answer = min(timeit.repeat(function, gc.enable, number=1, repeat=calls))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)


@contextmanager
def worker(site):
    """Start a process with one of the builds; yield a function that waits for it, and one to ask.

    The first returns the machine. The second returns the seconds of the fastest of some calls of
    the cell that was asked for last, or the text of an error.
    """

    def receive():
        if line := process.stdout.readline():
            return json.loads(line)
        sys.exit(f"guard: a worker ended with code {process.wait()}.")

    def seconds(cell=None, calls=1):
        process.stdin.write(json.dumps([cell, calls]) + "\n")
        process.stdin.flush()
        return receive()

    words, pipes = [*PYTHON, __file__, "--worker", site], {"stdin": PIPE, "stdout": PIPE}
    path = os.pathsep.join([str(site), *sys.path[1:]])
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": path, "GUARD_FOLDER": folder}
        process = subprocess.Popen(words, env=environment, text=True, **pipes)
        try:
            yield receive, seconds
        finally:
            process.kill()
            process.wait()


def git(*words, **options):
    done = subprocess.run(["git", *words], cwd=ROOT, stdout=PIPE, **options)
    return sys.exit(f"guard: git {words[0]} failed") if done.returncode else done.stdout


def build(commit):
    """Return the folder where a commit is installed; it is built unless it was before."""
    home = ROOT / "build" / "guard" / commit / sys.implementation.cache_tag
    site, source, unfinished = home / "site", home / "source", home / "unfinished"
    if site.exists():
        return site
    print(f"building {commit}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as files:
        files.extractall(source, filter="data")
    words = ["install", "-q", "--no-build-isolation", "--no-deps", "--target", unfinished, source]
    # ninja and cython of this environment, also where it is not activated
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [sys.executable, "-m", "pip", *words], env=os.environ | {"PATH": path}, check=True
    )
    shutil.rmtree(source)
    return unfinished.rename(site)


def time_pairs(workers, cell, pairs, burst, budget):
    """Return pairs of old and new seconds and None; or no pairs, and what each commit does.

    There are at least `pairs` of them and up to three times as many within `budget` seconds. A run
    takes at least `burst` seconds, by repeated calls.
    """
    first = [seconds(cell) for seconds in workers]
    if any(isinstance(answer, str) for answer in first):
        return [], [answer if isinstance(answer, str) else "runs" for answer in first]
    if max(first) < 1:  # else one call is enough, whatever of it was warming up
        first = [seconds() for seconds in workers]
    calls = math.ceil(burst / max(first))
    taken, end = [], time.perf_counter() + budget
    while len(taken) < pairs or (len(taken) < 3 * pairs and time.perf_counter() < end):
        turn = slice(None, None, -1 if len(taken) % 2 else 1)
        taken.append([seconds(calls=calls) for seconds in workers[turn]][turn])
    return taken, None


def measure(sites, group, names, rounds, *effort):
    """Return the rows of some cells of a group, and the machine."""
    taken, errors = {name: [] for name in names}, {}
    for _ in range(rounds):
        with worker(sites[0]) as (old_ready, old), worker(sites[1]) as (new_ready, new):
            machine = old_ready() and new_ready()
            for name in names:
                pairs, error = time_pairs((old, new), (group, name), *effort)
                taken[name] += pairs
                errors[name] = errors.get(name) or error
    rows = []
    for name, pairs in taken.items():
        row = {"group": group, "cell": name, "errors": errors[name]}
        if errors[name]:
            shown = "old: {}; new: {}".format(*errors[name])
        else:
            ratios = [before / now for before, now in pairs]
            lower, ratio, upper = statistics.quantiles(ratios, n=4, method="inclusive")
            before, now = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
            row |= {"old_ms": before, "new_ms": now, "ratio": ratio}
            row |= {"quartiles": [lower, upper], "pairs": len(pairs)}
            shown = f"{before:8.1f} {now:8.1f} {ratio:7.3f}  {lower:.2f}-{upper:.2f} ({len(pairs)})"
        print(f"{group:9} {name:37} {shown}", flush=True)
        rows.append(row)
    return rows, machine


def median_of(row, *others):
    """Return the row of the median ratio among all measurements of a cell."""
    same = [row, *(other for rows in others for other in rows if other["cell"] == row["cell"])]
    if any(each["errors"] for each in same):
        return same[-1]
    return sorted(same, key=lambda each: each["ratio"])[len(same) // 2]


def below(row, limit):
    """Return whether a cell is too slow, or fails in the new commit."""
    return row["errors"][1] != "runs" if row["errors"] else row["ratio"] < limit


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="commit to compare with")
    parser.add_argument("new", nargs="?", default="HEAD", help="commit to judge")
    parser.add_argument("--quick", action="store_true", help="about 2 minutes, with more noise")
    parser.add_argument("--threads", type=int, metavar="N", help="of BLAS and OpenMP")
    parser.add_argument("--group", action="append", choices=CELLS, help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of the cases of the group drawn")
    parser.add_argument("--cell", default="", metavar="TEXT", help="cells with that in their names")
    parser.add_argument("--overall-limit", type=float, default=0.98, metavar="RATIO")
    parser.add_argument("--cell-limit", type=float, default=0.9, metavar="RATIO")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the table there, too")
    args = parser.parse_args()
    if args.json and not args.json.parent.is_dir():
        parser.error(f"{args.json.parent} is no folder")
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers and files go, too
    os.environ["GUARD_SEED"] = str(args.seed)  # which workers read
    CELLS["drawn"] = drawn(args.seed)
    if args.threads:
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        os.environ.update(dict.fromkeys(variables, str(args.threads)))
    unlocked = ("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    if args.new == "HEAD" and git(*unlocked):
        print("guard: changes that are not committed are not measured", file=sys.stderr)
    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > 0.5:
        print(f"guard: is the machine busy? Its load is {load:.1f}", file=sys.stderr)
    commits = [
        git("rev-parse", "--short=12", "--verify", f"{commit}^{{commit}}", text=True).strip()
        for commit in (args.old, args.new)
    ]
    sites = [build(commit) for commit in commits]
    rounds, *effort = (1, 5, 0.05, 1.2) if args.quick else (2, 3, 0.1, 1.8)
    skipped = SLOW if args.quick else ()
    print("{} -> {}: old ms, new ms, old / new, quartiles (pairs)".format(*commits))
    rows, means = [], {}
    for group in args.group or CELLS:
        names = [n for n in CELLS[group] if args.cell in n and (group, n) not in skipped]
        if names:
            measured, machine = measure(sites, group, names, rounds, *effort)
            # Gains, too: the overall mean would be too good if noise were removed on one side only.
            again = [
                row["cell"]
                for row in measured
                if below(row, args.cell_limit) or row.get("ratio", 1) > 1 / args.cell_limit
            ]
            if again:
                print("twice more, by fresh processes:")
                more = [measure(sites, group, again, rounds, *effort)[0] for _ in range(2)]
                measured = [median_of(row, *more) for row in measured]
            rows += measured
    for group in (*CELLS, "overall"):
        ratios = [r["ratio"] for r in rows if "ratio" in r and group in (r["group"], "overall")]
        if ratios:
            means[group] = statistics.geometric_mean(ratios)
    if not means:
        sys.exit("guard: no cell ran with both commits")
    slow = [f"{row['group']}, {row['cell']}" for row in rows if below(row, args.cell_limit)]
    slow += ["overall"] if means["overall"] < args.overall_limit else []
    print("", machine, *(f"{name:9} {ratio:.3f}" for name, ratio in means.items()), sep="\n")
    print("below the limits: " + "; ".join(slow) if slow else "within the limits")
    if args.json:
        record = {"old": commits[0], "new": commits[1], "machine": machine, "means": means}
        unfinished = args.json.with_name(f"{args.json.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(record | {"below": slow, "cells": rows}, indent=1) + "\n")
        unfinished.replace(args.json)  # never seen half written
    sys.exit(bool(slow))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        main()
