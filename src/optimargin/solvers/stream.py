"""Stochastic gradient descent on a stream: one pass per batch, with steps that shrink.

With t samples seen the step is 1 / (t + t0), so that (Robbins and Monro) the coefficients converge
to the minimiser of 1/2 |w|^2 + E[l(s (t - x'w - b))] over the distribution that the batches are
drawn from; for w the expected error of the objective falls as O(1 / t).

Reference: S. Shalev-Shwartz et al., Pegasos: primal estimated sub-gradient solver for SVM,
Math. Program. 127 (2011).
"""

from dataclasses import dataclass

import numpy as np

from optimargin._core._svrg import StochasticPass
from optimargin.designs import FeatureDesign
from optimargin.targets import Target

_STEPS_OF_EQUAL_LENGTH = 64  # between two updates of the step length


@dataclass(frozen=True)
class StreamState:
    """What is known after some batches.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    n_seen : int
        Samples so far.
    largest_norm : float
        The largest squared norm of a sample, times its weight: it bounds the curvature.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_seen: int = 0
    largest_norm: float = 0.0

    @classmethod
    def begin(cls, intercepts, n_features, dtype) -> "StreamState":
        """Return the state before the first batch: no coefficients, and these intercepts."""
        coef = np.zeros((len(intercepts), n_features), dtype=dtype)
        return cls(coef, np.array(intercepts, dtype=dtype))


def follow(state, X, targets, loss, *, fit_intercept, seed) -> StreamState:
    """Return the state after one more batch.

    Parameters
    ----------
    state : StreamState
    X : {ndarray, CSR} of shape (n_samples, n_features)
    targets : list of Target
        One per output, their weights not normalised.
    loss : Loss
    fit_intercept : bool
    seed : int

    Returns
    -------
    state : StreamState
    """
    design = FeatureDesign(X)
    n_samples = design.n_samples
    weight = targets[0].weight
    norm = max(state.largest_norm, (weight * (design.squared_norms + fit_intercept)).max())
    zeros = np.zeros(n_samples)
    coef, intercept = state.coef.copy(), state.intercept.copy()
    for k, target in enumerate(targets):
        # A pass scales gradients by the number of samples, as for weights that sum to one.
        share = np.maximum(target.weight, np.finfo(float).tiny) / n_samples
        rule = loss.coordinate_step(Target(target.value, target.orientation, share))
        passes = StochasticPass(rule, n_samples, seed=seed + state.n_seen)
        w, b = coef[k].astype(np.float64), float(intercept[k])
        for seen in range(0, n_samples, _STEPS_OF_EQUAL_LENGTH):
            eta = 1.0 / (1 + state.n_seen + seen + loss.smoothness * norm)
            scale, b = passes.run(
                design.rows_of(w),
                zeros,
                zeros,
                b,
                eta,
                eta if fit_intercept else 0.0,
                min(_STEPS_OF_EQUAL_LENGTH, n_samples - seen),
            )
            w *= scale
        coef[k], intercept[k] = w, b
    return StreamState(coef, intercept, state.n_seen + n_samples, norm)
