"""The one place where data and an objective become a refitter."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.designs.gram import centred_products
from optimargin.held_out.compiled import CompiledRefitter
from optimargin.held_out.ldm import MAX_ITER, TOL, LDMRefitter
from optimargin.held_out.refitter import GramTest, NewtonRefitter, have_own_rows
from optimargin.objectives import AdditiveObjective
from optimargin.solvers import InteriorPoint
from optimargin.training.plan import plan_refitter


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

    X = None  # rows are not known

    def made(self, plan):
        """Return the design, and the test samples."""
        return GramDesign(self.K), None if self.K_test is None else GramTest(self.K_test)


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

    def made(self, plan):
        """Return the design that a plan asks for, and the test samples."""
        if not plan.in_samples:
            X_test = self.X[:0] if self.X_test is None else self.X_test
            return FeatureDesign(self.X, self.center), FeatureDesign(X_test, self.center)
        design = LinearGramDesign(self.X, self.center)
        if self.X_test is None:
            return design, None
        return design, GramTest(centred_products(self.X_test, self.X, self.center))


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
    given: dict = {"targets": targets, "fit_intercept": fit_intercept}
    if isinstance(data, FoldedData):
        # Rounding of products in float32 is more than what a finer solution would gain.
        rough: Any = {"tol": TOL, "exact": False} if data.dtype == np.float32 else {}
        return NewtonRefitter(data.design, **given, folds=data.folds, **rough)
    if not isinstance(data, KernelData | LinearData):
        raise TypeError(f"No refitter takes a {type(data).__name__}.")
    plan = plan_refitter(objective_type, data.X, on_own_rows=have_own_rows(targets))
    design, given["test"] = data.made(plan)
    in_features = isinstance(design, FeatureSpaceDesign)
    if issubclass(objective_type, AdditiveObjective):
        compiled = plan.compiled and not in_features
        return (CompiledRefitter if compiled else NewtonRefitter)(design, **given)
    by_interior_point = in_features and plan.by_interior_point
    solver = InteriorPoint(tol=TOL, max_iter=MAX_ITER) if by_interior_point else None
    return LDMRefitter(design, **given, solver=solver)
