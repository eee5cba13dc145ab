"""The paper's algorithms as printed, for the solvers to be compared with."""

import numpy as np


def algorithm_1(K, y, C1, C2, D, *, n_epochs, seed=0):
    """Dual coordinate descent on the 2m variables of the paper, Algorithm 1.

    Dual   min over z, b >= 0   1/2 (z - b)' Q (z - b) + m |z|^2 / 4 C1 + m |b|^2 / 4 C2
                                + (D - 1) 1'z + (D + 1) 1'b

    The gradient is maintained, so that a step is one operation on vectors of length 2m.

    Returns
    -------
    dual : ndarray of shape (n_samples,)
        z - b.
    """
    m = y.size
    Q = K * np.outer(y, y)
    H = np.block([[Q, -Q], [-Q, Q]])
    H[np.diag_indices(2 * m)] += np.repeat([m / (2 * C1), m / (2 * C2)], m)
    gradient = np.repeat([D - 1.0, D + 1.0], m)
    alpha = np.zeros(2 * m)
    rng = np.random.default_rng(seed)
    for _ in range(n_epochs):
        for i in rng.permutation(2 * m):
            new = max(alpha[i] - gradient[i] / H[i, i], 0.0)
            if new != alpha[i]:
                gradient += (new - alpha[i]) * H[i]
                alpha[i] = new
    return alpha[:m] - alpha[m:]


def stochastic_gradient(X, y, C1, C2, D, w, i):
    """The gradient of one sample of Theorem 1: its mean over all i is that of the objective."""
    margin = y[i] * (X[i] @ w)
    slope = -2 * C1 * max(0.0, 1 - D - margin) + 2 * C2 * max(0.0, margin - 1 - D)
    return w + slope * y[i] * X[i]


def stochastic_gradient_descent(X, y, C1, C2, D, *, n_passes, seed=0):
    """Plain stochastic gradient descent with steps that fall as 1 / t, averaged at the end."""
    m, d = X.shape
    smoothness = 1 + 2 * max(C1, C2) * (X**2).sum(axis=1).max()
    w, mean = np.zeros(d), np.zeros(d)
    rng = np.random.default_rng(seed)
    n_steps = n_passes * m
    for t in range(n_steps):
        i = rng.integers(m)
        w = w - stochastic_gradient(X, y, C1, C2, D, w, i) / (t + 2 * smoothness)
        if t >= n_steps // 2:
            mean += w / (n_steps - n_steps // 2)
    return mean
