"""The rates and counts of the plan, measured: seconds per operation, and how many of them.

    python benchmarks/rates.py [--repeats N]

Each row has the number that ships (`optimargin.training.plan_machines`) and the one measured here.
Those that ship stay as they are unless all of them are measured again: every computer is to choose
alike, and another computer multiplies all rates by about the same factor.
"""

import argparse
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin import ODMClassifier
from optimargin.designs import FeatureDesign
from optimargin.kernels import KernelChoice, PreparedKernel
from optimargin.training import plan_machines

N_SAMPLES, N_FEATURES, N_STORED = 3000, 20, 75


def operations(rng):
    """Return what is timed for each rate, and how many operations that is."""
    X = rng.normal(size=(N_SAMPLES, N_FEATURES))
    kernel = PreparedKernel(KernelChoice("rbf").at(0.1), X, np.float32)
    M = X @ X.T + N_SAMPLES * np.eye(N_SAMPLES)
    columns = rng.integers(0, 20_000, N_STORED * N_SAMPLES * 10)
    indptr = np.arange(0, columns.size + 1, N_STORED)
    sparse = FeatureDesign(sp.csr_array((np.ones(columns.size), columns, indptr)))
    w, v = rng.normal(size=sparse.n_coef), rng.normal(size=N_SAMPLES)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    tiny = ODMClassifier(solver="newton", tol=1e-10)
    n_steps = tiny.fit(X[:50], y[:50]).n_iter_
    return {
        "factored": (partial(scipy.linalg.cho_factor, M), N_SAMPLES**3 / 3),
        "byte": (partial(np.matmul, M, v), M.nbytes),
        "scattered": (partial(sparse.decision, w), columns.size),
        "kernel_value": (kernel.block, N_SAMPLES**2),
        # all of a small fit, what surrounds its steps included
        "step": (partial(tiny.fit, X[:50], y[:50]), 2 * n_steps),
    }


def counts(rng):
    """Return iterations of fits, per unit of the counts that ship."""
    X = rng.normal(size=(N_SAMPLES, N_FEATURES))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=N_SAMPLES) > 0).astype(int)
    cycles = ODMClassifier(solver="bcd", tol=1e-4).fit(X, y)
    digits, curvature = 4, 2 * cycles.C1_ / N_SAMPLES
    steps = ODMClassifier(solver="newton", tol=1e-10).fit(X[:1000], y[:1000]).n_iter_
    per_digit = (cycles.n_iter_ - steps) / (digits * np.sqrt(curvature))
    return {"NEWTON_STEPS": steps, "CYCLES_PER_DIGIT": per_digit}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    keep_memory()
    rng = np.random.default_rng(0)
    timed = operations(rng)
    seconds = interleaved_medians({name: call for name, (call, _) in timed.items()}, args.repeats)
    rows = [
        {
            "rate": name,
            "ships": getattr(plan_machines.RATES, name),
            "measured": seconds[name] / n_operations,
        }
        for name, (_, n_operations) in timed.items()
    ]
    rows += [
        {"rate": name, "ships": getattr(plan_machines, name), "measured": float(found)}
        for name, found in counts(rng).items()
    ]
    write(
        "rates",
        "Rates of the plan",
        rows,
        machine(),
        [],
        command="python benchmarks/rates.py",
    )


if __name__ == "__main__":
    main()
