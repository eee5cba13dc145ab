"""Fits, and the models in them: coefficients of features or of support vectors, and scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin.certificates import ROUNDING_FLOOR
from optimargin.designs import LINEAR_DESIGNS, LandmarkDesign
from optimargin.designs.base import SampleSpaceDesign
from optimargin.kernels import Kernel, kernel_product
from optimargin.objectives import Objective
from optimargin.solvers import Solution
from optimargin.targets import Scale

_ROUGH_GAP = 1e-8  # beside which rounding of kernel values to float32 is small


class OtherDataError(ValueError):
    """A model does not belong to the data given."""


@dataclass(frozen=True)
class LinearModel:
    """Coefficients of features.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    """

    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, design, solutions, dtype) -> "LinearModel":
        """Return the model of one solution per output, in the precision of the data."""
        parts = [design.to_features(solution.coef) for solution in solutions]
        coef = np.array([w for w, _ in parts])
        intercept = np.array(
            [
                solution.intercept + shift
                for solution, (_, shift) in zip(solutions, parts, strict=True)
            ]
        )
        return cls(coef.astype(dtype, copy=False), intercept.astype(dtype, copy=False))

    def scores(self, X):
        """Return decision values of shape (n_samples, n_outputs)."""
        return safe_sparse_dot(X, self.coef.T, dense_output=True) + self.intercept

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        return {"coef_": self.coef, "intercept_": self.intercept}


@dataclass(frozen=True)
class KernelModel:
    """Coefficients of support vectors.

    Attributes
    ----------
    kernel : Kernel
    support : ndarray of shape (n_SV,) or None
        Indices of the support vectors in the training data, where they are known.
    vectors : {ndarray, CSR} of shape (n_SV, n_features)
        Empty for a precomputed kernel.
    dual_coef : ndarray of shape (n_outputs, n_SV)
    intercept : ndarray of shape (n_outputs,)
    dual_gap : float
        The largest of the outputs. A fit that is not more precise than float32 kernel values
        are is as well served by these.
    """

    kernel: Kernel
    support: np.ndarray | None
    vectors: Any
    dual_coef: np.ndarray
    intercept: np.ndarray
    dual_gap: float = 0.0

    @classmethod
    def of(cls, kernel, design, projector, solutions, X, rows) -> "KernelModel":
        """Return the model of one solution per output; `rows` are the indices of the samples."""
        dual_coef = np.array([design.sample_coefficients(s.coef, s.pull) for s in solutions])
        intercept = np.array([solution.intercept for solution in solutions])
        if isinstance(design, LINEAR_DESIGNS):  # of centred rows
            intercept += [design.to_features(solution.coef)[1] for solution in solutions]
        if projector is not None:
            dual_coef = dual_coef @ projector.T
        support = np.flatnonzero(dual_coef.any(axis=0))
        vectors = np.empty((0, 0), dtype=X.dtype) if kernel.is_precomputed else X[support]
        return cls(
            kernel,
            rows[support],
            vectors,
            dual_coef[:, support].astype(X.dtype, copy=False),
            intercept.astype(X.dtype, copy=False),
        )

    @classmethod
    def of_landmarks(cls, kernel, design, landmarks, solutions, X, rows) -> "KernelModel":
        """Return the model of solutions over landmarks, which are given as places in X."""
        order = np.argsort(landmarks)
        chosen = landmarks[order]
        coef = np.array([design.landmark_coefficients(s.coef) for s in solutions])
        intercept = np.array([s.intercept for s in solutions], dtype=X.dtype)
        dual_coef = coef[:, order].astype(X.dtype, copy=False)
        return cls(kernel, rows[chosen], X[chosen], dual_coef, intercept)

    def split(self, n_outputs) -> tuple["KernelModel", "KernelModel"]:
        """Return the model of the first outputs, and that of the others."""
        first, others = slice(n_outputs), slice(n_outputs, None)
        return tuple(  # type: ignore[return-value]
            replace(self, dual_coef=self.dual_coef[part], intercept=self.intercept[part])
            for part in (first, others)
        )

    @cached_property
    def coef(self):
        """Coefficients of the features, for the linear kernel."""
        return safe_sparse_dot(self.dual_coef, self.vectors)

    def scores(self, X):
        """Return decision values of shape (n_samples, n_outputs)."""
        if self.kernel.is_linear:
            return safe_sparse_dot(X, self.coef.T, dense_output=True) + self.intercept
        if self.kernel.is_precomputed:
            return X[:, self.support] @ self.dual_coef.T + self.intercept
        dtype = np.float32 if self.dual_gap > _ROUGH_GAP else np.float64
        V = self.dual_coef.T
        return kernel_product(self.kernel, X, self.vectors, V, dtype) + self.intercept

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        found: dict[str, Any] = {
            "_kernel": self.kernel,
            "support_vectors_": self.vectors,
            "dual_coef_": self.dual_coef,
            "intercept_": self.intercept,
        }
        if self.support is not None:
            found["support_"] = self.support
        if "gamma" in self.kernel.parameters:
            gamma = self.kernel.gamma  # type: ignore[attr-defined]
            found["gamma_"] = np.array(gamma) if isinstance(gamma, tuple) else gamma
        return found


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
        per_output = {
            "n_iter_": self.n_iter,
            "objective_": self.objective_value,
            "dual_gap_": self.dual_gap,
        }
        return {
            **self.model.attributes(),
            **self.objective.attributes(self.scales),
            "solver_": self.solver,
            **{k: v if v.size > 1 else v[0].item() for k, v in per_output.items()},
            **self.calibrated,
        }


def coefficients_of(design, model, problem, k, rows):
    """Return output `k` of a model as coefficients of a design, and the intercept.

    Parameters
    ----------
    design : Design
        Of the training data.
    model : LinearModel or KernelModel
    problem : AdditiveProblem
        Over the design.
    k : int
    rows : ndarray of shape (n_samples,)
        Indices of the design's samples in the training data.
    """
    is_linear, over_landmarks = (isinstance(design, d) for d in (LINEAR_DESIGNS, LandmarkDesign))
    if not (is_linear or over_landmarks or isinstance(design, SampleSpaceDesign)):
        raise TypeError(f"A model cannot be expressed in a {type(design).__name__}.")
    if is_linear:
        coef = model.coef[k]
    else:
        coef = model.dual_coef[k] if over_landmarks else sample_pulls(model, k, rows)
    # In the units of the problem's targets, in double precision.
    coef, intercept = coef.astype(np.float64), float(model.intercept[k])
    coef, intercept = problem.scale.standardised(coef, intercept)
    if is_linear:
        return design.from_features(coef, intercept, problem)
    return design.from_landmark_coefficients(coef) if over_landmarks else coef, intercept


def sample_pulls(model, k, rows):
    """Return output `k` of a `KernelModel` as coefficients of the training samples `rows`."""
    if not np.isin(model.support, rows).all():
        raise OtherDataError(
            f"X and sample_weight have {rows.size} samples of positive weight, and "
            "not all support vectors are among them: pass the training data, every row in "
            "its place."
        )
    coef = np.zeros(rows.size)
    coef[np.searchsorted(rows, model.support)] = model.dual_coef[k]
    return coef
