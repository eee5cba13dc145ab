"""Grids of parameters: what they hold, how they are run through and how a point is chosen."""

import math
from contextlib import nullcontext
from itertools import product

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

_SMALL = 1000  # samples up to which BLAS threads do not pay

# The grid of the paper's experiments; widths are multiples of the mean distance.
PAPER = {
    "C1": 2.0 ** np.arange(11),
    "C2": 2.0 ** np.arange(11),
    "D": np.arange(6) / 10,
    "width": 2.0 ** np.arange(-2, 3),
}

# Of equally good models the one that comes first is taken: 1 prefers small values.
SMOOTHER = {"C1": 1, "C2": 1, "D": -1, "gamma": 1}


class Grid:
    """All combinations of the parameters of a loss and, if the kernel has one, of gamma.

    Parameters
    ----------
    values : dict of str to array-like
        In the order in which the learner's `fit` takes them.
    gammas : array-like or None
    """

    def __init__(self, values, gammas):
        self.values = list(values.values())
        self.gammas = gammas
        axes = dict(values) if gammas is None else {**values, "gamma": gammas}
        self.names = list(axes)
        self.points = [
            dict(zip(axes, map(float, point), strict=True)) for point in product(*axes.values())
        ]

    def __len__(self):
        return len(self.points)

    def walk(self, rows):
        """Yield places of the values so that each differs from the last by one step.

        Only `rows` of the first parameter are visited. The last one runs fastest, there and
        back: of the ODM's parameters D changes the active set least.
        """
        places: list[tuple[int, ...]] = [()]
        for axis in [list(rows)] + [list(range(len(values))) for values in self.values[1:]]:
            places = [
                (*place, k)
                for n, place in enumerate(places)
                for k in (axis if n % 2 == 0 else axis[::-1])
            ]
        return places

    def index(self, place, g):
        """Return the number of the point at a place of `walk` and a place of gamma."""
        shape = [len(values) for values in self.values]
        n_gammas = 1 if self.gammas is None else len(self.gammas)
        return int(np.ravel_multi_index(place, shape)) * n_gammas + g

    def smoothest_best(self, scores):
        """Return the number of the best point; of equal ones that of the smoothest model.

        For the ODM that is the smallest C1, then the smallest C2, the largest D and the
        smallest gamma.
        """
        scores = np.where(np.isnan(scores), -np.inf, scores)
        best = np.flatnonzero(scores >= scores.max() - 1e-12)
        return int(min(best, key=lambda p: [SMOOTHER[n] * self.points[p][n] for n in self.names]))


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


class _Stopped(Exception):
    """Ends the workers after an interrupt."""


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
    n_first = len(grid.values[0])
    n_chunks = 1 if n_jobs == 1 else math.ceil(4 * n_jobs / (len(gammas) * len(parts)))
    chunks = np.array_split(np.arange(n_first), min(n_chunks, n_first))
    stopped = False

    def run(s, g, rows):
        learner = training.learner(gammas[g], *parts[s])
        for place in grid.walk(rows):
            if stopped:
                raise _Stopped
            learner.fit(*(float(values[k]) for values, k in zip(grid.values, place, strict=True)))
            visit(s, grid.index(place, g), learner)

    tasks = list(product(range(len(parts)), range(len(gammas)), chunks))
    try:
        with single_threaded(training, n_jobs):
            training.prepare()
            Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(run)(*task) for task in tasks)
    except KeyboardInterrupt:
        stopped = True
        raise
