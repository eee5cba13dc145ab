"""Scores that differ by rounding are the same score, and a rule chooses among their points."""

import numpy as np
import pytest

from optimargin._ties import TOLERANCE, Levels, exceeds, place_of_best, ranking, ranks
from optimargin.objectives import LDM, ODM, ODMRegression


def rounded_anew(values, seed=0):
    """Return values with other last digits."""
    return values * (1 + 1e-9 * np.random.default_rng(seed).uniform(-1, 1, np.shape(values)))


# Of two points of one row, the first is the smoother one.
PAIRS = [
    (ODM, {"C1": 1.0, "C2": 9.0, "gamma": 9.0}, {"C1": 2.0, "C2": 1.0, "gamma": 0.1}),
    (ODM, {"C1": 1.0, "C2": 1.0, "gamma": 9.0}, {"C1": 1.0, "C2": 2.0, "gamma": 0.1}),
    (ODM, {"C1": 1.0, "gamma": 0.1, "D": 0.0}, {"C1": 1.0, "gamma": 9.0, "D": 0.5}),
    (ODM, {"C1": 1.0, "gamma": 0.1, "D": 0.5}, {"C1": 1.0, "gamma": 0.1, "D": 0.0}),
    (ODMRegression, {"C1": 1.0, "gamma": 0.1, "epsilon": 0.0}, {"C1": 1.0, "gamma": 9.0}),
    (LDM, {"C": 1.0, "lambda2": 9.0}, {"C": 2.0, "lambda2": 1.0}),
    (LDM, {"C": 1.0, "lambda2": 1.0}, {"C": 1.0, "lambda2": 2.0, "lambda1": 9.0}),
    (LDM, {"C": 1.0, "lambda1": 1.0, "gamma": 0.1}, {"C": 1.0, "lambda1": 2.0, "gamma": 9.0}),
    (LDM, {"C": 1.0, "lambda1": 2.0, "gamma": 0.1}, {"C": 1.0, "lambda1": 1.0, "gamma": 0.1}),
]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pair", PAIRS)
def test_ties_go_to_the_smallest_penalty_the_largest_width_and_the_simplest_loss(pair, seed):
    kind, *points = pair
    scores = rounded_anew(np.full(2, 0.9), seed)
    assert place_of_best(scores, lambda k: kind.roughness(points[k])) == 0
    assert place_of_best(scores, lambda k: kind.roughness(points[1 - k])) == 1


@pytest.mark.parametrize("seed", range(5))
def test_points_that_agree_up_to_rounding_are_told_apart_by_what_comes_next(seed):
    C1, gamma = rounded_anew(np.full(3, 8.0), seed), np.array([2.0, 1.0, 3.0])
    points = [{"C1": a, "gamma": b} for a, b in zip(C1, gamma, strict=True)]
    assert place_of_best(np.ones(3), lambda k: ODM.roughness(points[k])) == 1


def test_points_that_agree_in_everything_are_taken_in_order():
    assert place_of_best([0.1, 0.7, 0.7, np.nan]) == 1
    assert place_of_best([np.nan, -np.inf]) == 0


def test_a_score_that_is_better_by_more_than_the_tolerance_wins():
    points = [{"C1": 1.0}, {"C1": 8.0}]
    for better, place in ((0.5 * TOLERANCE, 0), (2 * TOLERANCE, 1)):
        scores = [-5.0, -5.0 * (1 - better)]
        assert place_of_best(scores, lambda k: ODM.roughness(points[k])) == place


def test_counts_that_differ_by_one_are_no_ties():
    n_samples = 500_000
    counts = np.arange(n_samples - 3, n_samples) / n_samples
    assert exceeds(counts[1:], counts[:-1]).all()
    assert not exceeds(rounded_anew(counts), counts).any()


def test_the_ranking_takes_the_best_first_and_ties_by_the_rule():
    scores = rounded_anew(np.array([0.5, 0.9, 0.7, 0.9, 0.5]))
    penalties = [1.0, 8.0, 1.0, 4.0, 0.5]
    found = ranking(scores, lambda k: ODM.roughness({"C1": penalties[k]}))
    assert list(found) == [3, 1, 2, 4, 0]


def test_ties_share_a_rank():
    scores = np.array([0.5, 0.9, np.nan, 0.7, 0.9, 0.5, np.nan])
    for seed in range(5):
        assert ranks(rounded_anew(scores, seed)).tolist() == [4, 1, 6, 3, 1, 4, 6]
    assert ranks(np.full(3, np.nan)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_losses_that_tie_become_larger_in_the_order_they_come(seed):
    level = Levels()
    losses = [0.3, 0.2, 0.3, 0.3, 0.2]
    found = [level(loss) for loss in rounded_anew(np.array(losses), seed)]
    assert np.argsort(found).tolist() == [1, 4, 0, 2, 3]
    np.testing.assert_allclose(found, losses, rtol=1e-8)
