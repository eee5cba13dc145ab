"""From the columns of a table to numbers of similar size, as steps of the model that is saved."""

from copy import copy

import numpy as np
from scipy.sparse import issparse

from optimargin.cli._options import Imputation, Scaling

_STRATEGY = {Imputation.median: "median", Imputation.mean: "mean"}
_COLUMNS = "columns"  # the step that finds them
_RARE = 2  # categories of fewer samples share one column


def make_steps(samples, preparing):
    """Return the transformers, by name, that come before an estimator in a pipeline.

    Parameters
    ----------
    samples : Dataset
        What they will be fitted to.
    preparing : Preparing
        What was asked for.

    Returns
    -------
    steps : list of (str, transformer)
        Empty if there is nothing to do.
    """
    is_table = samples.kinds is not None
    numbers = _number_steps(preparing, is_table, issparse(samples.X))
    if not is_table or "category" not in samples.kinds:
        return numbers
    from sklearn.compose import ColumnTransformer

    places = {
        kind: [j for j, own in enumerate(samples.kinds) if own == kind]
        for kind in ("number", "category")
    }
    parts = [("categories", _piped(_category_steps(preparing)), places["category"])]
    if places["number"]:
        parts.insert(0, ("numbers", _piped(numbers), places["number"]))
    return [("prepare", ColumnTransformer(parts))]


def _number_steps(preparing, is_table, is_sparse):
    steps = []
    if is_table and preparing.impute != Imputation.none:
        from sklearn.impute import SimpleImputer

        steps.append(("impute", SimpleImputer(strategy=_STRATEGY[preparing.impute])))
    if preparing.scale != Scaling.none:
        from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

        if preparing.scale == Scaling.standard:
            scaler = StandardScaler(with_mean=not is_sparse)  # sparse data keep their zeros
        else:
            scaler = MaxAbsScaler() if is_sparse else MinMaxScaler()
        steps.append(("scale", scaler))
    return steps


def _category_steps(preparing):
    from sklearn.preprocessing import OneHotEncoder

    steps = []
    if preparing.impute != Imputation.none:
        from sklearn.impute import SimpleImputer

        steps.append(("impute", SimpleImputer(strategy="most_frequent")))
    # A category that is new to the model counts as a rare one, or has no column at all.
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=_RARE)
    return [*steps, ("encode", encoder)]


def _piped(steps):
    from sklearn.pipeline import Pipeline

    return Pipeline(steps) if steps else "passthrough"


def with_steps(steps, estimator, name):
    """Return the model to save: the estimator, after its preparation if there is one."""
    if not steps:
        return estimator
    from sklearn.pipeline import Pipeline

    return Pipeline([*steps, (name, estimator)])


def named(model, names):
    """Return a fitted model that knows its columns by name.

    A pipeline gets a first step that finds them in a DataFrame, in any order and among others, and
    hands on an array; arrays are taken as they are. The step is made of scikit-learn's parts,
    which model files may hold. An estimator alone refuses a DataFrame with other columns.

    Parameters
    ----------
    model : estimator
    names : list of str
    """
    known = np.array(names, dtype=object)
    if not hasattr(model, "steps"):
        model = copy(model)
        model.feature_names_in_ = known
        return model
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    finder = ColumnTransformer([("all", "passthrough", slice(0, known.size))])
    finder.fit(np.zeros((1, known.size)))
    finder.feature_names_in_ = known
    return Pipeline([(_COLUMNS, finder), *model.steps])


def prepared(steps, X):
    """Fit the steps to X, one after the other, and return what comes out."""
    for _, step in steps:
        X = step.fit_transform(X)
    return X


def transformed(model, X):
    """Return X as the last step of a fitted model sees it."""
    return model[:-1].transform(X) if hasattr(model, "steps") else X


def describe_preparation(model):
    """Return what a model does to a table before it predicts, as text; None if nothing."""
    if not hasattr(model, "steps"):
        return None
    words = []
    for step_name, step in model.steps[:-1]:
        if step_name == _COLUMNS:
            continue
        parts = getattr(step, "transformers_", [(None, step, None)])
        for name, part, _ in parts:
            inner = [each for _, each in part.steps] if hasattr(part, "steps") else [part]
            told = ", ".join(_in_words(each) for each in inner if not isinstance(each, str))
            if told:
                words.append(told if name is None else f"{name}: {told}")
    return "; ".join(words) if words else None


def count_new_categories(model, X):
    """Return how many cells hold a category that a model has not seen in training.

    Parameters
    ----------
    model : estimator
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
    """
    n_new = 0
    for _, step in getattr(model, "steps", []):
        for _, part, places in getattr(step, "transformers_", []):
            encoder = part.steps[-1][1] if hasattr(part, "steps") else part
            if not hasattr(encoder, "categories_"):
                continue
            for place, known in zip(places, encoder.categories_, strict=True):
                texts = {cell for cell in X[:, place].tolist() if isinstance(cell, str)}
                new = texts - set(known.tolist())
                n_new += sum(cell in new for cell in X[:, place].tolist()) if new else 0
    return n_new


def scaler_of(model):
    """Return the name of the class that scales the numbers of a model, or None."""
    if not hasattr(model, "steps"):
        return None
    steps = [step for _, step in model.steps[:-1]]
    for step in list(steps):
        for _, part, _ in getattr(step, "transformers_", []):
            steps += [each for _, each in getattr(part, "steps", [])]
    names = [type(step).__name__ for step in steps]
    return next((name for name in names if name.endswith("Scaler")), None)


def _in_words(step):
    kind = type(step).__name__
    if kind == "SimpleImputer":
        return f"{step.strategy.replace('_', ' ')} for missing values"
    if kind == "OneHotEncoder":
        return f"one-hot ({step.n_features_in_} become {len(step.get_feature_names_out())})"
    return kind
