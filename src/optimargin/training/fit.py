"""The result of a training: what an estimator stores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optimargin.certificates import ROUNDING_FLOOR
from optimargin.objectives import Objective
from optimargin.solvers import Solution
from optimargin.targets import Scale


@dataclass(frozen=True)
class Fit:
    """A trained model and how it came about.

    Attributes
    ----------
    model : LinearModel or KernelModel
    objective : Objective
        With the numbers that were used.
    solver : str
    n_iter, objective_value, dual_gap : ndarray of shape (n_outputs,)
    scales : sequence of Scale
        What the targets of each output were measured in.
    calibrated : dict
        Attributes that tell what scores mean, where the training was asked for them.
    decision : ndarray of shape (n_samples, n_outputs) or None
        Decision values of the samples of positive weight, in the units of y, where the solver has
        them.
    """

    model: Any
    objective: Objective
    solver: str
    n_iter: np.ndarray
    objective_value: np.ndarray
    dual_gap: np.ndarray
    scales: Sequence[Scale]
    calibrated: dict[str, Any] = field(default_factory=dict)
    decision: np.ndarray | None = None

    @classmethod
    def of(cls, model, objective, solver, solutions: list[Solution], scales) -> "Fit":
        """Return the fit of one solution per output, in the units of y.

        No certificate claims more than the rounding of the objective allows.
        """
        gaps = np.array([solution.dual_gap for solution in solutions])
        decisions = [s.decision for s in solutions if s.decision is not None]
        return cls(
            model,
            objective,
            solver,
            np.array([solution.n_iter for solution in solutions]),
            np.array([solution.objective for solution in solutions]),
            np.maximum(gaps, ROUNDING_FLOOR),
            scales,
            decision=np.stack(decisions, axis=1) if len(decisions) == len(solutions) else None,
        )

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes: numbers for one output, arrays for several."""

        def shown(values):
            return values if values.size > 1 else values[0].item()

        return {
            **self.model.attributes(),
            **self.objective.attributes(self.scales),
            "solver_": self.solver,
            "n_iter_": shown(self.n_iter),
            "objective_": shown(self.objective_value),
            "dual_gap_": shown(self.dual_gap),
            **self.calibrated,
        }
