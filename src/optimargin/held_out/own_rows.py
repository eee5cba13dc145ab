"""Refitters of outputs that are asked for some of the samples only, as pairs of classes are.

Every output has a refitter of its own rows. A sample that takes no part in an output is held out of
it anyway: its value is that of the model itself. Quadratic losses over kernels, where searches
spend their time, are solved for all outputs in one compiled call.
"""

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._core._quadratic_rows import QuadraticRows
from optimargin._threads import for_each, n_threads_for
from optimargin.held_out.quadratic import change_alone, is_quadratic
from optimargin.held_out.refitter import Derivatives, Folds, HeldOut, Refitter, Solved

_FEW = 200  # rows of an output, up to which threads wait for the interpreter


def asked_for_some(targets):
    """Return whether there are outputs that have no weight for some of the samples."""
    return len(targets) > 1 and any((target.weight == 0).any() for target in targets)


def of_rows(K, K_test, own):
    """Return kernel values of some samples alone, and of the test samples with them."""
    square = np.ascontiguousarray(K[np.ix_(own, own)])
    return square, None if K_test is None else np.ascontiguousarray(K_test[:, own])


def _each(function, owns):
    """Return a function of each output, in threads where rows are many."""
    found: list[Any] = [None] * len(owns)

    def call(k):
        found[k] = function(k)

    are_many = np.mean([own.size for own in owns]) > _FEW
    for_each(call, range(len(owns)), np.inf if are_many else 0)
    return found


class OwnRowsRefitter(Refitter):
    """One refitter per output.

    Parameters
    ----------
    targets : list of Target
        Of zero weight where a sample takes no part.
    make : callable
        Given the rows of an output and its target on them, it returns a refitter of these alone.
    X : {ndarray, CSR} of shape (n_samples, n_features), default=None
        Features of all samples, where coefficients are those of features.
    """

    def __init__(self, targets, make, *, X=None):
        self.owns = [np.flatnonzero(target.weight) for target in targets]
        self.own_targets = [
            target.take(own, 1.0) for target, own in zip(targets, self.owns, strict=True)
        ]
        self.X = X
        self._make = make

    @cached_property
    def refitters(self):
        """The refitters of all outputs."""
        return [
            self._make(own, target) for own, target in zip(self.owns, self.own_targets, strict=True)
        ]

    def solve(self, objective):
        """Solve the problem of every output."""
        refitters = self.refitters  # made before threads ask for them
        return OwnRowsSolved(self, _each(lambda k: refitters[k].solve(objective), self.owns))

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        paths = [refitter.predict_path(objectives) for refitter in self.refitters]
        return np.concatenate(paths, axis=-1)

    def of_models(self, coef, intercept):
        """Return decision values of all samples by the models of all outputs."""
        return safe_sparse_dot(self.X, coef.T) + intercept


class KernelRowsRefitter(OwnRowsRefitter):
    """One refitter per output, over a kernel that may change.

    Parameters
    ----------
    targets : list of Target
    make : callable
        Given `K` and `K_test` of the rows of an output and its target, it returns a refitter.
    K : ndarray of shape (n_samples, n_samples)
        Kernel values of all samples.
    K_test : ndarray of shape (n_test, n_samples), default=None
    together : bool
        Whether quadratic losses of all outputs may be solved in one call.
    fit_intercept : bool
    """

    def __init__(self, targets, make, *, K, K_test=None, together, fit_intercept):
        super().__init__(targets, lambda own, target: make(*self._of_rows(own), target))
        self._kernel = (K, K_test, None, None)
        self._is_new = False  # to the refitters of outputs, if these were made
        self._fit_intercept = fit_intercept
        self._together = together and K_test is None

    @property
    def K(self):
        """Kernel values of all samples."""
        return self._kernel[0]

    @property
    def width_slope(self):
        """Derivatives of K by the logarithm of its width, or None."""
        return self._kernel[2]

    def _of_rows(self, own):
        return of_rows(*self._kernel[:2], own)

    @cached_property
    def groups(self):
        """Samples that take part in the same outputs, as those of a class do, and these outputs."""
        takes_part = np.zeros((len(self.owns), self.K.shape[0]), dtype=bool)
        for row, own in zip(takes_part, self.owns, strict=True):
            row[own] = True
        kinds, kind = np.unique(takes_part, axis=1, return_inverse=True)
        return [
            (np.flatnonzero(kind.ravel() == k), np.flatnonzero(outputs))
            for k, outputs in enumerate(kinds.T)
        ]

    @cached_property
    def problems(self):
        """The compiled problems of a quadratic loss, of all outputs."""
        targets = self.own_targets
        return QuadraticRows(
            self.K.shape[0],
            self.owns,
            [target.value for target in targets],
            [target.orientation for target in targets],
            [target.weight for target in targets],
            self._fit_intercept,
        )

    @property
    def n_threads(self):
        """The number of threads for the compiled problems."""
        return n_threads_for(sum(float(own.size) ** 3 for own in self.owns))

    def solve(self, objective):
        """Solve the problem of every output."""
        if self._together:
            losses = [objective.loss(target.scale) for target in self.own_targets]
            # An indefinite matrix is left to those who can deal with it.
            if is_quadratic(losses) and self.problems.solve(self.K, losses[0].C1, self.n_threads):
                return QuadraticRowsSolved(self)
        self._hand_on()
        return super().solve(objective)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        self._hand_on()
        return super().predict_path(objectives)

    def change_kernel(self, K, test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivatives by the logarithm of its width."""
        self._kernel = (K, test, slope, slope_test)
        self._is_new = True

    def _hand_on(self):
        """Let the refitters of all outputs know of a new kernel."""
        if not self._is_new:
            return
        slope, slope_test = self._kernel[2:]
        refitters = self.refitters

        def change(k):
            own = self.owns[k]
            slopes = (None, None) if slope is None else of_rows(slope, slope_test, own)
            refitters[k].change_kernel(*self._of_rows(own), *slopes)

        _each(change, self.owns)
        self._is_new = False

    def of_models(self, coef, intercept):
        """Return decision values of all samples by the models of all outputs."""
        out = np.repeat(intercept[None], self.K.shape[0], axis=0)
        for rows, outputs in self.groups:
            out[:, outputs] += self.K[:, rows] @ coef[np.ix_(outputs, rows)].T
        return out


class OwnRowsSolved(Solved):
    """What the refitters of all outputs have found."""

    def __init__(self, refitter, solved):
        self._refitter, self._owns, self._solved = refitter, refitter.owns, solved
        self.intercept = np.concatenate([each.intercept for each in solved])
        self.objective = np.concatenate([each.objective for each in solved])
        self.dual_gap = np.concatenate([each.dual_gap for each in solved])

    @cached_property
    def coef(self):
        """Coefficients of all samples, or of features."""
        if self._refitter.X is not None:
            return np.concatenate([each.coef for each in self._solved])
        theta = np.concatenate([each.coef[0] for each in self._solved])
        return _spread(theta, self._owns, self._refitter.K.shape[0])

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        out = self._refitter.of_models(self.coef, self.intercept)
        for k, (own, solved) in enumerate(zip(self._owns, self._solved, strict=True)):
            out[own, k] = solved.leave_one_out()[:, 0]
        return out

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        of_models = self._refitter.of_models(self.coef, self.intercept)
        out = np.stack([of_models] * folds.fold.shape[0])

        def leave_out(k):
            own = self._owns[k]
            of_own = Folds(np.ascontiguousarray(folds.fold[:, own]), folds.n_folds)
            held_out = self._solved[k].leave_folds_out(of_own)
            out[:, own, k] = held_out.decision[..., 0]
            return held_out

        found = _each(leave_out, self._owns)

        def derivatives(slope):
            # A criterion asks an output for its own rows alone.
            def of_output(k):
                own_slope = slope[:, self._owns[k], k : k + 1]
                return found[k].derivatives(np.ascontiguousarray(own_slope))

            return self._total(_each(of_output, self._owns))

        return HeldOut(out, derivatives)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        found = [solved.predict_test() for solved in self._solved]

        def derivatives(slope):
            return self._total(
                [
                    held_out.derivatives(np.ascontiguousarray(slope[:, k : k + 1]))
                    for k, held_out in enumerate(found)
                ]
            )

        return HeldOut(np.concatenate([each.decision for each in found], axis=1), derivatives)

    def _total(self, by_output):
        """Return the sum of derivatives, with the places of each output's rows."""
        pairs = [
            (own, left, coef)
            for own, each in zip(self._owns, by_output, strict=True)
            for _, left, coef in each.pairs
        ]
        by_loss = np.sum([each.by_loss for each in by_output], axis=0)
        return Derivatives(by_loss, sum(each.by_width for each in by_output), tuple(pairs))


class QuadraticRowsSolved(Solved):
    """What the compiled problems of a quadratic loss have found; valid until the next solve."""

    def __init__(self, refitter):
        self._refitter, self._problems = refitter, refitter.problems
        self.intercept = self._problems.intercept.copy()
        self.objective = self._problems.objective.copy()
        self.dual_gap = np.zeros(self.intercept.size)

    @cached_property
    def coef(self):
        """Coefficients of all samples."""
        return _spread(self._problems.theta, self._refitter.owns, self._refitter.K.shape[0])

    def leave_one_out(self):
        """Return decision values of shape (n_samples, n_outputs)."""
        out = self._refitter.of_models(self.coef, self.intercept)
        problems, owns = self._problems, self._refitter.owns
        values = np.concatenate([target.value for target in self._refitter.own_targets])
        output = np.repeat(np.arange(len(owns)), [own.size for own in owns])
        change = change_alone(problems.theta, problems.pivot, problems.ridge)
        out[np.concatenate(owns), output] = values - change
        return out

    def leave_folds_out(self, folds):
        """Return decision values without each fold, with derivatives."""
        refitter, n_threads = self._refitter, self._refitter.n_threads
        of_models = refitter.of_models(self.coef, self.intercept)
        out = np.stack([of_models] * folds.fold.shape[0])
        self._problems.leave_folds_out(folds.fold, folds.n_folds, out, n_threads)
        width_slope = refitter.width_slope

        def derivatives(slope):
            by_loss, by_kernel = self._problems.fold_gradient(
                folds.fold, folds.n_folds, np.ascontiguousarray(slope), n_threads
            )
            by_width = 0.0 if width_slope is None else float(np.vdot(by_kernel, width_slope))
            return Derivatives(by_loss, by_width, dense=by_kernel)

        return HeldOut(out, derivatives)

    def predict_test(self):
        """Raise an error: test samples are predicted output by output."""
        raise TypeError("There are no test samples.")


def _spread(theta, owns, n_samples):
    """Return coefficients of all samples from those of each output's rows."""
    coef = np.zeros((len(owns), n_samples))
    output = np.repeat(np.arange(len(owns)), [own.size for own in owns])
    coef[output, np.concatenate(owns)] = theta
    return coef
