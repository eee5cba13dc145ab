"""Grids of parameters: what they hold, how they are run through and how a point is chosen."""

import math
from contextlib import nullcontext
from itertools import product

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

_SMALL = 1000  # samples up to which BLAS threads do not pay

PAPER = {
    "C1": 2.0 ** np.arange(11),
    "C2": 2.0 ** np.arange(11),
    "D": np.arange(6) / 10,
    "width": 2.0 ** np.arange(-2, 3),
}


class Grid:
    """All combinations of C1, C2, D and, for kernels that have one, gamma.

    Parameters
    ----------
    C1s, C2s, Ds : array-like
    gammas : array-like or None
    """

    def __init__(self, C1s, C2s, Ds, gammas):
        self.C1s, self.C2s, self.Ds = C1s, C2s, Ds
        self.gammas = gammas
        names = ["C1", "C2", "D"] + ([] if gammas is None else ["gamma"])
        values = [C1s, C2s, Ds] + ([] if gammas is None else [gammas])
        self.names = names
        self.points = [
            dict(zip(names, map(float, point), strict=True)) for point in product(*values)
        ]

    def __len__(self):
        return len(self.points)

    def index(self, i, j, k, g):
        """Return the place in `points` of one value of each parameter."""
        n_gammas = 1 if self.gammas is None else len(self.gammas)
        return ((i * len(self.C2s) + j) * len(self.Ds) + k) * n_gammas + g

    def walk(self, rows):
        """Yield ``(i, j, k)`` over the given places of C1, so that neighbours follow each other.

        D runs fastest, there and back, because it changes the active set least.
        """
        forth_C2, forth_D = True, True
        for i in rows:
            for j in _there_and_back(len(self.C2s), forth_C2):
                for k in _there_and_back(len(self.Ds), forth_D):
                    yield i, j, k
                forth_D = not forth_D
            forth_C2 = not forth_C2

    def smoothest_best(self, scores):
        """Return the place of the best score; of equal ones that of the smoothest model.

        The smoothest has the smallest C1, then the smallest C2, the largest D and the
        smallest gamma.
        """
        scores = np.where(np.isnan(scores), -np.inf, scores)
        best = np.flatnonzero(scores >= scores.max() - 1e-12)
        return min(
            best,
            key=lambda p: (
                self.points[p]["C1"],
                self.points[p]["C2"],
                -self.points[p]["D"],
                self.points[p].get("gamma", 0.0),
            ),
        )


def _there_and_back(length, forth):
    return range(length) if forth else range(length - 1, -1, -1)


def single_threaded(training, n_jobs=1):
    """Return a context in which BLAS uses one thread, where more would do harm.

    They do beside other workers, and on small matrices, where waiting for each other costs
    more than it saves, most of all on a busy machine.
    """
    small = training.X.shape[0] <= _SMALL
    return threadpool_limits(1) if n_jobs > 1 or small else nullcontext()


def describe(point):
    """Return a grid point in words."""
    return ", ".join(f"{name}={value:g}" for name, value in point.items())


def run_grid(training, grid, splits, visit, n_jobs=None):
    """Solve every grid point of every split, each from its neighbour's solution.

    Parameters
    ----------
    training : TrainingSet
    grid : Grid
    splits : list of (train, test) or None
        None runs over the whole training set.
    visit : callable
        Called with the split's number, the place of the point and the learner solved there.
    n_jobs : int or None
        Threads; the compiled parts run without the interpreter's lock, and each gets one
        BLAS thread.
    """
    gammas = [None] if grid.gammas is None else grid.gammas
    parts = [(None, None)] if splits is None else splits
    n_jobs = effective_n_jobs(n_jobs)
    n_chunks = min(len(grid.C1s), math.ceil(4 * n_jobs / (len(gammas) * len(parts))))
    chunks = np.array_split(np.arange(len(grid.C1s)), 1 if n_jobs == 1 else n_chunks)
    if training.kernel == "rbf":
        _ = training.distances  # once, before threads ask for them

    def run(s, g, rows):
        learner = training.learner(gammas[g], *parts[s])
        for i, j, k in grid.walk(rows):
            learner.fit(float(grid.C1s[i]), float(grid.C2s[j]), float(grid.Ds[k]))
            visit(s, grid.index(i, j, k, g), learner)

    tasks = list(product(range(len(parts)), range(len(gammas)), chunks))
    with single_threaded(training, n_jobs):
        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(run)(*task) for task in tasks)
