"""Training sets whose problems are solved for one parameter setting after another.

A refitter holds the data, the targets of all outputs, and the last solution, from which the next
solve starts. What a solve found is returned, with all that can be asked of it:

    solved = refitter.solve(objective)
    solved.leave_one_out()            held-out decision values in closed form
    solved.leave_folds_out(folds)     the same for the folds of a `Folds`, with derivatives
    solved.predict_test()             decision values of the test samples, with derivatives

It is valid until the next solve of the same refitter. A sample that takes no part in an output, as
in a pair of classes, is held out of it anyway: its value is that of the model itself.

`AdditiveRefitter` is Newton's method, the systems of all outputs (`optimargin.systems`) and a warm
start. `optimargin.held_out.ldm` has those of the large margin distribution machine.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from optimargin.designs import LINEAR_DESIGNS, GramDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.solvers import Newton
from optimargin.systems import Folds, Values
from optimargin.systems.base import check_number
from optimargin.systems.outputs import Layout, SystemList
from optimargin.systems.small import CompiledSystems


class Solved:
    """What a solve found.

    Parameters
    ----------
    coef : ndarray of shape (n_coef, n_outputs)
        In the representation of the design.
    intercept, objective, dual_gap : ndarray of shape (n_outputs,)
    test : GramTest, FeatureSpaceDesign or None

    Attributes
    ----------
    objective, dual_gap : ndarray of shape (n_outputs,)
    """

    def __init__(self, coef, intercept, objective, dual_gap, test):
        self._coef, self._offset, self._test = coef, intercept, test
        self.objective, self.dual_gap = objective, dual_gap

    @property
    def coef(self):
        """Coefficients, of shape (n_outputs, n_coef)."""
        return self._coef.T

    @property
    def intercept(self):
        """Intercepts, of shape (n_outputs,)."""
        return self._offset

    def predict_test(self) -> Values:
        """Return decision values of the test samples, of shape (n_test, n_outputs)."""
        return Values(self._test.decisions(self._coef) + self._offset, None)

    def leave_one_out(self) -> np.ndarray:
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        raise TypeError("There is no closed form for samples left out.")

    def leave_folds_out(self, folds: Folds) -> Values:
        """Return closed-form decision values of shape (n_repeats, n_samples, n_outputs)."""
        raise TypeError("There is no closed form for samples left out.")


class Refitter(ABC):
    """One training set whose problems are solved for one parameter setting after another."""

    @abstractmethod
    def solve(self, objective) -> Solved:
        """Solve the problem of every output, starting from the last solution."""

    def predict_path(self, objectives) -> np.ndarray:
        """Return decision values of the test samples for one setting after another.

        Returns
        -------
        decisions : ndarray of shape (n_objectives, n_test, n_outputs)
        """
        return np.array([self.solve(each).predict_test().decision for each in objectives])


class GramTest:
    """Test samples given by their kernel values with the training samples.

    Those of features are a `FeatureSpaceDesign`.
    """

    def __init__(self, K):
        self.K = K

    def decisions(self, coef):
        """Return decision values of columns of coefficients, without the intercept."""
        return self.K @ coef

    def represents(self, slope):
        """Return the derivative by the coefficients of ``slope' decisions(coef)``."""
        return self.K.T @ slope

    def take(self, rows):
        """Return the same for some of the training samples."""
        return GramTest(np.ascontiguousarray(self.K[:, rows]))


def share_curvatures(losses, targets):
    """Return whether the curvatures of all outputs are one and the same, whatever the solution."""
    constants = {loss.constant_curvature for loss in losses}
    first = targets[0].weight
    return (
        len(constants) == 1
        and None not in constants
        and all(t.weight is first or np.array_equal(t.weight, first) for t in targets)
    )


class AdditiveRefitter(Refitter):
    """Problems of any additive objective over any design.

    Parameters
    ----------
    design : Design or None
        None where features will be told later (`change_design`).
    targets : list of Target
        Of positive weights on the rows that an output is asked for, else of zero ones.
    fit_intercept : bool
    test : GramTest or FeatureSpaceDesign, default=None
        Test samples, in the representation of the design.
    compiled : bool, default=False
        Whether the compiled problems are to solve: for the band loss over a Gram matrix.
    folds : Folds, default=None
        Those that will be left out; sums over them are kept.
    tol : float, default=1e-12
        Of the relative gap.
    exact : bool, default=True
        Whether cheap solves go on until the active set is final.

    Attributes
    ----------
    backend : type
        Of the systems: `SystemList` or `CompiledSystems`.
    """

    def __init__(
        self,
        design,
        targets,
        fit_intercept,
        test=None,
        *,
        compiled=False,
        folds=None,
        tol=1e-12,
        exact=True,
    ):
        self.design, self.targets, self.test = design, targets, test
        # Features that will be told later are too many to be copied for every pair of classes.
        self._layout = Layout(targets, in_parts=design is not None)
        self.backend: Any = CompiledSystems if compiled else SystemList
        self._settings: dict = {}
        if not compiled:
            solver = Newton(tol=tol, max_iter=1000, **({} if exact else {"exact_up_to": 0}))
            self._settings = {"solver": solver, "folds": folds}
        self._fit_intercept = fit_intercept
        self._made: dict = {}  # the systems of single outputs, and the one of all of them

    def _systems(self, together):
        """Return the systems of every output, or the one of all of them."""
        if together not in self._made:
            self._made[together] = self.backend(
                self._layout,
                self.targets,
                self._fit_intercept,
                together=together,
                **self._settings,
            )
            self._made[together].use(self.design, self.test)
        return self._made[together]

    def change_design(self, design, test=None):
        """Go on with other features, or other kernel values, of the same samples."""
        self.design, self.test = design, test
        for systems in self._made.values():
            systems.use(design, test)

    def change_kernel(self, K, test=None):
        """Go on with other kernel values, and those of the test samples."""
        self.change_design(GramDesign(K), None if test is None else GramTest(test))

    def solve(self, objective):
        """Solve the problem of every output."""
        losses = [objective.loss(target.scale) for target in self.targets]
        together = len(losses) > 1 and not self._layout.has_own_rows
        systems = self._systems(together and share_curvatures(losses, self.targets))
        systems.solve(objective, losses)
        return AdditiveSolved(systems, losses)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        if self.backend is SystemList:
            return super().predict_path(objectives)
        scales = [target.scale for target in self.targets]
        losses = [[objective.loss(scale) for scale in scales] for objective in objectives]
        return self._systems(False).path(losses)


class AdditiveSolved(Solved):
    """Solutions of additive problems, whose systems answer all that is asked of them.

    Parameters
    ----------
    systems : Systems
    losses : list of Loss
        Of each output.
    """

    def __init__(self, systems, losses):
        found = systems.coef, systems.intercept, systems.objective, systems.dual_gap
        super().__init__(*found, systems.test)
        self._systems, self._layout, self._losses = systems, systems.layout, losses
        self._design, self._number = systems.design, systems.number

    @cached_property
    def _in_features(self):
        """Coefficients and intercepts of linear data, or None."""
        if not isinstance(self._design, LINEAR_DESIGNS):
            return None
        found = [self._design.to_features(coef) for coef in np.ascontiguousarray(self._coef.T)]
        return np.array([w for w, _ in found]), np.array([shift for _, shift in found])

    @property
    def coef(self):
        """Coefficients of features, or of samples."""
        return self._coef.T if self._in_features is None else self._in_features[0]

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        return self._offset + (0.0 if self._in_features is None else self._in_features[1])

    def _everywhere(self):
        """Return room for decision values; those of rows that are not asked for are known."""
        layout = self._layout
        if not layout.has_own_rows:
            return np.empty((layout.n_samples, self._offset.size))
        if isinstance(self._design, FeatureSpaceDesign):
            return self._design.decisions(self._coef) + self._offset
        out = np.repeat(self._offset[None], layout.n_samples, axis=0)
        for rows, outputs in layout.groups:
            out[:, outputs] += self._design.columns(rows) @ self._coef[np.ix_(rows, outputs)]
        return out

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        check_number(self._systems, self._number)
        return self._layout.spread(self._everywhere(), self._systems.left_out())

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        check_number(self._systems, self._number)
        values = self._systems.folds(folds)
        out = np.stack([self._everywhere()] * folds.fold.shape[0])

        def derivatives(slope):
            return self._by_parameters(values.derivatives(self._layout.flat(slope)))

        return Values(self._layout.spread(out, values.decision), derivatives)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""

        def derivatives(slope):
            check_number(self._systems, self._number)
            return self._by_parameters(self._systems.differentiate_test(slope))

        return replace(super().predict_test(), derivatives=derivatives)

    def _by_parameters(self, found):
        """Return derivatives with those by the parameters of the losses."""
        pull, curvature = self._systems.pull_and_curvature()
        places, by_loss = self._layout.places, 0.0
        if all(loss == self._losses[0] for loss in self._losses):
            places = [slice(0, pull.size)]
        for place, loss in zip(places, self._losses, strict=False):
            active = place.start + np.flatnonzero(curvature[place])
            log_curvature, aim = loss.parameter_slopes(
                pull[active], curvature[active], self._layout.target.take(active, 1.0)
            )
            by_loss = by_loss + log_curvature @ found.by_log_curvature[active]
            by_loss = by_loss + aim @ found.by_aim[active]
        return replace(found, by_loss=by_loss)
