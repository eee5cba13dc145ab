"""Which solver is fastest where: all of them on RBF fits, and what solver="auto" takes.

    python benchmarks/kernel_map.py [--repeats N]

Standardised features, default parameters but for C1 in units per sample (None is the default),
solvers in turn, medians. The ratio is the time of "auto" over that of the fastest solver.
"""

import argparse
import warnings
from functools import partial

import numpy as np
from kernel_defaults import data
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin import ODMClassifier

SETS = ["magic", "htru2", "phishing", "adult-a", "ijcnn1"]
SIZES = [200, 300, 700, 1500, 2500, 5000]
PENALTIES = [None, 0.125, 32.0]
SOLVERS = ["newton", "dcd", "bcd", "newton_cg", "auto"]
FACTORISED_UP_TO, SMALL_UP_TO = 1500, 2500  # samples, past which two solvers are out of question


def row(name, n_samples, penalty, repeats):
    X, y, _, _ = data(name, n_samples)
    solvers = SOLVERS[:-1]
    if n_samples > FACTORISED_UP_TO:
        solvers.remove("newton")
    if n_samples > SMALL_UP_TO:
        solvers.remove("dcd")
    C1 = None if penalty is None else penalty * n_samples
    models = {solver: ODMClassifier(C1, solver=solver) for solver in [*solvers, "auto"]}
    fits = {solver: partial(model.fit, X, y) for solver, model in models.items()}
    seconds = interleaved_medians(fits, repeats)
    best = min(solvers, key=seconds.get)
    return {
        "set": name,
        "rows": n_samples,
        "C1 per row": "default" if penalty is None else penalty,
        **{f"{solver} [ms]": _milliseconds(seconds.get(solver)) for solver in SOLVERS},
        "fastest": best,
        "auto takes": models["auto"].solver_,
        "auto / fastest": seconds["auto"] / seconds[best],
    }


def _milliseconds(seconds):
    return None if seconds is None else 1e3 * seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_memory()
    rows = []
    for name in SETS:
        for n_samples in SIZES:
            for penalty in PENALTIES:
                rows.append(row(name, n_samples, penalty, args.repeats))
                print(rows[-1], flush=True)
    ratios = np.array([r["auto / fastest"] for r in rows])
    notes = [
        f"largest ratio: {ratios.max():.2f}",
        f"rows with a ratio above 1.3: {np.count_nonzero(ratios > 1.3)} of {ratios.size}",
    ]
    write(
        "kernel_map",
        "Solvers of RBF fits, and the one that is taken",
        rows,
        machine(),
        notes,
        command="python benchmarks/kernel_map.py",
    )


if __name__ == "__main__":
    main()
