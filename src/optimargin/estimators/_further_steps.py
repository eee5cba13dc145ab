"""What comes after a search without a grid: widths per feature, or the penalty of all samples."""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from optimargin._threads import one_blas_thread, one_thread
from optimargin.selection.clock import StopSearch
from optimargin.selection.penalty import MANY, MAX_FITS, can_find_penalty, find_penalty
from optimargin.selection.relevance import MAX_STEPS, can_find_widths, find_widths
from optimargin.selection.stages import FURTHER
from optimargin.tasks import Classification


def further_steps(est, loss, whole):
    """Return how many evaluations come after a search, about, and what makes them or None.

    That takes the findings of the search, its criterion and its clock.

    Parameters
    ----------
    est : BaseSelectionCV
    loss : HeldOutLoss
        Of the search.
    whole : SelectionData
        All samples.
    """
    looks_for_widths = est.cv is None and getattr(est, "relevance", False)
    if looks_for_widths and can_find_widths(loss.data, loss.guide):
        return MAX_STEPS, partial(_look_for_widths, est, loss)
    if est.cv is None and whole.objective_type.has_closed_form and whole.kernel.kind.is_linear:
        random_state = check_random_state(est.random_state)
        every = whole.sample(est.max_samples, random_state)
        if loss.data.n_samples < every.n_samples and can_find_penalty(every):
            return MAX_FITS, partial(_look_for_penalty, est, every, random_state)
    return 0, None


def _look_for_widths(est, loss, findings, criterion, clock):
    """Add widths per feature to the findings, where some are confirmed."""
    data, random_state = loss.data, check_random_state(est.random_state)
    try:
        # Pairs of classes have threads of their own; one output has too few samples here.
        with one_blas_thread() if data.are_pairs else one_thread():
            at_once = est.relevance != "auto"
            found = find_widths(loss, findings.chosen, random_state, clock, at_once=at_once)
    except StopSearch:
        return
    if found is not None:
        findings.add(found, FURTHER)
        if data.lacks_a_class(np.searchsorted(data.rows, found.truth.rows)):
            found.decision = None  # probabilities could not know of that class


def _look_for_penalty(est, every, random_state, findings, criterion, clock):
    """Add the penalty of all samples to the findings, where there is time to find it."""
    # Of many samples the accuracy itself tells more than its smooth form.
    is_smooth = est.scoring is None and isinstance(every.task, Classification)
    is_plain = is_smooth and every.task.class_weight is None and every.n_samples >= MANY
    chooser, options = (
        est._plain_criterion() if is_plain else criterion,
        est._make_estimator()._options(),
    )
    x = findings.chosen.x
    found = find_penalty(every, x, chooser, options, random_state, clock)
    if found is not None:
        score = criterion.score(found.decision, found.truth)
        findings.add(replace(found, loss=1.0 - score), FURTHER)
