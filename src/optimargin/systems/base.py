"""The linear system of a fixed active set, and everything that can be asked of it.

On the active set S of a fit the loss is quadratic: with curvatures c_i, aims a_i (where the pull
c_i (a_i - f_i) of a sample would vanish), roots r = c^1/2 and A = I + diag(r) K_SS diag(r), the
coefficients theta = r * z and the intercept b solve the bordered system

    [ A  r ] [z]   [r * a]                           [ P   q ]
    [ r' 0 ] [b] = [  0  ],       whose inverse is   [ q'  . ]    (P = A^-1 without intercept).

Removing the samples B, with the weights of the others kept, asks for theta_B = 0. As long as
no other sample enters or leaves S, that is

    u = (P_BB)^-1 (theta_B / r_B),   theta' = theta - r P_SB u,   b' = b - q_B' u,

and the removed samples of S get the decision values a_B - u / r_B. Samples off S do not matter to
the fit, so removing them changes nothing. The feature-space form takes rows from the normal
equations (I + Phi' C Phi) w = Phi' C a instead. Where memberships do change, Newton steps that
start at this point give the exact answer.

A sample of weight w that stands for w equal ones is left out once: the share s = 1 / w of its
weight goes. With h_i = 1 - P_ii its leverage, its decision value becomes a_i - v_i with
v_i = theta_i / (c_i (1 - s h_i)), and the model changes by s v_i.

At any point x, with k(x) the kernel values of x with S, the model without sample i has the value
f(x) - v_i g_i(x), where g(x) = r * (P (r * k(x)) + q) is the *influence* of the aims on f(x):
f(x) = g(x)' a. So one factor gives all models without one sample each, at any point.

Derivatives. A function F of held-out values changes with the aims by the adjoint: the solution of
the same system with the derivatives of F by (theta, b) on the right-hand side. With the loss,
curvatures and aims change, with the kernel its values:

    dF = adjoint' (da + (a - f) dlog c) + sum over models of left' dK coef.

A backend knows aims, curvatures and kernel values, and neither the parameters of a loss nor
those of a kernel: `Derivatives` has the three parts for others to contract.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from optimargin._threads import for_each

SINGULAR = 512 * float(np.finfo(np.float64).eps)  # of a pivot, which is at most one
PRODUCTS = 100  # operations of products of matrices take as long as one of other loops


@dataclass(frozen=True)
class Folds:
    """Repeated partitions of the samples.

    Attributes
    ----------
    fold : ndarray of shape (n_repeats, n_samples), dtype intc
    n_folds : int
    """

    fold: np.ndarray
    n_folds: int

    def models(self):
        """Yield ``(repeat, samples left out)`` for every model."""
        for repeat, fold in enumerate(self.fold):
            for k in range(self.n_folds):
                yield repeat, np.flatnonzero(fold == k)

    def of_rows(self, rows) -> "Folds":
        """Return the folds of some of the samples."""
        return Folds(np.ascontiguousarray(self.fold[:, rows]), self.n_folds)

    @classmethod
    def stratified(cls, encoded, n_folds, n_repeats, random_state):
        """Deal the samples of every class out to the folds, in random order.

        Parameters
        ----------
        encoded : ndarray of shape (n_samples,)
            Classes, as integers from 0.
        n_folds, n_repeats : int
        random_state : RandomState
        """
        fold = np.empty((n_repeats, encoded.size), dtype=np.intc)
        for repeat in range(n_repeats):
            shuffled = random_state.permutation(encoded.size)
            in_classes = shuffled[np.argsort(encoded[shuffled], kind="stable")]
            fold[repeat, in_classes] = np.arange(encoded.size) % n_folds
        return cls(fold, n_folds)


@dataclass(frozen=True)
class Form:
    """A derivative by kernel values: the sum over m of ``left[m]' dK coef[m]``.

    Attributes
    ----------
    of : str
        Which kernel values: "samples" with samples, "test" with samples, "landmarks", which are
        samples with landmarks, or "between" landmarks.
    left, coef : ndarray of shape (n_forms, n_rows), (n_forms, n_columns)
        Without `left`, `coef` is what the sum makes of them, of shape (n_rows, n_columns).
    rows : ndarray of shape (n_rows,) or None
        Samples that coef is for, and left where it is of samples, too; None for all of them.
    """

    of: str
    left: np.ndarray | None
    coef: np.ndarray
    rows: np.ndarray | None = None

    def contract(self, slope):
        """Return the derivative by a parameter that changes the kernel values by `slope`."""
        if self.left is None:
            return float(np.vdot(self.coef, slope))
        if self.rows is not None:
            slope = (
                slope[:, self.rows] if self.of == "test" else slope[np.ix_(self.rows, self.rows)]
            )
        moved = slope @ self.coef.T.astype(slope.dtype, copy=False)
        return float(np.vdot(self.left.T, moved))

    def add_to(self, dense):
        """Add the derivatives by all kernel values to an array of their shape."""
        at = slice(None) if self.rows is None else np.ix_(self.rows, self.rows)
        dense[at] += self.coef if self.left is None else self.left.T @ self.coef


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of a function of held-out values, or of predictions.

    Attributes
    ----------
    by_aim, by_log_curvature : ndarray
        Of the shape of what they are by: ``(n_samples, n_outputs)`` of one system.
    forms : list of Form
        By kernel values.
    by_loss : ndarray of shape (n_loss_parameters,) or None
        In the order of `Loss.parameters`; None from a system, which knows no loss.
    """

    by_aim: np.ndarray
    by_log_curvature: np.ndarray
    forms: list
    by_loss: Any = None

    def by_width(self, slopes):
        """Return the derivative by a parameter of the kernel.

        Parameters
        ----------
        slopes : dict of str to ndarray
            The derivatives of kernel values by it, by the names of `Form.of`.
        """
        return sum(form.contract(slopes[form.of]) for form in self.forms)

    def by_kernel(self, n_samples):
        """Return the derivative by the kernel values between samples, a square array."""
        dense = np.zeros((n_samples, n_samples))
        for form in self.forms:
            form.add_to(dense)
        return dense


class OutlivedError(RuntimeError):
    """A system has moved on since it was asked for what is used now."""


class IndefiniteError(FloatingPointError):
    """The matrix of a system is further from positive definite than rounding makes it."""

    def __init__(self):
        super().__init__("The kernel matrix is too far from positive semi-definite.")


@dataclass(frozen=True)
class Values:
    """Decision values of samples by models that they took no part in.

    Attributes
    ----------
    decision : ndarray of shape (..., n_samples, n_outputs)
    differentiate : callable or None
        Given the derivatives of a function by the decision values, it returns `Derivatives`.
        None where there are none.
    asked, number : object, int
        What they come from, and its `number` then: derivatives can be had until that changes.
    """

    decision: np.ndarray
    differentiate: Callable[[np.ndarray], Derivatives] | None = None
    asked: Any = None
    number: int | None = None

    def derivatives(self, slope) -> Derivatives:
        """Return derivatives of a function, given those by the decision values."""
        if self.differentiate is None:
            raise TypeError("There is no closed form for derivatives of these values.")
        if self.asked is not None:
            check_number(self.asked, self.number)
        return self.differentiate(slope)


def check_number(asked, number):
    """Raise an error if what is asked has moved on since its number was this."""
    if number != asked.number:
        raise OutlivedError("The system was moved since these values were found.")


class ActiveSystem(ABC):
    """One curvature vector over the samples of a design, with k right-hand sides.

    A system keeps one factor. `step` and `move` take another one when curvatures change.

    Parameters
    ----------
    design : Design
    fit_intercept : bool

    Attributes
    ----------
    active : ndarray of shape (n_active,)
        The samples of positive curvature.
    decision : ndarray of shape (n_samples, n_outputs)
        Decision values, with the intercept, of the solution.
    coef : ndarray of shape (n_coef, n_outputs)
        In the representation of the design.
    intercept : ndarray of shape (n_outputs,)
    error : ndarray of shape (n_active, n_outputs)
        How far active samples are from their aims.
    number : int
        Of moves: what is asked for is valid until the next.
    """

    active: np.ndarray
    decision: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    error: np.ndarray

    def __init__(self, design, *, fit_intercept):
        self.design, self.fit_intercept = design, fit_intercept
        self.number = 0
        self._folds: Any = None  # those that sums are kept of
        self._pivot: Any = None
        self._work = 0.0  # of a fold that is left out, in operations of loops

    @property
    @abstractmethod
    def operations(self) -> float:
        """How many a factorisation takes, all samples being active."""

    @property
    @abstractmethod
    def n_bytes(self) -> float:
        """What the factor takes, all samples being active."""

    @abstractmethod
    def step(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept.

        Parameters
        ----------
        point : Point
        curvature : ndarray of shape (n_samples,)
            Usually that of the point. It may differ, and need not vanish where pulls do.
        """

    def move(self, curvature, aim, decision=None):
        """Solve the system of other curvatures and aims.

        Parameters
        ----------
        curvature : ndarray of shape (n_samples,)
            At least zero.
        aim : ndarray of shape (n_samples, n_outputs)
            Used where curvatures are positive.
        decision : ndarray of shape (n_samples, n_outputs), default=None
            Decision values where curvatures vanish, if they are known.
        """
        self.number += 1
        self._pivot = None
        self.curvature, self.aim = curvature, aim
        self.active = np.flatnonzero(curvature)
        self._solve(decision)
        return self

    @abstractmethod
    def _solve(self, decision):
        """Set `coef`, `intercept`, `decision` and `error`."""

    @abstractmethod
    def _prepare(self):
        """Have what belongs to these curvatures, which steps with others may have changed."""

    @abstractmethod
    def _pivots(self):
        """Return one minus the leverages of the active samples, of shape (n_active,)."""

    def changes(self, share=None):
        """Return how far samples end from their aims without (a share of) themselves.

        Parameters
        ----------
        share : ndarray of shape (n_samples,), default=None
            How much of the weight of each sample is left out; all of it by default.

        Returns
        -------
        change : ndarray of shape (n_active, n_outputs)
            ``v`` of the equations above.
        known : ndarray of shape (n_active,), dtype bool
            False for a sample that is alone in the active set: it leaves no model behind.
        """
        if self._pivot is None:
            self._prepare()
            self._pivot = self._pivots()
        pivot = self._pivot
        if share is not None:
            pivot = 1 - share[self.active] * (1 - pivot)
        known = pivot > SINGULAR
        change = np.zeros_like(self.error)
        change[known] = self.error[known] / pivot[known, None]
        return change, known

    def left_out(self, share=None):
        """Return the decision value of each sample for the model without (a share of) it."""
        change, known = self.changes(share)
        decision = self.decision.copy()
        decision[self.active[known]] = (self.aim[self.active] - change)[known]
        return decision

    @abstractmethod
    def influence(self, new):
        """Return the influence of the aims on new samples, of shape (n_new, n_active).

        The model without sample i has the value ``f - influence * change`` there.

        Parameters
        ----------
        new : ndarray of shape (n_new, n_active) or (n_new, n_coef)
            Kernel values with the active samples where coefficients belong to samples, else
            features.
        """

    @abstractmethod
    def _leave_out(self, rows, known=None):
        """Return the model without `rows`, in the words of the backend.

        Parameters
        ----------
        rows : ndarray
        known : int or None
            Which of the folds this is that sums are kept of.
        """

    def _keeps_models(self, folds):
        """Return whether the models without each fold are kept for derivatives."""
        return True

    @abstractmethod
    def without(self, rows):
        """Return coefficients, of shape (n_coef, n_outputs), and intercepts without `rows`."""

    @abstractmethod
    def _values_without(self, rows, model):
        """Return the values of `rows` for the model without them."""

    @abstractmethod
    def _differentiate_without(self, rows, model, slope):
        """Return the `Derivatives` of a function, given those by these values."""

    @abstractmethod
    def _differentiate_test(self, test, slope):
        """Return the same, given those by the values of test samples."""

    def folds(self, folds: Folds) -> Values:
        """Return values for the models without each fold, of shape (n_repeats, n_samples, k)."""
        out = np.empty((*folds.fold.shape, self.aim.shape[1]))
        items = list(enumerate(folds.models()))
        models: list = [None] * len(items)
        found: list = [None] * len(items)

        def without(item):
            j, (repeat, rows) = item
            is_known = folds is self._folds and repeat == 0
            return self._leave_out(rows, j if is_known else None)

        def predict(item):
            j, (repeat, rows) = item
            model = without(item)
            if self._keeps_models(folds):
                models[j] = model
            out[repeat, rows] = self._values_without(rows, model)

        def differentiate(slope):
            def of_model(item):
                j, (repeat, rows) = item
                model = without(item) if models[j] is None else models[j]
                found[j] = self._differentiate_without(rows, model, slope[repeat, rows])

            self._prepare()
            for_each(of_model, items, self._work)
            return Derivatives(
                sum(each.by_aim for each in found),
                sum(each.by_log_curvature for each in found),
                [form for each in found for form in each.forms],
            )

        self._prepare()
        for_each(predict, items, self._work)
        return Values(out, differentiate, self, self.number)

    def predict(self, test) -> Values:
        """Return values of test samples, of shape (n_test, k).

        Parameters
        ----------
        test : GramTest or FeatureSpaceDesign
            Test samples, in the representation of the design.
        """
        decision = test.decisions(self.coef) + self.intercept
        return Values(decision, partial(self._differentiate_test, test), self, self.number)
