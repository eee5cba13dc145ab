"""Dual coordinate descent against a literal transcription of the paper's Algorithm 1.

    python benchmarks/algorithm_1.py [--sizes M ...]

RBF kernel on subsets of adult-a, width = mean distance, C1 = 64, C2 = 16, D = 0.2, no intercept;
both get the same Gram matrix and stop at a relative gap of 1e-6. The transcription (that of the
tests) keeps the paper's 2m variables and their gradient, with one vectorised operation per step.
It gets the number of epochs that it needs, so that it spends no time on checks.
"""

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from large_data import load_large
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin.designs import GramDesign
from optimargin.kernels import Kernel, resolve_gamma
from optimargin.losses import BandLoss
from optimargin.problems import AdditiveProblem
from optimargin.solvers import SOLVERS
from optimargin.targets import Target

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.paper_algorithms import algorithm_1

PARAMETERS, TOL = (64.0, 16.0, 0.2), 1e-6


def epochs_needed(problem, K, y):
    """Return the epochs, to a tenth, after which Algorithm 1 has reached the gap."""
    n_epochs = 1
    while True:
        pull = y * algorithm_1(K, y, *PARAMETERS, n_epochs=n_epochs)
        value = problem.point(pull).value
        if value - problem.dual_value(pull) <= TOL * value:
            return n_epochs
        n_epochs += max(n_epochs // 10, 1)


def row(m, X, y):
    K = Kernel("rbf", gamma=resolve_gamma("mean_distance", X, np.ones(m)))(X)
    target = Target(y, y, np.full(m, 1 / m))
    problem = AdditiveProblem(BandLoss(*PARAMETERS), GramDesign(K), target, fit_intercept=False)
    solver = SOLVERS["dcd"](tol=TOL, max_iter=1000)
    solution = solver.solve(problem)
    n_epochs = epochs_needed(problem, K, y)
    medians = interleaved_medians(
        {
            "dcd": partial(solver.solve, problem),
            "printed": partial(algorithm_1, K, y, *PARAMETERS, n_epochs=n_epochs),
        }
    )
    return {
        "m": m,
        "dcd epochs": solution.n_iter,
        "Algorithm 1 epochs": n_epochs,
        "dcd [ms]": 1e3 * medians["dcd"],
        "Algorithm 1 [ms]": 1e3 * medians["printed"],
        "speed-up": medians["printed"] / medians["dcd"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 1000, 2000])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_memory()
    X, y = load_large("adult-a")
    order = np.random.default_rng(0).permutation(y.size)[: max(args.sizes)]
    X, y = X[order].toarray(), y[order]
    write(
        "algorithm_1",
        "Dual coordinate descent and Algorithm 1 as printed",
        [row(m, X[:m], y[:m]) for m in args.sizes],
        machine(),
        [],
        command="python benchmarks/algorithm_1.py",
    )


if __name__ == "__main__":
    main()
