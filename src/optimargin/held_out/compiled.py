"""Refitters of the band loss that run without the interpreter."""

from typing import Any

import numpy as np

from optimargin._core._feature_newton import FeatureNewton
from optimargin._core._leave_out import LeaveOutNewton
from optimargin.held_out.quadratic import QuadraticSolved, is_quadratic
from optimargin.held_out.refitter import (
    Derivatives,
    HeldOut,
    NumpyRefitter,
    Refitter,
    Solved,
)
from optimargin.solvers import Newton

_SMALL = 1000  # samples up to which one output alone is solved faster without the interpreter


def _numbers(objectives, scale):
    losses = [objective.loss(scale) for objective in objectives]
    return np.array([(loss.C1, loss.C2, loss.D) for loss in losses])


class GramRefitter(Refitter):
    """Problems of the band loss over one Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), float64, C-contiguous
        Changed in place when the kernel changes.
    targets : list of Target
        Of positive weights.
    fit_intercept : bool
    K_test : ndarray of shape (n_test, n_samples), default=None
    design : LinearGramDesign, default=None
        For linear data: turns coefficients of samples into those of features.
    """

    def __init__(self, K, targets, fit_intercept, K_test=None, design=None):
        self.K, self.K_test = K, K_test
        self.targets, self.fit_intercept = targets, fit_intercept
        self.weights = [target.weight for target in targets]
        self.scales = [target.scale for target in targets]
        self.design = design
        self.width_slope = self.test_width_slope = None
        self.problems = [
            LeaveOutNewton(K, t.value, t.orientation, t.weight, fit_intercept) for t in targets
        ]

    def solve(self, objective):
        """Solve the problem of every output."""
        losses = [objective.loss(scale) for scale in self.scales]
        is_alone = len(losses) == 1 and self.K.shape[0] <= _SMALL
        if is_quadratic(losses) and not is_alone:
            return QuadraticGramSolved(self, losses[0])
        for problem, loss in zip(self.problems, losses, strict=True):
            problem.solve(loss.C1, loss.C2, loss.D)
        return GramSolved(self, losses)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        n_points, n_samples = len(objectives), self.weights[0].size
        decisions = np.empty((n_points, self.K_test.shape[0], len(self.problems)))
        theta, intercept = np.empty((n_points, n_samples)), np.empty((n_points, 1))
        for k, problem in enumerate(self.problems):
            points = _numbers(objectives, self.scales[k])
            problem.solve_path(points, theta, intercept[:, 0])
            decisions[..., k] = theta @ self.K_test.T + intercept
        return decisions

    def change_kernel(self, K, test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivatives by the logarithm of its width."""
        np.copyto(self.K, K)
        self.K_test = test
        self.width_slope, self.test_width_slope = slope, slope_test
        for problem in self.problems:
            problem.refresh()


class QuadraticGramSolved(QuadraticSolved):
    """The solutions of a quadratic loss, told as those of the compiled problems are."""

    def __init__(self, refitter, loss):
        super().__init__(refitter.K, refitter.targets, refitter.fit_intercept, loss)
        self._refitter = refitter

    def _in_features(self):
        to_features = self._refitter.design.to_features
        return [to_features(np.ascontiguousarray(theta)) for theta in self.theta.T]

    @property
    def coef(self):
        """Coefficients of samples, or of features for linear data."""
        if self._refitter.design is None:
            return super().coef
        return np.array([coef for coef, _ in self._in_features()])

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        if self._refitter.design is None:
            return super().intercept
        return self.offset + [shift for _, shift in self._in_features()]

    def leave_folds_out(self, folds, width_slope=None):
        """Return closed-form decision values, with derivatives."""
        return super().leave_folds_out(folds, self._refitter.width_slope)

    def predict_test(self, K_test=None, width_slope=None, slope_test=None):
        """Return decision values of the test samples, with derivatives."""
        refitter = self._refitter
        return super().predict_test(
            refitter.K_test, refitter.width_slope, refitter.test_width_slope
        )


class GramSolved(Solved):
    """The compiled problems after a solve; see `Refitter` for how long it is valid."""

    def __init__(self, refitter, losses):
        self._refitter, self._losses = refitter, losses
        self._problems = refitter.problems
        self.objective = np.array([problem.objective for problem in self._problems])
        self.dual_gap = np.zeros(len(self._problems))

    @property
    def coef(self):
        """Coefficients of samples, or of features for linear data."""
        design = self._refitter.design
        theta = [problem.theta for problem in self._problems]
        return np.array(theta if design is None else [design.to_features(t)[0] for t in theta])

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        design = self._refitter.design
        found = np.array([problem.intercept for problem in self._problems])
        if design is None:
            return found
        return found + [design.to_features(problem.theta)[1] for problem in self._problems]

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        out = np.empty((len(self._problems), self._refitter.weights[0].size))
        for problem, values in zip(self._problems, out, strict=True):
            problem.leave_one_out(values)
        return out.T

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        out = np.empty((len(self._problems), *folds.fold.shape))
        models = [
            problem.leave_folds_out(folds.fold, folds.n_folds, values)
            for problem, values in zip(self._problems, out, strict=True)
        ]
        K, width_slope = self._refitter.K, self._refitter.width_slope

        def derivatives(slope):
            total = Derivatives(np.zeros(3))
            n_samples = folds.fold.shape[1]
            members = folds.fold[:, None, :] == np.arange(folds.n_folds)[:, None]
            for k, problem in enumerate(self._problems):
                of_output = np.ascontiguousarray(slope[..., k])
                of_model = (members * of_output[:, None, :]).reshape(-1, n_samples)
                by_loss, adjoint = problem.fold_gradient(models[k], of_output, of_model @ K)
                by_width = 0.0
                if width_slope is not None:
                    by_width = float(np.vdot(adjoint @ width_slope, models[k].coefficients))
                total += Derivatives(
                    by_loss, by_width, ((slice(None), adjoint, models[k].coefficients),)
                )
            return total

        return HeldOut(np.moveaxis(out, 0, -1), derivatives)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        refitter = self._refitter
        K_test = refitter.K_test
        decision = np.stack(
            [K_test @ problem.theta + problem.intercept for problem in self._problems], axis=1
        )

        def derivatives(slope):
            total = Derivatives(np.zeros(3))
            for k, problem in enumerate(self._problems):
                of_output = np.ascontiguousarray(slope[:, k])
                adjoint = problem.adjoint(of_output @ K_test, of_output.sum())
                by_width = 0.0
                if refitter.width_slope is not None:
                    by_width = float(of_output @ (refitter.test_width_slope @ problem.theta))
                    by_width -= float(adjoint @ (refitter.width_slope @ problem.theta))
                total += Derivatives(self._by_loss(k, adjoint), by_width)
            return total

        return HeldOut(decision, derivatives)

    def _by_loss(self, k, adjoint):
        """Return derivatives by log C1, log C2 and D: aims and ridges ``1 / (2 C w)`` change."""
        problem, loss = self._problems[k], self._losses[k]
        active = problem.side != 0
        above = problem.side[active] > 0
        penalty = np.where(above, loss.C2, loss.C1)
        ridge = 1 / (2 * penalty * self._refitter.weights[k][active])
        by_ridge = adjoint[active] * problem.theta[active] * ridge
        outwards = problem.orientation[active] * problem.side[active]
        return np.array([by_ridge[~above].sum(), by_ridge[above].sum(), adjoint[active] @ outwards])


class FeatureRefitter(NumpyRefitter):
    """Problems of the band loss over few dense features.

    Solves are compiled; what is asked of them afterwards is that of `NumpyRefitter`.

    Parameters
    ----------
    design : FeatureDesign
    targets, fit_intercept
        As in `NumpyRefitter`.
    test_design : FeatureDesign, default=None
    test : FeatureTest, default=None
    """

    def __init__(self, design, targets, fit_intercept, test=None, test_design=None):
        super().__init__(design, targets, fit_intercept, test)
        rows = self._columns(design)
        self._test_rows: Any = None if test_design is None else self._columns(test_design)
        self._compiled = [
            FeatureNewton(rows, t.value, t.orientation, t.weight, fit_intercept) for t in targets
        ]

    def _columns(self, design):
        """Return the centred features, and a column of ones where an intercept is fitted."""
        X = design.feature_rows(slice(None))
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def _solutions(self, problems):
        # All that is left to do is to certify what the compiled solver found.
        solver = Newton(tol=1e-12, max_iter=1000, exact_up_to=0.0)
        return [
            solver.solve(problem, *self._start(newton, problem.loss))
            for problem, newton in zip(problems, self._compiled, strict=True)
        ]

    def _start(self, newton, loss):
        newton.solve(loss.C1, loss.C2, loss.D)
        coef = newton.coef.copy()
        return (coef[:-1], float(coef[-1])) if self.fit_intercept else (coef, 0.0)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        test = self._test_rows
        decisions = np.empty((len(objectives), test.shape[0], len(self.targets)))
        coef = np.empty((len(objectives), test.shape[1]))
        for k, newton in enumerate(self._compiled):
            points = _numbers(objectives, self.targets[k].scale)
            if not newton.solve_path(points, coef).all():
                return super().predict_path(objectives)  # slower, for the ill-conditioned
            decisions[..., k] = coef @ test.T
        return decisions
