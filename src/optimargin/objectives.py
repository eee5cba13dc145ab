"""What is minimised for which parameters: the machines, their defaults, solvers and search boxes.

An objective with all its numbers fixed makes the problem of a design and a target. As a class it
says what the search for parameters needs to know: names, the paper's values, bounds, and how the
coordinates of the search become parameters. A new machine with a loss of its own is a subclass of
`AdditiveObjective`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from optimargin.losses import BandLoss, Loss
from optimargin.problems import AdditiveProblem, LDMProblem
from optimargin.solvers import LDM_SOLVERS, SOLVERS, Solver
from optimargin.targets import LABELS, Scale

LARGEST = 1e30  # penalty of a shortfall whose square is still far from overflow
_LN2 = float(np.log(2.0))
EPSILON_SHARE = 0.1
"""The half-width that ``epsilon="scale"`` stands for, in standard deviations of y."""


class Objective(ABC):
    """A family of problems, by its parameters.

    Attributes
    ----------
    solvers : mapping of str to type
        The solvers of its problems, by name.
    grid_names : tuple of str
        The parameters that a grid may hold, those first that cost most to change.
    paper : dict of str to ndarray
        Their values in the paper's experiments.
    smoother : dict of str to int
        Of equally good models the smoothest is taken. The parameters are compared in this
        order: penalties, the width of the kernel, the form of the loss; 1 prefers small values,
        -1 large ones.
    bounds : ndarray of shape (n_parameters, 2)
        Of the search without a grid, in its own coordinates x.
    spread : ndarray of shape (n_parameters, 2) or None
        Where the search looks first, by default everywhere within the bounds. It may leave this
        box later.
    default_x : ndarray of shape (n_parameters,) or None
        The coordinates of the default parameters.
    quadratic : ndarray of shape (n_parameters,) or None
        Coordinates where the objective is quadratic, NaN for those that may have any value there.
        The search looks there first. None where it is quadratic nowhere or everywhere.
    has_closed_form : bool
        Whether samples left out are predicted without fitting again.
    has_gradient : bool
        Whether `chain` gives derivatives of held-out scores; without, the search uses simplices.
    """

    solvers: ClassVar[Mapping[str, type[Solver]]]
    grid_names: ClassVar[tuple[str, ...]]
    paper: ClassVar[dict[str, np.ndarray]] = {}
    smoother: ClassVar[dict[str, int]]
    bounds: ClassVar[np.ndarray]
    spread: ClassVar[np.ndarray | None] = None
    default_x: ClassVar[np.ndarray | None] = None
    quadratic: ClassVar[np.ndarray | None] = None
    has_closed_form: ClassVar[bool] = False
    has_gradient: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def at(cls, x, unit: float) -> dict[str, float]:
        """Return the parameters at coordinates of the search.

        Parameters
        ----------
        x : ndarray of shape (n_parameters,)
        unit : float
            The penalty that is one per sample and free of the units of the data
            (`optimargin.training.prepare`).
        """

    @classmethod
    def chain(cls, by_loss) -> np.ndarray:
        """Turn derivatives by the parameters of the loss into derivatives by the coordinates.

        Parameters
        ----------
        by_loss : ndarray of shape (n_loss_parameters,)
            In the order of `Loss.parameters`.

        Returns
        -------
        by_x : ndarray of shape (n_parameters,)
        """
        raise TypeError(f"{cls.__name__} has no derivatives.")

    @classmethod
    def roughness(cls, point: Mapping[str, float]) -> list[float]:
        """Return numbers to compare equally good points by, one after the other: small ones win.

        Parameters
        ----------
        point : dict
            Parameters by name, gamma included where the kernel has one.
        """
        return [sign * point.get(name, 0.0) for name, sign in cls.smoother.items()]

    @classmethod
    def default_grid(cls, unit: float) -> dict[str, np.ndarray]:
        """Return values of parameters that a grid has where none are given.

        Parameters
        ----------
        unit : float
            As in `at`.
        """
        return cls.paper

    def resolve(self, unit: Callable[[], float]) -> "Objective":
        """Return the objective with numbers in place of None.

        Parameters
        ----------
        unit : callable
            Returns the penalty that is one per sample, as in `at`; called only where a number
            depends on it.
        """
        return self

    @property
    def is_quadratic(self) -> bool:
        """Whether the objective is one quadratic function, for which closed forms are exact."""
        return False

    @abstractmethod
    def problem(self, design, target, *, fit_intercept: bool) -> Any:
        """Return the problem of one output."""

    def attributes(self, scales: Sequence[Scale]) -> dict[str, Any]:
        """Return what a fitted estimator says about the numbers used.

        Parameters
        ----------
        scales : sequence of Scale
            What the targets of each output were measured in.
        """
        return {}


class AdditiveObjective(Objective):
    """The penalty on w plus a loss of every sample.

    Attributes
    ----------
    loss_type : type
        What `loss` returns.
    """

    solvers = SOLVERS
    has_closed_form = True
    loss_type: ClassVar[Any] = Loss

    @abstractmethod
    def loss(self, scale: Scale = LABELS) -> Loss:
        """Return the loss of targets that are measured on a scale."""

    def problem(self, design, target, *, fit_intercept):
        """Return the problem of one output."""
        return AdditiveProblem(self.loss(target.scale), design, target, fit_intercept=fit_intercept)


class BandObjective(AdditiveObjective):
    """What machines with a band loss share: penalties below and above the band.

    Attributes
    ----------
    C1 : float or None
        Penalty below the band; None is `default_penalty` times the unit of the data.
    C2 : float or None
        Penalty above the band; None is `share_above` times `C1`.
    default_penalty : float
        C1 by default, in units of the data (`optimargin.training.prepare`).
    share_above : float
        C2 / C1 by default.
    """

    C1: float | None
    C2: float | None

    has_gradient = True
    loss_type = BandLoss
    default_penalty: ClassVar[float]
    share_above: ClassVar[float]

    def resolve(self, unit):
        """Return the machine with its penalties as numbers."""
        C1 = self.C1
        if C1 is None:
            C1 = self.default_penalty * unit()
            if not 1 / LARGEST <= C1 <= LARGEST:
                raise ValueError(
                    f"The default C1 would be {C1:.3g}: give C1 a value, or scale sample_weight "
                    "to a mean of one and the features to a variance of one."
                )
        C2 = self.share_above * C1 if self.C2 is None else self.C2
        return replace(self, C1=float(C1), C2=float(C2))  # type: ignore[type-var]

    def attributes(self, scales):
        """Return the penalties."""
        return {"C1_": self.C1, "C2_": self.C2}


@dataclass(frozen=True)
class ODM(BandObjective):
    """The optimal margin distribution machine: a band loss of margins.

    Attributes
    ----------
    C1, C2
        See `BandObjective`.
    D : float
        Half-width of the band.
    """

    C1: float | None = None
    C2: float | None = None
    D: float = 0.5

    default_penalty = 2.0
    share_above = 0.25
    grid_names = ("C1", "C2", "D")
    paper = {"C1": 2.0 ** np.arange(11), "C2": 2.0 ** np.arange(11), "D": np.arange(6) / 10}
    smoother = {"C1": 1, "C2": 1, "gamma": 1, "D": -1}
    # log2 C1 / unit, log2 C2 / C1, D
    bounds = np.array([[-10.0, 11.0], [-10.0, 0.0], [0.0, 0.6]])
    spread = np.array([[-10.0, 5.0], [-10.0, 0.0], [0.0, 0.6]])
    default_x = np.array([np.log2(default_penalty), np.log2(share_above), D])
    quadratic = np.array([np.nan, 0.0, 0.0])

    @property
    def is_quadratic(self):
        """Whether it is least squares."""
        return self.C1 == self.C2 and self.D == 0

    @classmethod
    def at(cls, x, unit):
        """Return C1, C2 and D at ``(log2 C1 / unit, log2 C2 / C1, D)``."""
        C1 = unit * 2.0 ** x[0]
        return {"C1": float(C1), "C2": float(C1 * 2.0 ** x[1]), "D": float(x[2])}

    @classmethod
    def chain(cls, by_loss):
        """C2 moves with C1 where their ratio is kept."""
        by_C1, by_C2, by_D = by_loss
        return np.array([_LN2 * (by_C1 + by_C2), _LN2 * by_C2, by_D])

    def loss(self, scale=LABELS):
        """Return the band loss; penalties must be numbers."""
        return self._band

    @cached_property
    def _band(self):  # made once: a grid asks for it in every fold
        return BandLoss(self.C1, self.C2, float(self.D))  # type: ignore[arg-type]


@dataclass(frozen=True)
class ODMOneClass(ODM):
    """The machine of one class: scores of normal samples are drawn into a band around one.

    Attributes
    ----------
    C1, C2, D
        See `ODM`.
    """

    default_penalty = 0.5


@dataclass(frozen=True)
class ODMRegression(BandObjective):
    """Regression by a band loss of residuals: squared, and free of cost up to epsilon.

    Attributes
    ----------
    C1, C2
        See `BandObjective`; below is where the prediction is too low.
    share_above : float
        C2 / C1 where C2 is None.
    epsilon : float or "scale"
        Half-width of the band in the units of y. "scale" is `EPSILON_SHARE` of the standard
        deviation of each output, of its root mean square without an intercept.
    """

    C1: float | None = None
    C2: float | None = None
    epsilon: float | str = 0.0
    share_above: float = 1.0  # type: ignore[misc]

    default_penalty = 32.0
    grid_names = ("C1", "C2", "epsilon")
    smoother = {"C1": 1, "C2": 1, "gamma": 1, "epsilon": -1}
    bounds = np.array([[-8.0, 11.0]])  # log2 C1 / unit
    default_x = np.log2([default_penalty])

    @classmethod
    def at(cls, x, unit):
        """Return C1 at ``log2 C1 / unit``."""
        return {"C1": float(unit * 2.0 ** x[0])}

    @classmethod
    def chain(cls, by_loss):
        """C2 moves with C1."""
        by_C1, by_C2, _ = by_loss
        return np.array([_LN2 * (by_C1 + by_C2)])

    @classmethod
    def default_grid(cls, unit):
        """Return C1 from a sixteenth to 256 per sample; the others are fixed."""
        return {"C1": unit * 2.0 ** np.arange(-4, 9, 2)}

    def loss(self, scale=LABELS):
        """Return the band loss of residuals; C1 must be a number."""
        C1: Any = self.C1
        C2 = self.share_above * C1 if self.C2 is None else self.C2
        return BandLoss(C1, C2, self._half_width(scale))

    @property
    def is_quadratic(self):
        """Whether it is (kernel) ridge regression."""
        return self.epsilon == 0 and self.C2 in (None, self.C1) and self.share_above == 1

    def _half_width(self, scale):
        if self.epsilon == "scale":
            return EPSILON_SHARE * (scale.deviation or 0.0)
        return float(self.epsilon) / scale.unit

    def attributes(self, scales):
        """Return the penalties, and epsilon in the units of y: an array for several outputs."""
        epsilon = np.array([scale.unit * self._half_width(scale) for scale in scales])
        shown = epsilon if self.epsilon == "scale" and epsilon.size > 1 else epsilon[0].item()
        return {**super().attributes(scales), "epsilon_": shown}


@dataclass(frozen=True)
class LDM(Objective):
    """The large margin distribution machine: variance, mean and hinge loss of the margins."""

    lambda1: float
    lambda2: float
    C: float

    solvers = LDM_SOLVERS
    grid_names = ("lambda1", "lambda2", "C")
    paper = {
        "lambda1": 2.0 ** np.arange(-8, -1),
        "lambda2": 2.0 ** np.arange(-8, -1),
        "C": np.array([10.0, 50.0, 100.0]),
    }
    smoother = {"C": 1, "lambda2": 1, "gamma": 1, "lambda1": -1}
    # log2 lambda1, log2 lambda2 / C, log2 C
    bounds = np.array([[-8.0, 8.0], [-10.0, 0.0], [-1.0, 14.0]])

    @classmethod
    def at(cls, x, unit):
        """Return lambda1, lambda2 and C at ``(log2 lambda1, log2 lambda2 / C, log2 C)``."""
        C = 2.0 ** x[2]
        return {"lambda1": float(2.0 ** x[0]), "lambda2": float(C * 2.0 ** x[1]), "C": float(C)}

    def resolve(self, unit):
        """Return the machine, its numbers checked."""
        for name in ("C", "lambda1", "lambda2"):
            value = float(getattr(self, name))
            if LARGEST < value < np.inf:
                raise ValueError(
                    f"{name}={value:g} is too large for arithmetic: use at most {LARGEST:g}"
                    f"{' or inf, a hard margin' if name == 'C' else ''}."
                )
        return LDM(float(self.lambda1), float(self.lambda2), float(self.C))

    def problem(self, design, target, *, fit_intercept):
        """Return the problem of one output; its labels are the target's values."""
        return LDMProblem(
            design,
            target.value,
            target.weight,
            self.C,
            self.lambda1,
            self.lambda2,
            fit_intercept=fit_intercept,
        )
