"""All models without one sample each, at new points, from one factor.

With u_i what the model without sample i lacks at its aim, and g_i(x) the influence of that aim on
the decision value f(x) (`optimargin.held_out.closed_form`),

    f_-i(x) = f(x) - u_i g_i(x)    for i in the active set, f(x) for all others.

One factorisation and 2 n_active^2 operations per new sample give all of them. It is exact as long
as no other sample enters or leaves the active set.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from optimargin.held_out.closed_form import active_system


@dataclass(frozen=True)
class LeftOutModels:
    """The models without one sample each.

    Attributes
    ----------
    active : ndarray of shape (n_active,)
        The samples whose removal changes the model.
    own : ndarray of shape (n_samples,)
        The decision value of each sample for the model without it.
    """

    active: np.ndarray
    own: np.ndarray
    _system: Any
    _change: np.ndarray

    @classmethod
    def of(cls, problem, coef, intercept) -> "LeftOutModels":
        """Return the models of a solved problem.

        Parameters
        ----------
        problem : AdditiveProblem
            Its loss must be piecewise quadratic.
        coef, intercept : ndarray, float
            The solution of `problem`.
        """
        system = active_system(problem, problem.point(coef, intercept))
        change, known = system.changes()
        return cls(system.active, system.own_values(change, known), system, change)

    def decisions(self, decision, new):
        """Return the decision values of new samples for each model without an active sample.

        Parameters
        ----------
        decision : ndarray of shape (n_new,)
            Of the model of all samples, with the intercept.
        new : ndarray of shape (n_new, n_active) or (n_new, n_coef)
            In sample space the kernel values with the active samples, in feature space the
            features.

        Returns
        -------
        decisions : ndarray of shape (n_new, n_active)
        """
        return decision[:, None] - self._system.influence(new) * self._change
