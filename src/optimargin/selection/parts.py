"""What a held-out loss is made of: samples that are held out, and kernel values of any width.

With Z the rows divided by widths per feature, s_ab the squared distances of Z and K_ab = k(s_ab), a
function of held-out decision values has derivatives G_ab by K_ab: sums of adjoints times
coefficients over all models without a fold. With W = G k'(s) + (G k'(s))',

    d loss / d log gamma_j = sum_ab G_ab k'(s_ab) (z_aj - z_bj)^2
                           = sum_a z_aj^2 (sum_b W_ab) - sum_a z_aj (W Z)_aj,

for all features together one product of matrices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.held_out.search_designs import LandmarkFeatures
from optimargin.kernels import squared_distances
from optimargin.systems import Folds

_LN2 = float(np.log(2.0))


class CommonWidth:
    """Kernel values at one width after another.

    Parameters
    ----------
    distances : dict of str to ndarray
        Squared distances by what they are between, as in `Form.of`: "samples" and maybe "test", or
        "landmarks" (with the samples; in the precision of products over these) and "between" them.
    """

    def __init__(self, distances):
        self._distances = distances
        self.slopes: dict[str, np.ndarray] = {}

    def change(self, refitter, kernel, gradient):
        """Let a refitter go on with the kernel of another width; a gradient may be wanted."""
        of_landmarks = "landmarks" in self._distances
        self.slopes = {}
        if of_landmarks:
            refitter.change_design(None)  # frees its memory for the new one
        values = {name: kernel.of_distances(each) for name, each in self._distances.items()}
        if gradient:  # now: the values of landmarks will be overwritten
            self.slopes = {
                name: kernel.width_slope(self._distances[name], K) for name, K in values.items()
            }
        if of_landmarks:
            refitter.change_design(LandmarkFeatures(values["landmarks"], values["between"]))
        else:
            refitter.change_kernel(values["samples"], values.get("test"))

    def by_width(self, found):
        """Return derivatives by the binary logarithms of the widths, given `Derivatives`."""
        return np.array([_LN2 * found.by_width(self.slopes)])


class FeatureWidths:
    """The same at one width per feature.

    Parameters
    ----------
    kernel : RadialKernel
        Of width one.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    """

    def __init__(self, kernel, X):
        self._kernel = kernel
        self._center = _dense(X).mean(axis=0)
        self._rows = _dense(X) - self._center

    def change(self, refitter, gamma, gradient):
        """Let a refitter go on with another gamma per feature."""
        self._root = np.sqrt(gamma)
        self._Z = self._rows * self._root
        self._squares = squared_distances(self._Z)
        refitter.change_kernel(self._kernel.of_distances(self._squares))

    def by_width(self, found):
        """Return derivatives by the binary logarithms of the widths, given `Derivatives`."""
        G = found.by_kernel(len(self._Z))
        G *= self._kernel.profile_slope(self._squares)
        W = G + G.T
        by_log_gamma = W.sum(axis=1) @ self._Z**2 - np.einsum("ij,ij->j", self._Z, W @ self._Z)
        return -2 * _LN2 * by_log_gamma  # gamma falls with the square of the width

    def of_others(self, X):
        """Return kernel values of other rows with the samples."""
        Z = (_dense(X) - self._center) * self._root
        return self._kernel.of_distances(squared_distances(Z, self._Z))


@dataclass(frozen=True)
class Part:
    """Samples that are held out, by one refitter.

    Attributes
    ----------
    rows : ndarray of shape (n_held_out,)
    refitter : Refitter
    widths : CommonWidth, FeatureWidths or None
        Where there are any to change.
    folds : Folds or None
        To be left out in closed form; None predicts test samples.
    """

    rows: np.ndarray
    refitter: Any
    widths: Any = None
    folds: Folds | None = None

    def held_out(self, objective, width, gradient):
        """Return the held-out decision values at a point."""
        if self.widths is not None:
            self.widths.change(self.refitter, width, gradient)
        solved = self.refitter.solve(objective)
        return solved.predict_test() if self.folds is None else solved.leave_folds_out(self.folds)

    def derivatives(self, held_out, slope):
        """Return derivatives by the parameters of the loss, and by the logarithms of widths."""
        found = held_out.derivatives(slope.reshape(held_out.decision.shape))
        by_width = np.empty(0) if self.widths is None else self.widths.by_width(found)
        return found.by_loss, by_width

    def decide(self, objective, gamma, X):
        """Return decision values of other rows for the model of all samples, by their widths."""
        self.widths.change(self.refitter, gamma, gradient=False)
        solved = self.refitter.solve(objective)
        return self.widths.of_others(X) @ solved.coef.T + solved.intercept


def _dense(X) -> Any:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
