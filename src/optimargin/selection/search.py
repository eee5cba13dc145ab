"""Tuning without a grid: maximise a held-out score over continuous parameters.

The score (`optimargin.selection.loss`) has several hills and, in closed form, small jumps where the
active set changes. So the search takes first looks at well-spread points, and climbs from the best
of them within bounds, by a quasi-Newton method where there is a gradient and by simplices where
there is none. First looks are cheap: at few samples, and with kernels at quadratic losses, which
have no active set to find and share all factors between classes. What they found is where the
search of all samples begins; of many samples, some make most of the way, and all of them the last
steps. With several classes and more than few samples that search stays at quadratic losses, too.

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

from optimargin._threads import FACTORISE_ALONE_UP_TO, one_blas_thread, one_thread
from optimargin._ties import ranking
from optimargin.selection.loss import FEW_SAMPLES, N_FOLDS
from optimargin.selection.stages import APART, Level, Stage, unlike

N_FINALISTS = 3  # points that are judged once more, and last steps where some samples went ahead
LARGER = 2.0  # log2 of the penalty, for the finalist that the closed form may underrate
DESCENT = 12  # evaluations, at most, from one start
_LOOKS = 250  # samples that first looks are taken at, at least
_LINEAR_LOOKS = 3000  # the same of linear models: from fewer, 10,000 take half as long again
_LOOKS_SHARE = 0.55  # of the evaluations and the time, for first looks
_SPREAD_SHARE = 0.4  # of the evaluations of a stage, before descents
SMALL = 1500  # samples up to which points are so cheap that threads wait more than they work


def search_threads(data):
    """Return the context of a search: threads of BLAS, of our own over folds, or none.

    With kernels BLAS stays in one thread: its matrices are small, and NumPy's and SciPy's threads
    wait for each other. Pairs of classes are solved side by side.
    """
    if not data.kernel.kind.is_linear:
        return one_blas_thread() if data.are_pairs or data.n_samples > SMALL else one_thread()
    return one_thread() if data.n_samples <= FACTORISE_ALONE_UP_TO else nullcontext()


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
    n_looks = round(_LOOKS_SHARE * (max_evals - n_judged))
    looks, middle = looks_and_middle(loss, random_state)
    look_around = partial(_look_around, random_state=random_state)
    if looks is None or n_looks < DESCENT:
        yield Stage(loss, clock, look_around, reserve=n_judged, findings=findings)
    else:
        look_around = partial(look_around, within=loss.quadratic)
        yield Stage(looks, clock, look_around, n_looks, n_judged, _LOOKS_SHARE, is_heard=False)
        if middle is not None:
            yield Stage(middle, clock, climb, reserve=N_FINALISTS + n_judged, is_heard=False)
            yield Stage(loss, clock, _last_steps, N_FINALISTS, n_judged, findings=findings)
        else:
            yield Stage(loss, clock, climb, reserve=n_judged, findings=findings)
    if n_judged > 0 and not clock.is_over():
        points = finalists(loss, findings.all)[:n_judged]
        judge = loss.judge(points)
        if judge is loss:
            points = points[:1]  # the others are judged already
        look = partial(_look_at, points=points)
        yield Stage(judge, clock, look, len(points), findings=findings, level=Level.FINALIST)


def looks_and_middle(loss, random_state):
    """Return the losses of first looks, at few samples, and of most of the way, at some; or None.

    The middle is the geometric mean of few and all: each loss costs as many times the one before.

    Parameters
    ----------
    loss : HeldOutLoss
    random_state : RandomState
        Draws folds.
    """
    if loss.folds is None or not loss.has_gradient:
        return None, None
    n_samples = loss.data.n_samples
    # Of every class several samples are in every fold.
    n_few = max(_LOOKS, N_FOLDS**2 * np.unique(loss.data.strata).size)
    n_some = int(np.sqrt(n_few * n_samples))
    if not loss.has_width:  # looks at linear models are cheap
        n_looks = max(_LINEAR_LOOKS, n_some)
        return loss.of_some(n_looks, random_state) if n_samples > n_looks else None, None
    # Below, the last steps of all samples are too few (regression at 1400 loses 3 % in the error).
    middle = loss.of_some(n_some, random_state) if n_samples > 6 * n_few else None
    if n_samples > n_few:
        return loss.of_some(n_few, random_state), middle
    return None if loss.quadratic is None else loss, None


def _stays_quadratic(loss):
    """Return whether active sets of all outputs would cost too much, or tell too little.

    Pairs of classes have few samples each, whose closed form jumps where active sets change.
    """
    if loss.quadratic is None or len(loss.data.targets) == 1:
        return False
    return loss.data.are_pairs or loss.used.size > FEW_SAMPLES


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
    if loss.quadratic is not None and not _stays_quadratic(loss):
        default = loss.data.objective_type.default_x
        shaped = starts[0].copy()
        shaped[: default.size] += default  # which is as far from one of the quadratic losses
        starts.insert(1, np.clip(shaped, *loss.bounds.T))
    n_descents = min(2 if loss.used.size <= FEW_SAMPLES else 1, len(starts))
    stage.limit(len(starts) + n_descents * DESCENT)
    _last_steps(stage, starts, n_descents, len(starts))


def _last_steps(stage, starts, n_descents=1, n_starts=1):
    """Descend from the best of the first points."""
    for x in starts[:n_starts]:
        stage(x)
    within = stage.loss.quadratic if _stays_quadratic(stage.loss) else None
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
    larger = [x for x in ranked if x[0] > ranked[0][0] + LARGER]
    points = [
        np.clip(np.round(x, 2), *loss.bounds.T) for x in (ranked[0], *larger[:1], *ranked[1:])
    ]
    return unlike(points, APART * np.ptp(loss.bounds, axis=1), N_FINALISTS)
