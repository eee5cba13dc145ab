"""Labels become targets, and scores become labels."""

import numpy as np
import pytest
from sklearn.svm import SVC

from optimargin.tasks import Classification, check_known, votes_and_confidence, winning_class

pytestmark = pytest.mark.quick

THREE = np.array(["a", "b", "c", "a", "c"])


def test_two_classes_have_one_output_whose_positive_class_is_the_second():
    task = Classification.from_labels(np.array(["no", "yes", "yes"]))
    (target,) = task.encode(np.array(["yes", "no", "yes"]))
    np.testing.assert_array_equal(target.value, [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(task.decode(np.array([[0.5], [-0.5]])), ["yes", "no"])
    assert task.held_out_error(target, np.array([1.0, 1.0, 1.0])) == pytest.approx(1 / 3)


def test_one_output_per_class_or_per_pair_on_its_own_samples():
    rest = Classification.from_labels(THREE)
    assert [t.value.tolist() for t in rest.encode(THREE)][1] == [-1, 1, -1, -1, -1]
    pairs = Classification.from_labels(THREE, multi_class="ovo")
    assert pairs.pairs == [(0, 1), (0, 2), (1, 2)]
    used = [np.flatnonzero(target.weight).tolist() for target in pairs.encode(THREE)]
    assert used == [[0, 1, 3], [0, 2, 3, 4], [1, 2, 4]]
    assert pairs.attributes()["_pairwise"]


def test_pairs_vote_as_those_of_svc():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 4
    model = SVC(decision_function_shape="ovo").fit(X, y)
    task = Classification.from_labels(y, multi_class="ovo")
    scores = -model.decision_function(X)  # positive values of SVC speak for the first class
    model.set_params(decision_function_shape="ovr")
    np.testing.assert_allclose(task.combine(scores), model.decision_function(X))


def test_confidence_counts_less_than_half_a_vote():
    first, second = Classification.from_labels(THREE, multi_class="ovo").voting()
    decision = 100 * np.random.default_rng(0).normal(size=(50, 3))
    values = votes_and_confidence(decision, first, second)
    assert (np.abs(values - np.round(values)) < 0.5).all()
    np.testing.assert_array_equal(np.round(values).sum(axis=1), 3)


@pytest.mark.parametrize(
    ("class_weight", "factor"), [(None, [1, 1]), ("balanced", [2, 2 / 3]), ({1: 5.0}, [1, 5])]
)
def test_class_weights_become_factors(class_weight, factor):
    y = np.array([0, 1, 1, 1])
    task = Classification.from_labels(y, class_weight=class_weight)
    np.testing.assert_allclose(task.factor, factor)
    assert task.total == pytest.approx(task.factor[y].sum())
    chunks = [Classification.describe(part, np.ones(2)) for part in (y[:2], y[2:])]
    joined = Classification.from_parts(chunks, class_weight=class_weight)
    np.testing.assert_allclose(joined.factor, factor)


def test_a_class_that_a_part_lacks_has_no_weight():
    weights = {"a": 1.0, "b": 2.0, "c": 3.0}
    for class_weight in (None, "balanced", weights):
        part = Classification.from_labels(THREE, class_weight=class_weight).part(THREE[[0, 2, 3]])
        assert part.factor[1] == 0.0
        assert (part.factor[[0, 2]] > 0).all()


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "message"),
    [
        ({"x": 2.0}, None, "are not in class_weight"),
        ({"a": -1.0}, None, "negative or non-finite"),
        ({"a": 0.0}, None, "class 'a' have zero weight"),
        (None, np.zeros(5), "zero for every sample"),
        ({"a": 1e300}, np.full(5, 1e300), "overflows when summed"),
    ],
)
def test_weights_of_no_use_are_named(class_weight, sample_weight, message):
    with pytest.raises(ValueError, match=message):
        Classification.from_labels(THREE, sample_weight, class_weight)


def test_labels_of_no_use_are_named():
    with pytest.raises(ValueError, match="one class only"):
        Classification.from_labels(np.ones(3))
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        Classification.from_parts([(np.arange(3), np.ones(3))], multi_class="ovo")
    with pytest.raises(ValueError, match="new label"):
        check_known(np.arange(2), np.array([0, 2]), "new label")
    assert winning_class(np.array([[0.1, 0.2, 0.0]])).tolist() == [1]
