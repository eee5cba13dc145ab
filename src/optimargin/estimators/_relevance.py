"""The part of a search that looks for a width per feature, and what it says about features."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from optimargin._threads import one_blas_thread, one_thread
from optimargin.estimators._penalty import PenaltySearch
from optimargin.estimators._probabilities import HeldOutDecision
from optimargin.estimators._search_results import with_point
from optimargin.selection.relevance import can_find_widths, find_widths
from optimargin.selection.search import StopSearch

RELEVANCE: dict = {"relevance": ["boolean", StrOptions({"auto"})]}


class RelevanceSearch(PenaltySearch):
    """Searches that end with a width per feature, where one is confirmed."""

    def _refined(self, found, held_out, loss, x, whole, tasks, deadline):
        est: Any = self
        if not (est.relevance and est.cv is None and can_find_widths(loss.data, loss.guide)):
            return super()._refined(found, held_out, loss, x, whole, tasks, deadline)
        progress, tick = est._further_steps(240, "evaluations of widths", tasks, deadline)
        try:
            # Pairs of classes have threads of their own; one output has too few samples here.
            with one_blas_thread() if loss.data.are_pairs else one_thread():
                random_state = check_random_state(est.random_state)
                at_once = est.relevance != "auto"
                widths = find_widths(
                    loss, x, held_out.decision, random_state, tick, at_once=at_once
                )
        except StopSearch:
            return found, held_out
        progress.end()
        if widths is None:
            return found, held_out
        point = {**loss.parameters_of_loss(widths.x), "gamma": widths.gamma}
        places = np.searchsorted(loss.data.rows, widths.rows)
        strata, is_used = loss.data.strata, loss.data.weight > 0
        held_out = None  # where they lack a class, which probabilities could not know of
        if np.unique(strata[places]).size == np.unique(strata[is_used]).size:
            held_out = HeldOutDecision(widths.rows, widths.decision)
        truth = loss.data.truth(places)
        plain_score = est._plain_criterion().score(widths.decision, truth)
        criterion, score = est._criterion(False, np.unique(loss.data.strata).size), widths.score
        if criterion is not criterion.guide:
            score = criterion.score(widths.decision, truth)
        return with_point(found["cv_results_"], point, score, plain_score), held_out


class Relevance:
    """A search that may have found a width per feature."""

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in squared distances, of shape (n_features,)."""
        found = vars(self)
        if np.ndim(found.get("gamma_", 0.0)) > 0:  # one width for all says nothing about features
            return found["feature_importances_"]
        way = "Look for widths of an RBF kernel with relevance=True, without a grid and cv, or use "
        if getattr(self, "relevance", True) is True:  # it has looked, or cannot
            way = "Use "
        raise AttributeError(
            "feature_importances_ is there where a search has found a width per feature: one "
            f"width for all says nothing about them. {way}permutation_importance of "
            "sklearn.inspection."
        )


def relevance_of(gamma, X, weight):
    """Return the width of each feature, and, where these differ, its share of squared distances.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_features,)
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,) or None
    """
    gammas = np.broadcast_to(np.asarray(gamma, dtype=np.float64), X.shape[1])
    with np.errstate(divide="ignore"):
        found = {"widths_": 1.0 / np.sqrt(2.0 * gammas)}
    if np.ndim(gamma) > 0:
        share = gammas * _variances(X, weight)
        found["feature_importances_"] = share / share.sum()
    return found


def _variances(X, weight):
    """Return the weighted variance of each feature."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    weight = weight / weight.sum()
    mean = weight @ X
    if issparse(X):
        return np.maximum(weight @ X.power(2) - mean**2, 0.0)
    return weight @ np.square(X - mean)
