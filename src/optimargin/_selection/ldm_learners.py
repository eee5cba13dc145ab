"""Training sets whose large margin distribution machines are solved one after another.

As in `optimargin._selection.learners`, a learner holds one training set, all its one-vs-rest
problems and the last solution. The hinge loss has no closed form for samples left out, so
these offer

    fit(lambda1, lambda2, C)      solve every problem
    predict_test()                decision values of the test samples it was given

In sample space one eigendecomposition of the Gram matrix serves every `lambda1`, `lambda2` only
moves the box of the dual variables, and each solve starts at the last one's solution. In
feature space a solve is a dozen small factorisations by the interior point method, which has
no use for a start: it pays where samples are many.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from optimargin._selection.learners import Learner, centred_products
from optimargin.problems import FeatureDesign, KernelDesign, LDMProblem, LinearGramDesign
from optimargin.problems.ldm_dual import CholeskyShrinkage, EighShrinkage, LDMDual, scaled_gram
from optimargin.solvers import InteriorPoint, LDMDualCD, Solution
from optimargin.solvers.ldm_dcd import INTERIOR_UP_TO
from optimargin.solvers.ldm_systems import SampleSystem

_TOL = 1e-9
_MAX_ITER = 1000
_GRAM_UP_TO = 1000  # samples up to which warm starts outweigh the size of their Gram matrix


def linear_ldm_learner(X, signs, weight, fit_intercept, center, X_test=None):
    """Return the learner of linear data with no more features than samples."""
    small = X.shape[0] <= _GRAM_UP_TO
    make = LDMSampleLearner.of_features if small else LDMFeatureLearner
    return make(X, signs, weight, fit_intercept, center, X_test)


class _LDMLearner(Learner):
    """What both spaces share: the problems and the use of their solutions."""

    n_test: int

    def __init__(self, design, signs, weight, fit_intercept):
        self.design = design
        self.signs = signs
        self.weight = weight
        self.fit_intercept = fit_intercept
        self.solutions = [None] * len(signs)

    @abstractmethod
    def _solve(self, k, problem):
        """Return the `Solution` of problem number `k`."""

    @abstractmethod
    def _decision(self, coef):
        """Return the decision values of the test samples, without the intercept."""

    def _problem(self, y, lambda1, lambda2, C):
        return LDMProblem(
            self.design, y, self.weight, C, lambda1, lambda2, fit_intercept=self.fit_intercept
        )

    def fit(self, lambda1, lambda2, C):
        for k, y in enumerate(self.signs):
            # A fold can lack a class: then there is nothing to learn about it.
            if np.ptp(y) > 0:
                self.solutions[k] = self._solve(k, self._problem(y, lambda1, lambda2, C))
        return self

    @property
    def coef(self):
        return np.array([s.coef for s in self.solutions])

    @property
    def dual_gap(self):
        return np.array([s.dual_gap for s in self.solutions])

    def predict_test(self):
        return np.stack(
            [
                np.full(self.n_test, y[0]) if s is None else self._decision(s.coef) + s.intercept
                for s, y in zip(self.solutions, self.signs, strict=True)
            ],
            axis=1,
        )


class LDMSampleLearner(_LDMLearner):
    """One-vs-rest problems over a design in sample space.

    Parameters
    ----------
    design : KernelDesign or LinearGramDesign
    signs : ndarray of shape (n_problems, n_samples)
        -1.0 or 1.0.
    weight : ndarray of shape (n_samples,)
        Positive, summing to one.
    fit_intercept : bool
    K_test : ndarray of shape (n_test, n_samples), default=None
    solver : LDMDualCD, default=None
    """

    def __init__(self, design, signs, weight, fit_intercept, K_test=None, solver=None):
        super().__init__(design, signs, weight, fit_intercept)
        self.K_test = K_test
        self.n_test = 0 if K_test is None else K_test.shape[0]
        self._solver = solver or LDMDualCD(tol=_TOL, max_iter=_MAX_ITER)
        self._make_shrinkage: type = EighShrinkage
        self._starts: list = [None] * len(signs)
        self._forget_kernel()

    @classmethod
    def of_kernel(cls, K, signs, weight, fit_intercept, K_test=None):
        """Return the learner of a Gram matrix."""
        return cls(KernelDesign(K), signs, weight, fit_intercept, K_test)

    @classmethod
    def of_features(cls, X, signs, weight, fit_intercept, center, X_test=None):
        """Return the learner of linear data through its Gram matrix."""
        K_test = None if X_test is None else centred_products(X_test, X, center)
        return cls(LinearGramDesign(X, center), signs, weight, fit_intercept, K_test)

    def change_kernel(self, K, K_test):
        """Go on with another kernel; one that is used once is not worth decomposing."""
        self.design, self.K_test = KernelDesign(K), K_test
        self._make_shrinkage = CholeskyShrinkage
        self._forget_kernel()

    def _forget_kernel(self):
        self._shrinkage = None
        self._duals: list = [None] * len(self.signs)

    def _solve(self, k, problem):
        if self._shrinkage is None:
            self._shrinkage = self._make_shrinkage(scaled_gram(problem))
        dual = self._duals[k]
        if dual is None or dual.problem.lambda1 != problem.lambda1:
            dual = LDMDual.of(problem, self._shrinkage)
        self._duals[k] = dual = replace(dual, problem=problem)
        point, n_iter = self._solver.solve_system(SampleSystem(dual), self._starts[k])
        center = 0.0
        if problem.fit_intercept:
            center = point.intercept + float(problem.balanced @ point.decision)
        self._starts[k] = point.box_dual, center
        return Solution.from_point(point, n_iter)

    def _decision(self, coef):
        return self.K_test @ coef


class LDMFeatureLearner(_LDMLearner):
    """One-vs-rest problems over features, fewer than the samples.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    signs, weight, fit_intercept
        As in `LDMSampleLearner`.
    center : ndarray of shape (n_features,) or None
        See `FeatureDesign`.
    X_test : {ndarray, CSR} of shape (n_test, n_features), default=None
    """

    def __init__(self, X, signs, weight, fit_intercept, center, X_test=None):
        super().__init__(FeatureDesign(X, center), signs, weight, fit_intercept)
        self._test_design = FeatureDesign(X[:0] if X_test is None else X_test, center)
        self.n_test = self._test_design.n_samples
        small = X.shape[1] <= INTERIOR_UP_TO
        self._solver = (InteriorPoint if small else LDMDualCD)(tol=_TOL, max_iter=_MAX_ITER)

    def _solve(self, k, problem):
        return self._solver.solve(problem)

    def _decision(self, coef):
        return self._test_design.decision(coef)
