"""A design defined here works with every solver, leave-one-out and tuning."""

from dataclasses import replace

import numpy as np
import pytest

from optimargin import LinearODMClassifier
from optimargin.designs import FeatureDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.held_out import leave_one_out
from optimargin.held_out.refitter import NewtonRefitter
from optimargin.objectives import ODM
from optimargin.solvers import SOLVERS
from optimargin.systems import Folds
from optimargin.tasks import Classification
from optimargin.training import Options, Request, plan_fit, train
from optimargin.training.designs import DESIGNS, MadeDesign
from tests.cases import labels_target, make_problem, two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [design]
class SquaresDesign(FeatureSpaceDesign):
    """Features and their squares, which are never all in memory."""

    def __init__(self, X):
        self.X = X
        self.n_samples, self.n_coef = X.shape[0], 2 * X.shape[1]

    def feature_rows(self, rows):
        return np.hstack([self.X[rows], self.X[rows] ** 2])

    def to_features(self, v):
        """Return the coefficients of features and squares, and no shift of the intercept."""
        return v, 0.0


def make_squares(plan, kernel, X, weight, fit_intercept, notify):
    return MadeDesign(SquaresDesign(X))


# [end]
X, Y = two_classes(70, 3)
WRITTEN_OUT = np.hstack([X, X**2])
MACHINE = ODM(32.0, 8.0, 0.1)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(DESIGNS, "squares", make_squares)


def trained(solver, design):
    task = Classification.from_labels(Y)
    options = Options(solver=solver, tol=1e-10)
    data = X if design == "squares" else WRITTEN_OUT
    plan = replace(plan_fit(data, MACHINE, None, options), design=design)
    return train(data, task.encode(Y), MACHINE, options=options, request=Request(plan=plan))


@pytest.mark.parametrize(
    "solver", sorted(name for name in SOLVERS if SOLVERS[name].works_with(SquaresDesign))
)
def test_every_solver_finds_the_model_of_features_written_out(solver):
    fit = trained(solver, "squares")
    assert fit.dual_gap.max() <= 1e-10
    np.testing.assert_allclose(fit.model.coef, trained("newton", "features").model.coef, atol=1e-4)


def test_leave_one_out_is_that_of_features_written_out():
    fit = trained("newton", "squares")
    coef, intercept = fit.model.coef[0], fit.model.intercept[0]
    problem = make_problem(MACHINE.loss(), SquaresDesign(X), Y, fit_intercept=True)
    expected = LinearODMClassifier(32.0, 8.0, 0.1).fit(WRITTEN_OUT, Y).loo_decision_function()
    np.testing.assert_allclose(leave_one_out(problem, coef, intercept), expected, atol=1e-7)


def test_held_out_scores_and_their_slopes_are_those_of_features_written_out():
    folds = Folds.stratified((Y > 0).astype(int), 5, 2, np.random.RandomState(0))
    slope = np.random.default_rng(0).normal(size=(2, 70, 1))
    found = []
    for design in (SquaresDesign(X), FeatureDesign(WRITTEN_OUT)):
        refitter = NewtonRefitter(design, [labels_target(Y)], True)
        held_out = refitter.solve(MACHINE).leave_folds_out(folds)
        found.append((held_out.decision, held_out.derivatives(slope).by_loss))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-7)
