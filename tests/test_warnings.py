"""Warnings point at the line of the user."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from optimargin import LinearODMClassifier
from optimargin._warnings import warn_user

pytestmark = pytest.mark.quick


def test_a_warning_names_the_caller_and_its_category():
    with pytest.warns(DeprecationWarning, match="old") as caught:
        warn_user("old", DeprecationWarning)
    assert caught[0].filename == __file__


def test_frames_of_scikit_learn_are_passed_through():
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = np.arange(50) % 2
    model = make_pipeline(LinearODMClassifier(solver="dcd", max_iter=1, tol=1e-12, C1=1e6))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    (told,) = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert told.filename == __file__
