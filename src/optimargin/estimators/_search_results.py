"""What searches say about the points that they have seen."""

import numpy as np


def with_point(table, point, score, plain_score):
    """Return the results with one more point, which is the chosen one."""
    table = dict(table)
    for name, value in point.items():
        # Tables are of numbers: widths per feature are shown by their mean.
        shown = value if np.ndim(value) == 0 else float(np.exp(np.log(value).mean()))
        table[f"param_{name}"] = np.append(table[f"param_{name}"], shown)
    table["params"] = [*table["params"], point]
    table["mean_test_score"] = np.append(table["mean_test_score"], score)
    table["is_finalist"] = np.append(table["is_finalist"], True)
    table["rank_test_score"] = np.append(table["rank_test_score"] + 1, 1)
    return {"cv_results_": table, **choice(table, len(table["params"]) - 1, plain_score)}


def choice(table, index, plain_score):
    """Return what is said about the chosen point.

    Parameters
    ----------
    table : dict
        `cv_results_`.
    index : int
    plain_score : float
        What `score` measures, of held-out predictions.
    """
    return {
        "best_index_": int(index),
        "best_params_": dict(table["params"][index]),
        "held_out_score_": float(plain_score),
        "best_score_": float(table["mean_test_score"][index]),
        **{f"{name}_": value for name, value in table["params"][index].items()},
    }
