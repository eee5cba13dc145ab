"""What searches say about the points that they have seen."""

import numpy as np

from optimargin._ties import ranks


def results_of(points, scores, plain_scores, best, levels=None):
    """Return `cv_results_`, and what is said about the chosen point.

    Ties share a rank, as equal scores do in scikit-learn's searches: the chosen point is one of
    those of rank one.

    Parameters
    ----------
    points : list of dict
    scores : ndarray of shape (n_points,)
        What points are chosen by.
    plain_scores : ndarray of shape (n_points,)
        What `score` measures, of held-out predictions.
    best : int
        Which of them was chosen.
    levels : ndarray of shape (n_points,), default=None
        Points of a higher one rank before all others (`optimargin.selection.stages.Judged`).
    """
    # Tables are of numbers: widths per feature are shown by their mean.
    shown = [{name: _mean(value) for name, value in point.items()} for point in points]
    table: dict = {f"param_{name}": np.array([p[name] for p in shown]) for name in points[0]}
    table["params"] = points
    table["mean_test_score"] = scores
    level = np.zeros(len(points), dtype=int) if levels is None else levels
    if levels is not None:
        table["is_finalist"] = level > 0
    rank = table["rank_test_score"] = np.empty(len(points), dtype=int)
    for k in np.unique(level):
        rank[level == k] = np.count_nonzero(level > k) + ranks(scores[level == k])
    return {
        "cv_results_": table,
        "best_index_": int(best),
        "best_params_": dict(points[best]),
        "held_out_score_": float(plain_scores[best]),
        "best_score_": float(scores[best]),
        **{f"{name}_": value for name, value in points[best].items()},
    }


def _mean(value):
    return value if np.ndim(value) == 0 else float(np.exp(np.log(value).mean()))
