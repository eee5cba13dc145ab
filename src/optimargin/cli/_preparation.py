"""From the columns of a table to numbers of similar size, as steps of the model that is saved."""

from copy import copy

import numpy as np
from scipy.sparse import issparse

_COLUMNS = "columns"  # the step that finds them


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
    if is_table and preparing.impute != "none":
        from sklearn.impute import SimpleImputer

        steps.append(("impute", SimpleImputer(strategy=preparing.impute)))
    if preparing.scale != "none":
        from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

        if preparing.scale == "standard":
            scaler = StandardScaler(with_mean=not is_sparse)  # sparse data keep their zeros
        else:
            scaler = MaxAbsScaler() if is_sparse else MinMaxScaler()
        steps.append(("scale", scaler))
    return steps


def _category_steps(preparing):
    from sklearn.preprocessing import OneHotEncoder

    steps = []
    if preparing.impute != "none":
        from sklearn.impute import SimpleImputer

        steps.append(("impute", SimpleImputer(strategy="most_frequent")))
    # Categories that occur once share a column with those that are new to the model.
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2)
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


def _parts_of(model):
    """Yield name, transformers and places of the columns that a model prepares alike.

    Name and places are None where it prepares all columns alike.
    """
    for step_name, step in getattr(model, "steps", [])[:-1]:
        if step_name == _COLUMNS:
            continue
        for name, part, places in getattr(step, "transformers_", [(None, step, None)]):
            inner = [each for _, each in part.steps] if hasattr(part, "steps") else [part]
            inner = [each for each in inner if not isinstance(each, str)]
            if inner:
                yield name, inner, places


def describe_preparation(model):
    """Return what a model does to a table before it predicts, as text; None if nothing."""
    words = []
    for name, inner, _ in _parts_of(model):
        told = ", ".join(map(_in_words, inner))
        words.append(told if name is None else f"{name}: {told}")
    return "; ".join(words) or None


def count_new_categories(model, X):
    """Return how many cells hold a category that a model has not seen in training.

    Parameters
    ----------
    model : estimator
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
    """
    n_new = 0
    for _, inner, places in _parts_of(model):
        if places is None or not hasattr(inner[-1], "categories_"):
            continue
        for place, categories in zip(places, inner[-1].categories_, strict=True):
            known = set(categories.tolist())
            cells = X[:, place].tolist()
            n_new += sum(isinstance(cell, str) and cell not in known for cell in cells)
    return n_new


def scaler_of(model):
    """Return the name of the class that scales the numbers of a model, or None."""
    names = [type(each).__name__ for _, inner, _ in _parts_of(model) for each in inner]
    return next((name for name in names if name.endswith("Scaler")), None)


def _in_words(step):
    kind = type(step).__name__
    if kind == "SimpleImputer":
        return f"{step.strategy.replace('_', ' ')} for missing values"
    if kind == "OneHotEncoder":
        return f"one-hot ({step.n_features_in_} become {len(step.get_feature_names_out())})"
    return kind
