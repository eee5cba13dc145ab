"""Tuning without a grid: maximise a held-out score over continuous parameters.

The score (`optimargin.selection.loss`) has several hills and, in closed form, small jumps where the
active set changes. So the search takes first looks at well-spread points, and climbs from the best
of them within bounds, by a quasi-Newton method where there is a gradient and by simplices where
there is none. First looks are cheap: at few samples, and with kernels at quadratic losses, which
have no active set to find and share all factors between classes. What they found is where the
search of all samples begins; of many samples, some make most of the way, and all of them the last
steps. With many classes or samples that search stays at quadratic losses, too.

The closed form keeps the active set of all samples, which makes it pessimistic at large
penalties. So the best points, and the best of those with a larger penalty, are judged once more: by
the closed form together with fits without each fold, where these are cheap. The best of them is
taken.

Two further steps come after that: widths per feature (`optimargin.selection.relevance`), and the
penalty of linear models that suits all samples (`optimargin.selection.penalty`).
"""

from contextlib import nullcontext
from functools import partial

import numpy as np

from optimargin._threads import one_blas_thread, one_thread
from optimargin._ties import ranking
from optimargin.selection.stages import APART, FINALIST, Stage, unlike

N_FINALISTS = 3  # points that are judged once more
_CHEAP_UP_TO = 300  # samples up to which a second descent costs next to nothing
_SMALL = 1500  # samples up to which points are so cheap that threads wait more than they work
_SMALL_LINEAR = 5000  # samples up to which threads wait more than they work on linear models
_LARGER = 2.0  # log2 of the penalty, for the finalist that the closed form may underrate
_LOOKS_SHARE = 0.55  # of the evaluations and the time, for first looks
_SPREAD_SHARE = 0.4  # of the evaluations of a stage, before descents
_FEWEST = 20  # evaluations of a search with first looks of their own
_DESCENT = 12  # evaluations, at most, from one start
_LAST = 3  # evaluations, at most, of all samples where some made most of the way
_SHAPE = np.array([1.0, -2.0, 0.5])  # from the best quadratic loss to one with a band


def search_threads(data):
    """Return the context of a search: threads of BLAS, of our own over folds, or none.

    With kernels BLAS stays in one thread: its matrices are small, and NumPy's and SciPy's threads
    wait for each other. Pairs of classes are solved side by side.
    """
    if not data.kernel.kind.is_linear:
        return one_blas_thread() if data.are_pairs or data.n_samples > _SMALL else one_thread()
    return one_thread() if data.n_samples <= _SMALL_LINEAR else nullcontext()


def stages_of_search(loss, max_evals, random_state, findings, clock):
    """Yield the stages that lead to the least loss within its bounds, for `work_off`.

    Parameters
    ----------
    loss : HeldOutLoss
    max_evals : int
        How many points may be evaluated, first looks and finalists included.
    random_state : RandomState
        Draws samples and folds, and places first points (a scrambled Sobol sequence).
    findings : Findings
        Where points are kept, first looks and the way of some samples excepted.
    clock : Clock
    """
    n_judged = min(N_FINALISTS, 1 + max_evals // 10, max_evals - 1)
    n_searched = max_evals - n_judged
    looks, middle = loss.looks(random_state), loss.middle(random_state)
    look_around = partial(_look_around, random_state=random_state)
    if looks is None or n_searched < _FEWEST:
        yield Stage(loss, clock, look_around, reserve=n_judged, findings=findings)
    else:
        yield Stage(
            looks,
            clock,
            partial(look_around, within=loss.quadratic),
            round(_LOOKS_SHARE * n_searched),
            n_judged,
            share_of_time=_LOOKS_SHARE,
            is_heard=False,
        )
        if middle is not None:
            yield Stage(middle, clock, climb, reserve=_LAST + n_judged, is_heard=False)
            yield Stage(
                loss, clock, partial(_from_best, n_starts=1), _LAST, n_judged, findings=findings
            )
        else:
            yield Stage(loss, clock, climb, reserve=n_judged, findings=findings)
    if n_judged > 0 and not clock.is_over():
        points = finalists(loss, findings.all)[:n_judged]
        judge = loss.judge(points)
        if judge is loss:
            points = points[:1]  # the others are judged already
        look = partial(_look_at, points=points)
        yield Stage(judge, clock, look, len(points), findings=findings, level=FINALIST)


def _look_around(stage, _, random_state, within=None):
    """Look at spread points, and descend from the best two."""
    n_spread = min(max(round(_SPREAD_SHARE * stage.max_evals), 1), stage.max_evals)
    stage.spread(n_spread, within, random_state)
    _descend_from(stage, stage.best(2, hills=True), within)


def _look_at(stage, _, points):
    """Look at some points."""
    for x in points:
        stage(x, gradient=False)


def climb(stage, starts):
    """Descend from the best of some points, or from one beside the first of them.

    Parameters
    ----------
    stage : Stage
    starts : list of ndarray of shape (n_coordinates,)
        The best ones first; those of quadratic losses, where the loss has any.
    """
    loss, starts = stage.loss, list(starts)
    if loss.quadratic is not None and not loss.stays_quadratic:
        shaped = starts[0].copy()
        shaped[: _SHAPE.size] += _SHAPE
        starts.insert(1, np.clip(shaped, *loss.bounds.T))
    n_descents = min(2 if loss.used.size <= _CHEAP_UP_TO else 1, len(starts))
    stage.limit(len(starts) + n_descents * _DESCENT)
    _from_best(stage, starts, n_descents)


def _from_best(stage, starts, n_descents=1, n_starts=None):
    """Descend from the best of some points."""
    loss = stage.loss
    for x in starts[:n_starts]:
        stage(x)
    within = loss.quadratic if loss.stays_quadratic else None
    _descend_from(stage, stage.best(n_descents), within)


def _descend_from(stage, starts, within):
    for k, start in enumerate(starts):
        share = stage.n_left // (len(starts) - k)
        if share > 0:
            stage.descend(start, share, within)


def finalists(loss, judged):
    """Return the coordinates of points to be judged once more, to two digits.

    These are the best points that are not alike, and the best one of a larger penalty. Two digits
    are finer than the loss can tell apart, and hide what rounding does to descents.
    """
    scores = [each.score for each in judged]
    places = ranking(scores, lambda k: loss.roughness(judged[k].point))
    ranked = [judged[k].x for k in places]
    larger = [x for x in ranked if x[0] > ranked[0][0] + _LARGER]
    points = [
        np.clip(np.round(x, 2), *loss.bounds.T) for x in (ranked[0], *larger[:1], *ranked[1:])
    ]
    return unlike(points, APART * np.ptp(loss.bounds, axis=1), N_FINALISTS)
