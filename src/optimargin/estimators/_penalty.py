"""The part of a search for linear models that all samples take part in."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from optimargin.estimators._probabilities import HeldOutDecision
from optimargin.estimators._search_results import with_point
from optimargin.selection.penalty import MANY, MAX_FITS, can_find_penalty, find_penalty
from optimargin.tasks import Classification


class PenaltySearch:
    """Searches of some samples that end, with linear models, with the penalty of all of them."""

    def _refined(self, found, held_out, loss, x, whole, tasks, deadline):
        est: Any = self
        if est.cv is not None or not whole.kernel.kind.is_linear:
            return found, held_out
        random_state = check_random_state(est.random_state)
        every = whole.sample(est.max_samples, random_state)
        if loss.data.n_samples == every.n_samples or not can_find_penalty(every):
            return found, held_out
        progress, tick = est._further_steps(MAX_FITS, "fits to all samples", tasks, deadline)
        criterion = est._criterion(False, np.unique(every.strata).size)
        plain = est._plain_criterion()
        # Of many samples the accuracy itself tells more than its smooth form.
        is_smooth = est.scoring is None and isinstance(every.task, Classification)
        is_plain = is_smooth and every.task.class_weight is None and every.n_samples >= MANY
        chooser = plain if is_plain else criterion
        options = est._make_estimator()._options()
        best = find_penalty(every, x, chooser.score, options, random_state, tick)
        if best is None:
            return found, held_out
        progress.end()
        point = every.objective_type.at(best.x, every.unit)
        truth = every.truth(np.searchsorted(every.rows, best.rows))
        scores = [each.score(best.decision, truth) for each in (criterion, plain)]
        found = with_point(found["cv_results_"], point, *scores)
        return found, HeldOutDecision(best.rows, best.decision)
