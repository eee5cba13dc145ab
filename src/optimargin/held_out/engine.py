"""The one place where data and an objective become a refitter."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.held_out.ldm import LDMFeatureRefitter, LDMSampleRefitter
from optimargin.held_out.newton import NewtonRefitter
from optimargin.held_out.refitter import FeatureTest, GramTest, own_rows
from optimargin.held_out.small import GramRefitter
from optimargin.objectives import AdditiveObjective
from optimargin.training.plan import plan_refitter

_ROUGH_TOL = 1e-9  # relative gap of problems whose products are in float32


@dataclass(frozen=True)
class KernelData:
    """Samples given by kernel values.

    Attributes
    ----------
    K : ndarray of shape (n_samples, n_samples), float64, C-contiguous
    K_test : ndarray of shape (n_test, n_samples) or None
    """

    K: np.ndarray
    K_test: np.ndarray | None = None


@dataclass(frozen=True)
class LinearData:
    """Samples given by features.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    center : ndarray of shape (n_features,) or None
        See `FeatureDesign`.
    X_test : {ndarray, CSR} of shape (n_test, n_features) or None
    """

    X: Any
    center: np.ndarray | None = None
    X_test: Any = None

    def test_products(self):
        """Return the inner products of test and training samples, centred."""
        if self.X_test is None:
            return None
        X, Y, center = self.X_test, self.X, self.center
        products = safe_sparse_dot(X, Y.T, dense_output=True).astype(np.float64, copy=False)
        if center is None:
            return products
        return products - (X @ center)[:, None] - Y @ center + center @ center


@dataclass(frozen=True)
class FoldedData:
    """Samples given by few features, of which folds will be left out.

    Attributes
    ----------
    design : FeatureSpaceDesign or None
        None where the features will be told later (`NewtonRefitter.change_design`).
    folds : Folds
    dtype : numpy dtype
        The precision of products over samples.
    """

    design: Any
    folds: Any
    dtype: Any


@singledispatch
def make_refitter(data, objective_type, targets, fit_intercept):
    """Return the refitter of some data.

    Parameters
    ----------
    data : KernelData, LinearData or FoldedData
    objective_type : type
        An `Objective`.
    targets : list of Target
        Of positive weights on the rows that an output is asked for.
    fit_intercept : bool
    """
    raise TypeError(f"No refitter takes a {type(data).__name__}.")


@make_refitter.register
def _(data: KernelData, objective_type, targets, fit_intercept):
    if plan_refitter(objective_type).compiled:
        return GramRefitter(data.K, targets, fit_intercept, data.K_test)
    test = None if data.K_test is None else GramTest(data.K_test)
    make: Any = NewtonRefitter
    if not issubclass(objective_type, AdditiveObjective):
        make = LDMSampleRefitter
    return make(GramDesign(data.K), targets, fit_intercept, test)


@make_refitter.register
def _(data: FoldedData, objective_type, targets, fit_intercept):
    rough = {"tol": _ROUGH_TOL, "exact": False} if data.dtype == np.float32 else {}
    return NewtonRefitter(data.design, targets, fit_intercept, folds=data.folds, **rough)


@make_refitter.register
def _(data: LinearData, objective_type, targets, fit_intercept):
    on_own_rows = own_rows(targets)[0] is not None
    plan = plan_refitter(objective_type, data.X, on_own_rows=on_own_rows)
    is_additive = issubclass(objective_type, AdditiveObjective)
    if plan.in_samples:
        gram = LinearGramDesign(data.X, data.center)
        K_test = data.test_products()
        if plan.compiled:
            return GramRefitter(gram.K, targets, fit_intercept, K_test, gram)
        make = NewtonRefitter if is_additive else LDMSampleRefitter
        return make(gram, targets, fit_intercept, None if K_test is None else GramTest(K_test))
    design = FeatureDesign(data.X, data.center)
    test_design = FeatureDesign(data.X[:0] if data.X_test is None else data.X_test, data.center)
    test = FeatureTest(test_design)
    if is_additive:
        return NewtonRefitter(design, targets, fit_intercept, test)
    return LDMFeatureRefitter(
        design, targets, fit_intercept, test, by_interior_point=plan.by_interior_point
    )
