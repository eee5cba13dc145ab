"""A task defined here trains in memory and on chunks, and has closed forms."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from optimargin.chunks import ArrayChunks
from optimargin.held_out import leave_one_out
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.targets import Target
from optimargin.tasks import Task
from optimargin.training import Options, Request, rebuild, train
from optimargin.training.chunks import train_chunks
from optimargin.training.prepare import NoProgress
from optimargin.training.rebuild import solution_of

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [task]
@dataclass(frozen=True)
class PlainRegression(Task):
    """Targets are numbers: decision values above and below them count alike."""

    total: float
    largest_target: float = np.inf

    n_outputs = 1

    @classmethod
    def from_parts(cls, parts, **settings):
        return cls(sum(total for total, _ in parts), max(largest for _, largest in parts))

    @staticmethod
    def describe(y, weight):
        return float(weight.sum()), float(np.abs(y).max(initial=0.0))

    def encode(self, y, sample_weight=None):
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        return [Target(np.asarray(y, dtype=float), np.ones(len(y)), weight / self.total)]

    def part(self, y, sample_weight=None):
        return PlainRegression(len(y) if sample_weight is None else sample_weight.sum())

    def decode(self, scores):
        return scores[:, 0]

    @staticmethod
    def held_out_error(target, decision):
        return float(target.weight @ np.abs(target.value - decision))


# [end]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X @ RNG.normal(size=4) + np.sin(3 * X[:, 0]) + 5.0
SQUARES = ODM(20.0, 20.0, 0.0)  # symmetric and without a band: least squares
RIDGE = 60 / (2 * 20.0)


@pytest.mark.parametrize("solver", ["newton", "newton_cg", "dcd", "svrg"])
def test_least_squares_is_ridge_regression(solver):
    options = Options(solver=solver, tol=1e-12, max_iter=5000)
    fit = train(X, PlainRegression(60.0).encode(Y), SQUARES, options=options)
    expected = Ridge(alpha=RIDGE).fit(X, Y)
    np.testing.assert_allclose(fit.model.coef[0], expected.coef_, atol=1e-5)
    np.testing.assert_allclose(fit.model.scores(X)[:, 0], expected.predict(X), atol=1e-5)


def test_with_a_kernel_it_is_kernel_ridge_regression():
    options = Options(fit_intercept=False)
    task = PlainRegression(60.0)
    kernel = KernelChoice("rbf", 0.3)
    fit = train(X, task.encode(Y), SQUARES, kernel=kernel, options=options)
    expected = KernelRidge(alpha=RIDGE, kernel="rbf", gamma=0.3).fit(X, Y).predict(X)
    np.testing.assert_allclose(task.decode(fit.model.scores(X)), expected, rtol=1e-9)


def test_chunks_lead_to_the_same_model():
    found = train_chunks(
        ArrayChunks(X, Y, chunk_rows=25),
        PlainRegression,
        {},
        SQUARES,
        options=Options(tol=1e-12),
        progress=NoProgress(),
    )
    expected = Ridge(alpha=RIDGE).fit(X, Y)
    assert found.fit.dual_gap.max() <= 1e-12
    np.testing.assert_allclose(found.fit.model.coef[0], expected.coef_, atol=1e-6)


@pytest.mark.parametrize("C2", [20.0, 5.0])
def test_leave_one_out_equals_refits(C2):
    machine, options, task = ODM(20.0, C2, 0.2), Options(tol=1e-12), PlainRegression(60.0)
    fit = train(X, task.encode(Y), machine, options=options)
    rebuilt = rebuild(
        X,
        task.encode(Y),
        machine,
        kernel=None,
        options=options,
        model=fit.model,
        solved_by="newton",
    )
    problem, coef, intercept = solution_of(rebuilt, fit.model, 0, options, fit.objective_value[0])
    left_out = leave_one_out(problem, coef, intercept, exact=True)
    kept = ODM(20.0 * 59 / 60, C2 * 59 / 60, 0.2)
    for i in range(0, 60, 7):
        rest = np.arange(60) != i
        refit = train(X[rest], PlainRegression(59.0).encode(Y[rest]), kept, options=options)
        assert left_out[i] == pytest.approx(refit.model.scores(X[[i]])[0, 0], abs=1e-6)


def test_landmarks_are_doubled_by_the_held_out_error_of_the_task():
    options = Options(approximation="nystrom", n_components="auto")
    task, kernel = PlainRegression(60.0), KernelChoice("rbf", 0.3)
    fit = train(
        X,
        task.encode(Y),
        SQUARES,
        kernel=kernel,
        options=options,
        request=Request(held_out_error=task.held_out_error),
    )
    exact = train(X, task.encode(Y), SQUARES, kernel=kernel, options=Options())
    np.testing.assert_allclose(fit.model.scores(X), exact.model.scores(X), atol=1e-3)
