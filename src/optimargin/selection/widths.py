"""The kernel values that a loss is made of, and its slopes by the widths of the kernel.

With Z the rows divided by a width per feature, s_ab the squared distances of Z and K_ab = k(s_ab),
a held-out score has derivatives G_ab by K_ab: sums of adjoints times coefficients over all models
without a fold. With W = G k'(s) + (G k'(s))',

    d score / d log gamma_j = sum_ab G_ab k'(s_ab) (z_aj - z_bj)^2
                            = sum_a z_aj^2 (sum_b W_ab) - sum_a z_aj (W Z)_aj,

for all features together one product of matrices. A width that all features share needs no G.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.held_out.search_designs import LandmarkFeatures
from optimargin.kernels import squared_distances

_LN2 = float(np.log(2.0))


class Widths:
    """Kernel values of one refitter, at one width after another.

    Parameters
    ----------
    kernel : KernelChoice
        Radial.
    distances : dict of str to ndarray
        Squared distances by what they are between, as in `Form.of`: "samples" and maybe "test", or
        "landmarks" (with the samples; in the precision of products over these) and "between" them.
    rows : dict of str to ndarray, default=None
        For a width per feature, in place of distances: "samples" and maybe "test".

    Attributes
    ----------
    slopes : dict of str to ndarray
        The derivatives of the last kernel values by the logarithm of the common width, if wanted.
    """

    def __init__(self, kernel, distances, rows=None):
        self._kernel, self._distances, self._rows = kernel, distances, rows

    @classmethod
    def per_feature(cls, kernel, X, X_test=None):
        """Return those of a width per feature.

        Parameters
        ----------
        kernel : KernelChoice
        X : {ndarray, CSR} of shape (n_samples, n_features)
        X_test : {ndarray, CSR} of shape (n_test, n_features), default=None
        """
        rows = {"samples": _dense(X)}
        if X_test is not None:
            rows["test"] = _dense(X_test)
        center = rows["samples"].mean(axis=0)
        return cls(kernel, None, {name: each - center for name, each in rows.items()})

    def values(self, gamma, gradient=False):
        """Return kernel values by what they are between.

        Parameters
        ----------
        gamma : float or ndarray of shape (n_features,)
        gradient : bool
            Whether slopes will be asked for.
        """
        if self._rows is None:
            kernel, squares = self._kernel.at(gamma), self._distances
        else:
            kernel = self._kernel.at(1.0)
            Z = {name: rows * np.sqrt(gamma) for name, rows in self._rows.items()}
            squares = {"samples": squared_distances(Z["samples"])}
            if "test" in Z:
                squares["test"] = squared_distances(Z["test"], Z["samples"])
            self._last = kernel, Z["samples"], squares["samples"]
        values = {name: kernel.of_distances(each) for name, each in squares.items()}
        self.slopes = {}
        if gradient and self._rows is None:  # now: the values of landmarks will be overwritten
            self.slopes = {name: kernel.width_slope(squares[name], K) for name, K in values.items()}
        return values

    def change(self, refitter, gamma, gradient):
        """Let a refitter go on with other kernel values; see `values`."""
        if self._distances is not None and "landmarks" in self._distances:
            refitter.change_design(None)  # frees its memory for the new one
            values = self.values(gamma, gradient)
            refitter.change_design(LandmarkFeatures(values["landmarks"], values["between"]))
        else:
            values = self.values(gamma, gradient)
            refitter.change_kernel(values["samples"], values.get("test"))

    def by_width(self, found):
        """Return derivatives by the binary logarithms of the widths.

        Parameters
        ----------
        found : Derivatives
            By the last kernel values, those between samples alone for a width per feature.

        Returns
        -------
        by_width : ndarray of shape (1,) or (n_features,)
        """
        if self._rows is None:
            return np.array([_LN2 * found.by_width(self.slopes)])
        kernel, Z, squares = self._last
        G = found.by_kernel(len(Z))
        G *= kernel.profile_slope(squares)
        W = G + G.T
        by_log_gamma = W.sum(axis=1) @ Z**2 - np.einsum("ij,ij->j", Z, W @ Z)
        return -2 * _LN2 * by_log_gamma  # gamma falls with the square of the width


def _dense(X) -> Any:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
