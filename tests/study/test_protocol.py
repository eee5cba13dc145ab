"""Splits, folds, scaling and the plan."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from optimargin_study.methods import METHODS, find_methods
from optimargin_study.protocol import TABLES, Unit, half_split, make_problem, plan
from optimargin_study.sample_sets import SAMPLE_SETS, set_name

pytestmark = pytest.mark.quick


def test_all_methods_and_kernels_see_the_same_halves():
    one, other = (make_problem(Unit(t, "wdbc", 4, m)) for t, m in ((2, "svm"), (3, "odm")))
    assert_array_equal(one.X, other.X)
    assert_array_equal(one.y_test, other.y_test)
    for (a, b), (c, d) in zip(one.folds, other.folds, strict=True):
        assert_array_equal(a, c)
        assert_array_equal(b, d)


def test_repeats_differ():
    one, other = (make_problem(Unit(2, "wdbc", r, "svm")) for r in (1, 2))
    assert not np.array_equal(one.X, other.X)


def test_halves_and_folds_are_partitions():
    y = np.repeat([-1, 1], [31, 30])
    train, test = half_split(y, 7)
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(61))
    assert train.size == 30
    problem = make_problem(Unit(3, "wdbc", 1, "svm"))
    held_out = np.sort(np.concatenate([test for _, test in problem.folds]))
    assert_array_equal(held_out, np.arange(problem.y.size))


def test_rare_class_is_in_every_training_half():
    y = np.where(np.arange(40) < 4, 1, -1)
    for seed in range(50):
        train, _ = half_split(y, seed)
        assert (y[train] == 1).sum() >= 2


def test_scaling_uses_the_whole_set_or_the_training_half():
    unit = Unit(2, "wdbc", 1, "svm")
    whole, half = make_problem(unit), make_problem(unit, "train")
    both = np.concatenate([whole.X, whole.X_test])
    assert_array_equal([both.min(axis=0), both.max(axis=0)], [np.zeros(30), np.ones(30)])
    assert_array_equal([half.X.min(axis=0), half.X.max(axis=0)], [np.zeros(30), np.ones(30)])
    with pytest.raises(ValueError, match="scaling='none'"):
        make_problem(unit, "none")


def test_plan_is_breadth_first_and_complete():
    units = plan([2, 3], find_methods(["svm", "odm", "mdo"]))
    assert [u.repeat for u in units] == sorted(u.repeat for u in units)
    assert len(units) == len(set(units)) == 32 * 30 * (3 + 2)  # MDO is linear only
    assert plan([4], METHODS, ["w8a"], 1) == [
        Unit(4, "w8a", 1, key) for key, m in METHODS.items() if 4 in m.tables
    ]


def test_sample_sets_are_planned_only_when_asked_for():
    methods = find_methods(["svm"])
    assert not {u.dataset for u in plan([2], methods, None, 1)} & set(SAMPLE_SETS)
    assert plan([3], methods, ["iris", "wdbc"], 1) == [
        Unit(3, "wdbc", 1, "svm"),
        Unit(3, "iris", 1, "svm"),
    ]
    assert plan([4], methods, ["iris"], 1) == []


@pytest.mark.parametrize("name", SAMPLE_SETS)
def test_sample_set_has_two_classes_and_no_missing_values(name):
    problem = make_problem(Unit(2, name, 1, "svm"))
    assert set(problem.y) == {-1, 1}
    assert np.isfinite(problem.X).all()
    assert set_name(name) == name
    assert set_name("kdda2010") == "kdd2010"


def test_seed_of_a_unit_never_changes():
    assert Unit(2, "german", 1, "odm").seed == 3285927076
    assert TABLES[2].repeats == 30
    assert TABLES[4].repeats == 10


def test_unknown_method_is_refused_with_similar_names():
    with pytest.raises(ValueError, match=r"no method 'swm'.*did you mean"):
        find_methods(["swm"])
