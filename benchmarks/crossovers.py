"""Every solver on data of many shapes, and the one that `solver="auto"` takes.

    python benchmarks/crossovers.py

C1 = 32 and C1 = rows / 4, the default; C2 = C1 / 4, D = 0.2, an intercept, tol = 1e-6. Generated
data: dense rows, and sparse rows of about 75 words. A solver that is not done after `MAX_SECONDS`
in its first fit is left out, and so is "newton" where both possible matrices would be large.
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


def rows(kind, shape, X, y):
    """Yield one row of the table per value of C1."""
    for C1 in (32.0, None):
        yield row(kind, shape, X, y, C1)


def row(kind, shape, X, y, C1):
    auto = LinearODMClassifier(C1, random_state=0, max_iter=MAX_ITER).fit(X, y).solver_
    fits = {
        solver: partial(
            LinearODMClassifier(C1, solver=solver, max_iter=MAX_ITER, random_state=0).fit, X, y
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
    medians = interleaved_medians(done, 7, budget=10)
    return {
        "data": kind,
        "rows": shape[0],
        "features": shape[1],
        "C1": "default" if C1 is None else f"{C1:g}",
        **{f"{s} [ms]": 1e3 * medians[s] if s in medians else None for s in SOLVERS},
        "fastest": min(medians, key=medians.get),
        "auto": auto,
        "auto / fastest": medians[auto] / min(medians.values()) if auto in medians else None,
    }


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    table = [r for shape in DENSE for r in rows("dense", shape, *dense(*shape))]
    table += [r for shape in SPARSE for r in rows("sparse", shape, *text_like(*shape))]
    write(
        "crossovers",
        "Solvers by the shape of the data",
        table,
        machine(),
        [
            '"not reached": not tried, or not at tol after '
            f"{MAX_ITER} iterations or {MAX_SECONDS:g} seconds."
        ],
        command="python benchmarks/crossovers.py",
    )


if __name__ == "__main__":
    main()
