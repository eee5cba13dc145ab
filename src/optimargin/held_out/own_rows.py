"""Refitters of outputs that are asked for some of the samples only, as pairs of classes are.

Every output has a refitter of its own rows. A sample that takes no part in an output is held out of
it anyway: its value is that of the model itself.
"""

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._threads import for_each
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
    owns : list of ndarray of shape (n_rows,)
        The rows of each output.
    refitters : list of Refitter
        Of one output each, over its rows.
    K : ndarray of shape (n_samples, n_samples), default=None
        Kernel values of all samples.
    X : {ndarray, CSR} of shape (n_samples, n_features), default=None
        Features of all samples, where coefficients are those of features.
    """

    def __init__(self, owns, refitters, *, K=None, X=None):
        self.owns, self.refitters = owns, refitters
        self.K, self.X = K, X

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

    def solve(self, objective):
        """Solve the problem of every output."""
        solved = _each(lambda k: self.refitters[k].solve(objective), self.owns)
        return OwnRowsSolved(self, solved)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        paths = [refitter.predict_path(objectives) for refitter in self.refitters]
        return np.concatenate(paths, axis=-1)

    def change_kernel(self, K, test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivatives by the logarithm of its width."""
        self.K = K

        def change(k):
            own = self.owns[k]
            slopes = (None, None) if slope is None else of_rows(slope, slope_test, own)
            self.refitters[k].change_kernel(*of_rows(K, test, own), *slopes)

        _each(change, self.owns)


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
        coef = np.zeros((len(self._owns), self._refitter.K.shape[0]))
        for row, own, each in zip(coef, self._owns, self._solved, strict=True):
            row[own] = each.coef[0]
        return coef

    def _of_models(self):
        """Return decision values of all samples by the models of all, for those without a part."""
        refitter = self._refitter
        if refitter.X is not None:
            return safe_sparse_dot(refitter.X, self.coef.T) + self.intercept
        out = np.repeat(self.intercept[None], refitter.K.shape[0], axis=0)
        for rows, outputs in refitter.groups:
            out[:, outputs] += refitter.K[:, rows] @ self.coef[np.ix_(outputs, rows)].T
        return out

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        out = self._of_models()
        for k, (own, solved) in enumerate(zip(self._owns, self._solved, strict=True)):
            out[own, k] = solved.leave_one_out()[:, 0]
        return out

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        out = np.stack([self._of_models()] * folds.fold.shape[0])

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
