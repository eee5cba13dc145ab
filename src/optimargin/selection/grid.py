"""Grids of parameters: what they hold, how they are run through and how a point is chosen."""

import math
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from itertools import groupby, product
from numbers import Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval

from optimargin._threads import one_thread
from optimargin._ties import place_of_best
from optimargin.kernels import gamma_of_width

_SMALL = 1000  # samples up to which BLAS threads do not pay
_AT_ONCE = 3e8  # n_samples^3 of the points of one visit: a fraction of a second to a second

POSITIVE = Interval(Real, 0, None, closed="neither")

# Multiples of the mean distance, in the paper's experiments.
PAPER_WIDTHS = 2.0 ** np.arange(-2, 3)


class Grid:
    """All combinations of the parameters of an objective and, if the kernel has one, of gamma.

    Parameters
    ----------
    objective_type : type
        An `Objective`.
    values : dict of str to array-like
        Of its parameters, those first that cost most to change.
    gammas : array-like or None
    fixed : dict, default=None
        Its other parameters.
    """

    def __init__(self, objective_type, values, gammas, fixed=None):
        self.objective_type = objective_type
        self.values = [np.asarray(v, dtype=np.float64) for v in values.values()]
        self.gammas = gammas
        axes = dict(values) if gammas is None else {**values, "gamma": gammas}
        self.points = [
            dict(zip(axes, map(float, point), strict=True)) for point in product(*axes.values())
        ]
        self.objectives = {
            place: objective_type(
                **{
                    **(fixed or {}),
                    **{n: float(v[k]) for n, v, k in zip(values, self.values, place, strict=True)},
                }
            )
            for place in product(*(range(len(v)) for v in self.values))
        }

    def __len__(self):
        return len(self.points)

    def walk(self, rows):
        """Return places of the values so that each differs from the last by one step.

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
        """Return the number of the best point, of ties that of the smoothest model.

        What are ties, `optimargin._ties` says; what is smoother, `Objective.smoother`.
        """
        return place_of_best(scores, lambda k: self.objective_type.roughness(self.points[k]))


def make_grid(data, given, gammas, widths, allowed):
    """Return the grid that the arguments of a path or of a CV estimator describe.

    Parameters
    ----------
    data : SelectionData
    given : dict of str to array-like, "paper" or None
        The values of each parameter of the objective; None means those of
        `Objective.default_grid`, or what is fixed.
    gammas : array-like or None
    widths : array-like, "paper" or None
    allowed : dict of str to Interval
        Of each parameter.
    """
    objective_type, kernel = data.objective_type, data.kernel
    defaults = objective_type.default_grid(data.unit)
    values = {
        name: grid_values(f"{name}s", given[name], defaults.get(name), allowed[name])
        for name in objective_type.grid_names
        if given[name] is not None or name in defaults
    }
    if gammas is not None and widths is not None:
        raise ValueError("gammas and widths both say how wide the kernel is: give one of them.")
    if not kernel.has_gamma:
        if gammas is not None or widths is not None:
            name = "gammas" if widths is None else "widths"
            raise ValueError(f"{name} was given, but kernel {kernel.kernel!r} has no gamma.")
        return Grid(objective_type, values, None, data.fixed)
    if gammas is not None:
        gammas = grid_values("gammas", gammas, None, POSITIVE)
        return Grid(objective_type, values, gammas, data.fixed)
    if kernel.kind.has_width:
        widths = grid_values("widths", widths, PAPER_WIDTHS, POSITIVE)
        gammas = gamma_of_width(widths * data.mean_distance)
        return Grid(objective_type, values, gammas, data.fixed)
    if widths is not None:
        raise ValueError(
            f"widths are for kernels of the distance, as 'rbf': give gammas for {kernel.kernel!r}."
        )
    return Grid(objective_type, values, np.array([data.default_gamma()]), data.fixed)


def grid_values(name, given, paper, allowed):
    """Return the values of one parameter as an array, checked.

    Parameters
    ----------
    name : str
        Of the argument that gives them.
    given : array-like, "paper" or None
    paper : ndarray or None
    allowed : Interval
    """
    if given is None or (isinstance(given, str) and given == "paper"):
        if paper is None:
            raise ValueError(f"{name}='paper' is not defined: the paper has widths.")
        return paper
    if isinstance(given, str):
        raise ValueError(f"{name}={given!r} is unknown: use a list of numbers or 'paper'.")
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a list of at least one number, got {values.tolist()}.")
    if not all(value in allowed and math.isfinite(value) for value in values):
        raise ValueError(
            f"{name} has values that are not finite or not {allowed}: {values.tolist()}."
        )
    return values


def single_threaded(n_samples, n_jobs=1):
    """Return a context in which BLAS uses one thread, where more would do harm.

    They do beside other workers, and on small matrices, where waiting for each other costs
    more than it saves, most of all on a busy machine.

    Parameters
    ----------
    n_samples, n_jobs : int
    """
    return one_thread() if n_jobs > 1 or n_samples <= _SMALL else nullcontext()


class _Stopped(Exception):
    """Ends the workers after one has failed, or after an interrupt."""


def run_grid(data, grid, splits, visit, n_jobs=None):
    """Solve every grid point of every split, each from its neighbour's solution.

    Parameters
    ----------
    data : SelectionData
    grid : Grid
    splits : list of (train, test) or None
        None runs over the whole training set.
    visit : callable
        Called with the split's number, the refitter, and the places and the objectives of some
        points, neighbours in this order, which the refitter is to be solved at.
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

    n_at_once = max(int(_AT_ONCE / float(data.n_samples) ** 3), 1)

    def run(s, g, rows):
        refitter = data.refitter(gammas[g], *parts[s])
        for _, some in groupby(grid.walk(rows), key=lambda place: place[0]):
            along = list(some)
            for first in range(0, len(along), n_at_once):
                if stopped:
                    raise _Stopped
                places = along[first : first + n_at_once]
                objectives = [grid.objectives[place] for place in places]
                visit(s, refitter, [grid.index(place, g) for place in places], objectives)

    tasks = list(product(range(len(parts)), range(len(gammas)), chunks))
    with single_threaded(data.n_samples, n_jobs):
        data.prepare()
        if n_jobs == 1:
            for task in tasks:
                run(*task)
            return
        with ThreadPoolExecutor(n_jobs) as pool:  # whose end waits for its threads
            try:
                for done in as_completed([pool.submit(run, *task) for task in tasks]):
                    done.result()
            except BaseException:  # an interrupt, too, ends with the points being solved
                stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
