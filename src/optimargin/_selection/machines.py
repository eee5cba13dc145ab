"""The machines whose parameters can be chosen, and what choosing needs to know of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimargin._selection.ldm_learners import LDMSampleLearner, linear_ldm_learner
from optimargin._selection.learners import KernelLearner, LinearGramLearner, LinearLearner


@dataclass(frozen=True)
class Machine:
    """One kind of classifier.

    Attributes
    ----------
    paper : dict of str to ndarray
        The parameters, in the order in which a learner's `fit` takes them, with the values of
        the paper's experiments.
    smoother : dict of str to int
        Of equally good models the smoothest is taken. The parameters are compared in this
        order; 1 prefers small values, -1 large ones.
    bounds : ndarray of shape (n_parameters, 2)
        Of the search without a grid, in its own coordinates x.
    at : callable
        Turns those coordinates into a dict of parameters.
    has_closed_form : bool
        Whether its learners predict samples left out without fitting again, and
        differentiate held-out predictions.
    kernel_learner, feature_learner, wide_learner : callable
        Make a learner of a Gram matrix, of linear data, and of linear data with more features
        than samples.
    """

    paper: dict
    smoother: dict
    bounds: np.ndarray
    at: Callable
    has_closed_form: bool
    kernel_learner: Callable
    feature_learner: Callable
    wide_learner: Callable


def _odm_at(x):
    C1 = 2.0 ** x[0]
    return {"C1": float(C1), "C2": float(C1 * 2.0 ** x[1]), "D": float(x[2])}


def _ldm_at(x):
    C = 2.0 ** x[2]
    return {"lambda1": float(2.0 ** x[0]), "lambda2": float(C * 2.0 ** x[1]), "C": float(C)}


ODM = Machine(
    paper={"C1": 2.0 ** np.arange(11), "C2": 2.0 ** np.arange(11), "D": np.arange(6) / 10},
    smoother={"C1": 1, "C2": 1, "D": -1, "gamma": 1},
    # log2 C1, log2 C2 / C1, D
    bounds=np.array([[-1.0, 14.0], [-10.0, 0.0], [0.0, 0.6]]),
    at=_odm_at,
    has_closed_form=True,
    kernel_learner=KernelLearner,
    feature_learner=LinearLearner,
    wide_learner=LinearGramLearner,
)

LDM = Machine(
    # lambda1 comes first because changing it costs most.
    paper={
        "lambda1": 2.0 ** np.arange(-8, -1),
        "lambda2": 2.0 ** np.arange(-8, -1),
        "C": np.array([10.0, 50.0, 100.0]),
    },
    smoother={"C": 1, "lambda2": 1, "lambda1": -1, "gamma": 1},
    # log2 lambda1, log2 lambda2 / C, log2 C
    bounds=np.array([[-8.0, 8.0], [-10.0, 0.0], [-1.0, 14.0]]),
    at=_ldm_at,
    has_closed_form=False,
    kernel_learner=LDMSampleLearner.of_kernel,
    feature_learner=linear_ldm_learner,
    wide_learner=LDMSampleLearner.of_features,
)
