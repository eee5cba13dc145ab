"""Grids of parameters: what they hold, how they are run through and how a point is chosen."""

import math
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from itertools import product
from numbers import Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils._param_validation import Interval

from optimargin._threads import one_thread
from optimargin._ties import place_of_best
from optimargin.kernels import gamma_of_width
from optimargin.selection.search import SMALL
from optimargin.selection.stages import StopSearch

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
        self.objective_type, self.gammas = objective_type, gammas
        settings = [
            dict(zip(values, map(float, each), strict=True)) for each in product(*values.values())
        ]
        self.objectives = [objective_type(**{**(fixed or {}), **each}) for each in settings]
        self.points = settings
        if gammas is not None:
            self.points = [{**each, "gamma": float(g)} for each in settings for g in gammas]
        self._numbers = np.arange(len(settings)).reshape([len(each) for each in values.values()])

    def __len__(self):
        return len(self.points)

    @property
    def n_first(self):
        """How many values the first parameter has."""
        return len(self._numbers)

    def walk(self, rows):
        """Return the numbers of objectives so that each differs from the last by one step.

        Only `rows` of the first parameter are visited, an array for each. The last one runs
        fastest, there and back: of the ODM's parameters D changes the active set least.
        """
        return np.split(_there_and_back(self._numbers[rows]), len(rows))

    def smoothest_best(self, scores):
        """Return the number of the best point, of ties that of the smoothest model.

        What are ties, `optimargin._ties` says; what is smoother, `Objective.smoother`.
        """
        return place_of_best(scores, lambda k: self.objective_type.roughness(self.points[k]))


def _there_and_back(numbers):
    if numbers.ndim == 1:
        return numbers
    parts = [_there_and_back(part) for part in numbers]
    return np.concatenate([part[:: 1 - 2 * (k % 2)] for k, part in enumerate(parts)])


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
    elif gammas is not None:
        gammas = grid_values("gammas", gammas, None, POSITIVE)
    elif kernel.kind.has_width:
        widths = grid_values("widths", widths, PAPER_WIDTHS, POSITIVE)
        gammas = gamma_of_width(widths * data.mean_distance)
    elif widths is not None:
        raise ValueError(
            f"widths are for kernels of the distance, as 'rbf': give gammas for {kernel.kernel!r}."
        )
    else:
        gammas = np.array([data.default_gamma()])
    return Grid(objective_type, values, gammas, data.fixed)


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
    n_chunks = 1 if n_jobs == 1 else math.ceil(4 * n_jobs / (len(gammas) * len(parts)))
    chunks = np.array_split(np.arange(grid.n_first), min(n_chunks, grid.n_first))
    n_at_once = max(int(_AT_ONCE / float(data.n_samples) ** 3), 1)
    stopped = False

    def run(s, g, rows):
        refitter = data.refitter(gammas[g], *parts[s])
        for along in grid.walk(rows):
            for numbers in np.split(along, range(n_at_once, len(along), n_at_once)):
                if stopped:
                    raise StopSearch
                objectives = [grid.objectives[number] for number in numbers]
                visit(s, refitter, len(gammas) * numbers + g, objectives)

    tasks = list(product(range(len(parts)), range(len(gammas)), chunks))
    # Threads of BLAS do harm beside other workers, and on small matrices, where waiting for each
    # other costs more than it saves, most of all on a busy machine.
    with one_thread() if n_jobs > 1 or data.n_samples <= SMALL else nullcontext():
        if data.kernel.kind.has_width:
            _ = data.distances  # computed before threads ask for them
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
