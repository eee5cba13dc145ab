"""The LIBLINEAR authors' own Python package, primal Newton solver (-s 2)."""

import numpy as np
import scipy.sparse as sp

try:
    from liblinear.liblinearutil import problem, train
except ImportError:
    problem = None


def fit(X, y, C1, tol):
    if problem is None:
        raise ImportError("pip install liblinear-official")
    data = problem(y, sp.csr_matrix(X))
    model = train(data, f"-s 2 -c {C1 / y.size} -e {tol} -q")
    w = np.array(model.w[: X.shape[1]])
    return w if model.get_labels()[0] == 1 else -w
