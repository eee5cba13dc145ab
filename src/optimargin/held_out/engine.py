"""The one place where data and an objective become a refitter."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.extmath import safe_sparse_dot

from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.held_out.compiled import FeatureRefitter, GramRefitter
from optimargin.held_out.few_dimensions import FewDimensionsRefitter, FewFeatures, LandmarkData
from optimargin.held_out.ldm import LDMFeatureRefitter, LDMSampleRefitter
from optimargin.held_out.own_rows import (
    KernelRowsRefitter,
    OwnRowsRefitter,
    asked_for_some,
)
from optimargin.held_out.refitter import FeatureTest, GramTest, NumpyRefitter
from optimargin.objectives import AdditiveObjective
from optimargin.training.plan import plan_refitter

# Samples up to which pairs of classes, which are small, are solved by inner products.
_INNER_PRODUCTS_UP_TO = 2000


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


@singledispatch
def make_refitter(data, objective_type, targets, fit_intercept):
    """Return the refitter of some data.

    Parameters
    ----------
    data : KernelData, LinearData, LandmarkData or FewFeatures
    objective_type : type
        An `Objective`.
    targets : list of Target
        Of positive weights.
    fit_intercept : bool
    """
    raise TypeError(f"No refitter takes a {type(data).__name__}.")


@make_refitter.register
def _(data: KernelData, objective_type, targets, fit_intercept):
    if asked_for_some(targets):

        def of_output(K, K_test, target):
            return make_refitter(KernelData(K, K_test), objective_type, [target], fit_intercept)

        return KernelRowsRefitter(
            targets,
            of_output,
            K=data.K,
            K_test=data.K_test,
            together=plan_refitter(objective_type).compiled,
            fit_intercept=fit_intercept,
        )
    test = None if data.K_test is None else GramTest(data.K_test)
    if not issubclass(objective_type, AdditiveObjective):
        return LDMSampleRefitter(GramDesign(data.K), targets, fit_intercept, test)
    if plan_refitter(objective_type).compiled:
        return GramRefitter(data.K, targets, fit_intercept, data.K_test)
    return NumpyRefitter(GramDesign(data.K), targets, fit_intercept, test)


@make_refitter.register
def _(data: LandmarkData | FewFeatures, objective_type, targets, fit_intercept):
    return FewDimensionsRefitter(data, targets, fit_intercept)


@make_refitter.register
def _(data: LinearData, objective_type, targets, fit_intercept):
    if asked_for_some(targets):
        return _linear_own_rows(data, objective_type, targets, fit_intercept)
    plan = plan_refitter(objective_type, data.X.shape, issparse(data.X))
    is_additive = issubclass(objective_type, AdditiveObjective)
    if plan.in_samples:
        gram = LinearGramDesign(data.X, data.center)
        K_test = data.test_products()
        if plan.compiled:
            return GramRefitter(gram.K, targets, fit_intercept, K_test, gram)
        make = NumpyRefitter if is_additive else LDMSampleRefitter
        return make(gram, targets, fit_intercept, None if K_test is None else GramTest(K_test))
    design = FeatureDesign(data.X, data.center)
    test_design = FeatureDesign(data.X[:0] if data.X_test is None else data.X_test, data.center)
    test = FeatureTest(test_design)
    if not is_additive:
        return LDMFeatureRefitter(
            design, targets, fit_intercept, test, by_interior_point=plan.by_interior_point
        )
    if plan.compiled:
        return FeatureRefitter(design, targets, fit_intercept, test, test_design)
    return NumpyRefitter(design, targets, fit_intercept, test)


def _linear_own_rows(data, objective_type, targets, fit_intercept):
    """Return the refitter of outputs on their own rows: by inner products, of few samples."""
    if data.X.shape[0] <= _INNER_PRODUCTS_UP_TO:
        K = LinearGramDesign(data.X, data.center).K
        gram = KernelData(K, data.test_products())
        return make_refitter(gram, objective_type, targets, fit_intercept)

    def of_output(own, target):
        rows = LinearData(data.X[own], data.center, data.X_test)
        return make_refitter(rows, objective_type, [target], fit_intercept)

    return OwnRowsRefitter(targets, of_output, X=data.X)
