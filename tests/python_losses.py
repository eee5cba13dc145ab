"""Losses written in Python, with no more than a new loss has to have."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from optimargin.losses import BandLoss, Loss
from optimargin.objectives import AdditiveObjective
from optimargin.targets import LABELS


@dataclass(frozen=True)
class PlainBand(Loss):
    """`BandLoss` without anything compiled."""

    C1: float
    C2: float
    D: float

    def terms(self, shortfall):
        """Return l, l' and l''."""
        below = np.maximum(0.0, shortfall - self.D)
        above = np.maximum(0.0, -shortfall - self.D)
        return (
            self.C1 * below**2 + self.C2 * above**2,
            2 * self.C1 * below - 2 * self.C2 * above,
            2 * self.C1 * (below > 0) + 2 * self.C2 * (above > 0),
        )

    def conjugate_terms(self, slope):
        """Return the conjugate, side by side."""
        out = np.empty(len(slope))
        for k, each in enumerate(slope):
            penalty = self.C1 if each > 0 else self.C2
            square = 0.0 if each == 0 else np.inf if penalty == 0 else each**2 / (4 * penalty)
            out[k] = square + self.D * abs(each)
        return out

    @property
    def smoothness(self):
        """The largest second derivative."""
        return 2 * max(self.C1, self.C2)

    @property
    def half_width(self):
        """The half-width of the band."""
        return self.D


@dataclass(frozen=True)
class SlopedBand(PlainBand):
    """A `PlainBand` that can also be differentiated by its parameters."""

    parameters = BandLoss.parameters

    def parameter_slopes(self, pull, curvature, target):
        """Return those of the compiled loss."""
        band = BandLoss(self.C1, self.C2, self.D)
        return band.parameter_slopes(pull, curvature, target)


@dataclass(frozen=True)
class HuberLoss(Loss):
    """Quadratic up to a shortfall of one, then linear: pulls without curvature."""

    C: float = 4.0

    def terms(self, shortfall):
        """Return l, l' and l''."""
        size = np.abs(shortfall)
        inside = size <= 1
        return (
            self.C * np.where(inside, size**2, 2 * size - 1),
            2 * self.C * np.clip(shortfall, -1, 1),
            2 * self.C * inside,
        )

    def conjugate_terms(self, slope):
        """Return ``slope**2 / 4C``, infinite past the largest slope."""
        largest = 2 * self.C * (1 + 1e-12)
        return np.where(np.abs(slope) <= largest, np.square(slope) / (4 * self.C), np.inf)

    @property
    def smoothness(self):
        """The largest second derivative."""
        return 2 * self.C


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """``C log(1 + exp(r))``: no piece of it is quadratic."""

    C: float = 4.0

    def terms(self, shortfall):
        """Return l, l' and l''."""
        share = expit(shortfall)
        return self.C * np.logaddexp(0, shortfall), self.C * share, self.C * share * (1 - share)

    def conjugate_terms(self, slope):
        """Return the negative entropy, infinite outside of [0, C]."""
        share = np.asarray(slope) / self.C
        feasible = (share >= 0) & (share <= 1)
        share = np.clip(share, 0, 1)
        entropy = xlogy(share, share) + xlogy(1 - share, 1 - share)
        return np.where(feasible, self.C * entropy, np.inf)

    @property
    def smoothness(self):
        """The largest second derivative."""
        return self.C / 4

    half_width = np.inf


@dataclass(frozen=True)
class PseudoHuberLoss(Loss):
    """``C (sqrt(1 + r**2) - 1)``: smooth, and quadratic nowhere."""

    C: float = 4.0

    def terms(self, shortfall):
        """Return l, l' and l''."""
        root = np.sqrt(1 + shortfall**2)
        return self.C * (root - 1), self.C * shortfall / root, self.C / root**3

    def conjugate_terms(self, slope):
        """Return ``C - sqrt(C**2 - slope**2)``, infinite past C."""
        rest = self.C**2 - np.square(slope)
        return np.where(rest >= 0, self.C - np.sqrt(np.maximum(rest, 0.0)), np.inf)

    @property
    def smoothness(self):
        """The largest second derivative."""
        return self.C

    half_width = 0.0


@dataclass(frozen=True)
class PlainODM(AdditiveObjective):
    """The machine of a loss written in Python."""

    C1: float
    C2: float
    D: float

    loss_type = SlopedBand

    @classmethod
    def at(cls, x):
        """Return the coordinates themselves."""
        return dict(zip(("C1", "C2", "D"), map(float, x), strict=True))

    def loss(self, scale=LABELS):
        """Return the loss."""
        return SlopedBand(self.C1, self.C2, self.D)
