"""Every solver on data of many shapes, beside the one that `solver="auto"` takes.

    python benchmarks/crossovers.py

C1 = 32, C2 = 8, D = 0.2, an intercept, tol = 1e-6. Generated data: dense rows, and sparse rows of
about 75 words. A solver that is not done after `MAX_SECONDS` in its first fit is left out, and so
is "newton" where its matrix would be large both ways.
"""

import warnings
from functools import partial

from large_data import text_like
from report import write
from scaling import dense
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier

SOLVERS = ("newton", "newton_cg", "dcd", "svrg")
DENSE = (
    (500, 10),
    (20_000, 50),
    (100_000, 50),
    (5_000, 500),
    (500, 3_000),
    (2_000, 1_500),
    (2_000, 8_000),
)
SPARSE = ((1_000, 20_000), (4_000, 20_000), (20_000, 20_000), (50_000, 20_000), (20_000, 500))
MAX_SECONDS, MAX_ITER, MAX_MATRIX = 2.0, 60, 5000


def row(kind, shape, X, y):
    auto = LinearODMClassifier(32.0, 8.0, 0.2, random_state=0).fit(X, y).solver_
    fits = {
        solver: partial(
            LinearODMClassifier(
                32.0, 8.0, 0.2, solver=solver, max_iter=MAX_ITER, random_state=0
            ).fit,
            X,
            y,
        )
        for solver in SOLVERS
        if solver != "newton" or min(shape) <= MAX_MATRIX
    }
    first = {solver: interleaved_medians({"fit": fit}, 1)["fit"] for solver, fit in fits.items()}
    done = {
        solver: fit
        for solver, fit in fits.items()
        if first[solver] <= MAX_SECONDS and fit.func.__self__.dual_gap_ <= 1e-6
    }
    medians = interleaved_medians(done, 7)
    return {
        "data": kind,
        "rows": shape[0],
        "features": shape[1],
        **{f"{s} [ms]": 1e3 * medians[s] if s in medians else None for s in SOLVERS},
        "fastest": min(medians, key=medians.get),
        "auto": auto,
        "auto / fastest": medians[auto] / min(medians.values()),
    }


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    rows = [row("dense", shape, *dense(*shape)) for shape in DENSE]
    rows += [row("sparse", shape, *text_like(*shape)) for shape in SPARSE]
    write(
        "crossovers",
        "Solvers by the shape of the data",
        rows,
        machine(),
        [
            '"not reached": not tried, or not at tol after '
            f"{MAX_ITER} iterations or {MAX_SECONDS:g} seconds."
        ],
        command="python benchmarks/crossovers.py",
    )


if __name__ == "__main__":
    main()
