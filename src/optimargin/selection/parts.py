"""What a held-out loss is made of: samples that are held out, and kernel values of any width."""

from typing import Any

import numpy as np

from optimargin.held_out.search_designs import LandmarkFeatures


class KernelValues:
    """Kernel values of samples at one width after another.

    Parameters
    ----------
    distances : ndarray of shape (n_samples, n_samples)
        Squared.
    of_test : ndarray of shape (n_test, n_samples), default=None
        Squared distances of test samples.
    """

    def __init__(self, distances, of_test=None):
        self._distances, self._of_test = distances, of_test
        self._last: Any = None

    def change(self, refitter, kernel, gradient):
        """Let a refitter go on with another kernel; a gradient may be wanted."""
        K = kernel.of_distances(self._distances)
        K_test = None if self._of_test is None else kernel.of_distances(self._of_test)
        self._last = kernel, K, K_test
        refitter.change_kernel(K, K_test)

    def slopes(self):
        """Return derivatives of the last kernel values by the logarithm of the width."""
        kernel, K, K_test = self._last
        slopes = {"samples": kernel.width_slope(self._distances, K)}
        if K_test is not None:
            slopes["test"] = kernel.width_slope(self._of_test, K_test)
        return slopes


class LandmarkValues:
    """The same of samples with landmarks.

    Parameters
    ----------
    distances : ndarray of shape (n_samples, n_landmarks)
        Squared; their type is the precision of products over samples.
    between : ndarray of shape (n_landmarks, n_landmarks), float64
        Squared distances between the landmarks.
    """

    def __init__(self, distances, between):
        self._distances, self._between = distances, between
        self._slopes: dict = {}

    def change(self, refitter, kernel, gradient):
        """Let a refitter go on with another kernel; a gradient may be wanted."""
        refitter.change_design(None)  # frees its memory for the new one
        A, K = (kernel.of_distances(each) for each in (self._between, self._distances))
        self._slopes = {}
        if gradient:  # the values are overwritten
            self._slopes = {
                "landmarks": kernel.width_slope(self._distances, K),
                "between": kernel.width_slope(self._between, A),
            }
        refitter.change_design(LandmarkFeatures(K, A))

    def slopes(self):
        """Return derivatives of the last kernel values by the logarithm of the width."""
        return self._slopes


class Part:
    """Samples that are held out, by one refitter.

    Parameters
    ----------
    rows : ndarray of shape (n_held_out,)
    refitter : Refitter
    values : KernelValues or LandmarkValues, default=None
        Where there is a width to change.
    folds : Folds, default=None
        To be left out in closed form; test samples are predicted when not given.
    """

    def __init__(self, rows, refitter, values=None, folds=None):
        self.rows, self.refitter, self._values, self._folds = rows, refitter, values, folds

    def held_out(self, objective, kernel, gradient):
        """Return the held-out decision values at a point."""
        if self._values is not None:
            self._values.change(self.refitter, kernel, gradient)
        solved = self.refitter.solve(objective)
        return solved.predict_test() if self._folds is None else solved.leave_folds_out(self._folds)

    def derivatives(self, held_out, slope):
        """Return derivatives by the loss and by the logarithm of the width."""
        found = held_out.derivatives(slope.reshape(held_out.decision.shape))
        by_width = 0.0 if self._values is None else found.by_width(self._values.slopes())
        return found.by_loss, by_width


def closed_form_part(data, gamma, used, folds, random_state):
    """Return all samples, held out fold by fold in closed form.

    Parameters
    ----------
    data : SelectionData
    gamma : float or None
    used : ndarray
        The samples of positive weight, which the folds are of.
    folds : Folds
    random_state : RandomState
        Draws landmarks.
    """
    refitter, values = data.folds_refitter(gamma, folds, random_state)
    if values is None and data.kernel.kind.has_width:
        values = KernelValues(data.distances_between(used, used))
    return Part(np.tile(used, folds.fold.shape[0]), refitter, values, folds)


def exact_part(data, gamma, train, test):
    """Return the samples of one split, held out by fitting without them."""
    values = None
    if data.kernel.kind.has_width:
        kept, _ = data.part_targets(train)
        between = data.distances_between
        values = KernelValues(between(kept, kept), between(test, kept))
    return Part(test, data.refitter(gamma, train, test), values)
