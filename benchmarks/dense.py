"""Dense data, 200,000 x 54: LinearODMClassifier against LinearSVC at equal suboptimality.

python benchmarks/dense.py
"""

import tracemalloc
import warnings

import numpy as np
from competitors import LINEAR
from linear import loosest, objective
from report import write
from timing import interleaved_medians, machine

from optimargin import LinearODMClassifier

C1, ACCURACY = 32.0, 1e-6


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.random((200_000, 54))
    score = (X - 0.5) @ rng.standard_normal(54) + 0.3 * rng.standard_normal(200_000)
    y = np.where(score > 0, 1.0, -1.0)
    reference = LinearODMClassifier(C1, 0, 0, fit_intercept=False, tol=1e-12).fit(X, y)
    best = objective(X, y, reference.coef_[0], C1)
    names = ["optimargin", "LinearSVC dual", "LinearSVC primal"]
    tols = {name: loosest(LINEAR[name], X, y, C1, best, ACCURACY) for name in names}
    medians = interleaved_medians(
        {
            name: lambda name=name, tol=tol: LINEAR[name](X, y, C1, tol)
            for name, tol in tols.items()
            if tol is not None
        }
    )
    tracemalloc.start()
    LINEAR["optimargin"](X, y, C1, tols["optimargin"])
    share = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    peer = min(seconds for name, seconds in medians.items() if name != "optimargin")
    rows = [{"method": name, "tol": tols[name], "seconds": medians.get(name)} for name in names]
    write(
        "dense",
        f"Dense 200,000 x 54 at relative suboptimality {ACCURACY:g}",
        rows,
        machine(),
        [
            f"Speed-up over the faster LinearSVC: {peer / medians['optimargin']:.1f}. "
            f"Peak extra memory: {share:.1%} of X.",
        ],
        command="python benchmarks/dense.py",
    )


if __name__ == "__main__":
    main()
