"""Refitters of outputs that are asked for some of the samples only, as pairs of classes are.

Every output has a refitter of its own rows. A sample that takes no part in an output is held out of
it anyway: its value is that of the model itself.
"""

from dataclasses import replace

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin.held_out.refitter import Derivatives, Folds, HeldOut, Refitter, Solved


def asked_for_some(targets):
    """Return whether there are outputs that have no weight for some of the samples."""
    return len(targets) > 1 and any((target.weight == 0).any() for target in targets)


class KernelPart:
    """The rows of one output, given by kernel values."""

    def __init__(self, K, K_test, own):
        self.own = own
        self.others = np.setdiff1d(np.arange(K.shape[0]), own)
        self.change(K, K_test)

    def change(self, K, K_test):
        """Take the values of another kernel."""
        own = self.own
        self.K = np.ascontiguousarray(K[np.ix_(own, own)])
        self.K_test = None if K_test is None else np.ascontiguousarray(K_test[:, own])
        self._between = K[np.ix_(self.others, own)]

    def decide_others(self, coef):
        """Return decision values, without the intercept, of samples that take no part."""
        return self._between @ coef


class LinearPart:
    """The rows of one output, given by features."""

    def __init__(self, X, own):
        self.own = own
        self.others = np.setdiff1d(np.arange(X.shape[0]), own)
        self._X = X

    def decide_others(self, coef):
        """Return decision values, without the intercept, of samples that take no part."""
        return safe_sparse_dot(self._X[self.others], coef)


class OwnRowsRefitter(Refitter):
    """One refitter per output.

    Parameters
    ----------
    parts : list of KernelPart or LinearPart
    refitters : list of Refitter
        Of one output each, over the rows of its part.
    n_samples : int
    """

    def __init__(self, parts, refitters, n_samples):
        self.parts, self.refitters, self.n_samples = parts, refitters, n_samples

    def solve(self, objective):
        """Solve the problem of every output."""
        return OwnRowsSolved(self, [refitter.solve(objective) for refitter in self.refitters])

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        paths = [refitter.predict_path(objectives) for refitter in self.refitters]
        return np.concatenate(paths, axis=-1)

    def change_kernel(self, K, test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivatives by the logarithm of its width."""
        for part, refitter in zip(self.parts, self.refitters, strict=True):
            part.change(K, test)
            slopes = KernelPart(slope, slope_test, part.own) if slope is not None else None
            refitter.change_kernel(
                part.K,
                part.K_test,
                None if slopes is None else slopes.K,
                None if slopes is None else slopes.K_test,
            )


class OwnRowsSolved(Solved):
    """What the refitters of all outputs have found."""

    def __init__(self, refitter, solved):
        self._parts, self._solved = refitter.parts, solved
        self._n_samples = refitter.n_samples
        self.intercept = np.concatenate([each.intercept for each in solved])
        self.objective = np.concatenate([each.objective for each in solved])
        self.dual_gap = np.concatenate([each.dual_gap for each in solved])

    @property
    def coef(self):
        """Coefficients of all samples, or of features."""
        if isinstance(self._parts[0], LinearPart):
            return np.concatenate([each.coef for each in self._solved])
        coef = np.zeros((len(self._parts), self._n_samples))
        for row, part, each in zip(coef, self._parts, self._solved, strict=True):
            row[part.own] = each.coef[0]
        return coef

    def _spread(self, k, own, out):
        """Put values of the rows of output `k`, the last axis but one, among those of others."""
        part, solved = self._parts[k], self._solved[k]
        out[..., part.own, k] = own
        out[..., part.others, k] = part.decide_others(solved.coef[0]) + solved.intercept[0]

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        out = np.empty((self._n_samples, len(self._parts)))
        for k, solved in enumerate(self._solved):
            self._spread(k, solved.leave_one_out()[:, 0], out)
        return out

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        out = np.empty((*folds.fold.shape, len(self._parts)))
        found = []
        for k, (part, solved) in enumerate(zip(self._parts, self._solved, strict=True)):
            own = Folds(np.ascontiguousarray(folds.fold[:, part.own]), folds.n_folds)
            found.append(solved.leave_folds_out(own))
            self._spread(k, found[-1].decision[..., 0], out)

        def derivatives(slope):
            # A criterion asks an output for its own rows alone.
            by_output = [
                held_out.derivatives(np.ascontiguousarray(slope[:, part.own, k : k + 1]))
                for k, (part, held_out) in enumerate(zip(self._parts, found, strict=True))
            ]
            return self._total(by_output)

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
        total = Derivatives(np.zeros_like(by_output[0].by_loss))
        for part, each in zip(self._parts, by_output, strict=True):
            pairs = tuple((part.own, left, coef) for _, left, coef in each.pairs)
            total += replace(each, pairs=pairs)
        return total
