"""Checks of what a model file was made into: whether its parts fit together.

Estimators trust their own fitted attributes, and compiled code trusts them without limit. So
shapes, types and indices are compared before a loaded model is used.
"""

from math import isfinite
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from optimargin.calibration import CalibrationMap
from optimargin.held_out.novelty import from_arrays
from optimargin.io._vetting import ModelFileError
from optimargin.kernels import check_gammas, kernel_class

_MANY_FEATURES = 1_000_000  # polynomial features that may come from a small file
_MAX_DEGREE = 64  # of polynomials of as many features: there are 10^37 of them
# Base classes of scikit-learn whose compiled code reads beyond arrays that do not fit together.
_UNCHECKED = ("BaseLibSVM",)


def refuse_unchecked(model, path):
    """Raise ModelFileError for a model with parts that no file can hold safely."""
    for part in _parts_of(model):
        if any(base.__name__ in _UNCHECKED for base in type(part).__mro__):
            raise ModelFileError(
                f"{path}: a model file cannot hold {type(part).__name__}, whose compiled code "
                "trusts what it reads: a file could end the process. Use joblib.dump for such "
                "models of your own."
            )


def check_model(model, n_bytes, path):
    """Raise ValueError unless the parts of a loaded model fit together.

    Parameters
    ----------
    model : estimator
    n_bytes : int
        The size of its file.
    path : path-like
        For messages.
    """
    check_is_fitted(model)
    refuse_unchecked(model, path)
    for part in _parts_of(model):
        fitted, check = _CHECKS.get(type(part).__name__, ("", None))
        if check is not None and hasattr(
            part, fitted
        ):  # a composition keeps its steps unfitted, too
            check(part, n_bytes)
        elif isinstance(part, BaseEstimator) and type(part).__module__.startswith("optimargin."):
            _check_learner(part)


def _parts_of(model):
    """Yield a model and all that is within it, each object once."""
    waiting, seen = [model], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, np.ndarray):
            waiting += value.ravel().tolist() if value.dtype.hasobject else []
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            waiting += vars(value).values()


def _check_random_state(part, n_bytes):
    """Check the place of a generator in its numbers."""
    state = part.get_state(legacy=False)["state"]
    if not 0 <= state["pos"] <= len(state["key"]):
        raise ValueError("a random state is out of range")


def _check_polynomial(part, n_bytes):
    """Compare the numbers of features made, which follow from parameters and input features."""
    # A file has a byte at least for each feature that is used.
    is_large = part.n_output_features_ > max(_MANY_FEATURES, n_bytes)
    if is_large or min(np.max(part.degree), part.n_features_in_) > _MAX_DEGREE:
        raise ValueError("there are more polynomial features than any model uses")
    made = clone(part).fit(np.zeros((1, part.n_features_in_)))
    for name in ("n_output_features_", "_n_out_full", "_min_degree", "_max_degree"):
        if getattr(part, name) != getattr(made, name):
            raise ValueError("the polynomial features are not those of their degree")


def _check_one_hot(part, n_bytes):
    """Compare the columns that an encoder fills with those that it makes."""
    places = part._default_to_infrequent_mappings if part._infrequent_enabled else None
    dropped = part._drop_idx_after_grouping
    for i, (categories, n_columns) in enumerate(
        zip(part.categories_, part._n_features_outs, strict=True)
    ):
        codes = np.arange(len(categories))
        if places is not None and places[i] is not None:
            if np.shape(places[i]) != codes.shape:
                raise ValueError("infrequent categories are not those of an encoder")
            codes = places[i]
        elif places is not None and part._infrequent_indices[i] is not None:
            raise ValueError("infrequent categories are not those of an encoder")
        if dropped is not None and dropped[i] is not None:
            codes = np.where(codes > dropped[i], codes - 1, codes)[codes != dropped[i]]
        if np.size(codes) and not 0 <= np.min(codes) <= np.max(codes) < n_columns:
            raise ValueError("an encoder fills columns that it does not make")


def _check_vocabulary(part, n_bytes):
    """Check that every word has a column."""
    columns = part.vocabulary_.values()
    if not all(0 <= column < len(columns) for column in columns):
        raise ValueError("words have columns that there are not")


def _check_centers(part, n_bytes):
    """Compare the shapes of the centers of clusters, which compiled code trusts."""
    if np.shape(part.cluster_centers_) != (part.n_clusters, part.n_features_in_):
        raise ValueError("the centers of clusters do not fit the features")


_CHECKS = {  # by the names of classes, with what they have once they are fitted
    "RandomState": ("get_state", _check_random_state),
    "PolynomialFeatures": ("n_output_features_", _check_polynomial),
    "OneHotEncoder": ("categories_", _check_one_hot),
    "CountVectorizer": ("vocabulary_", _check_vocabulary),
    "TfidfVectorizer": ("vocabulary_", _check_vocabulary),
    "DictVectorizer": ("vocabulary_", _check_vocabulary),
    "KMeans": ("cluster_centers_", _check_centers),
    "MiniBatchKMeans": ("cluster_centers_", _check_centers),
}


def _check_learner(est):
    """Raise ValueError unless the arrays of a classifier of this library fit together."""
    est._validate_params()
    arrays = {name: value for name, value in vars(est).items() if name.endswith("_")}
    for name, value in arrays.items():
        numbers = value.data if issparse(value) else value
        is_float = isinstance(numbers, np.ndarray) and numbers.dtype.kind in "fc"
        if is_float and not np.isfinite(numbers).all():
            raise ValueError(f"{name} holds values that are not finite")
    if "intercept_" not in arrays:
        return
    if not hasattr(est, "classes_"):
        _check_shapes(est, arrays, np.size(est.intercept_))
        if "_reference" in vars(est):
            from_arrays(est._reference, est.dual_coef_.shape[1])
        return
    classes = est.classes_
    if not (isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1):
        raise ValueError("classes_ is not an array of at least two classes")
    if not (classes[1:] > classes[:-1]).all():
        raise ValueError("classes_ are not sorted")
    n_outputs = 1 if classes.size == 2 else classes.size
    if vars(getattr(est, "best_estimator_", est)).get("_pairwise"):
        n_outputs = classes.size * (classes.size - 1) // 2
    _check_shapes(est, arrays, n_outputs)


def _check_parameter(value, n_features):
    """Raise ValueError unless a kernel's parameter is a number, or one per feature."""
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, Real) and isfinite(number) for number in numbers):
        raise ValueError("the kernel has parameters that are not finite numbers")
    if isinstance(value, tuple):
        check_gammas(value, n_features, has_width=True)


def _check_shapes(est, arrays, n_outputs):
    """Raise ValueError unless shapes, types and indices are those of a model."""
    n_features = est.n_features_in_
    if isinstance(n_features, bool) or not isinstance(n_features, Integral):
        raise ValueError("n_features_in_ is not a number of features")
    expected: dict[str, tuple] = {"intercept_": (n_outputs,)}
    if "dual_coef_" in arrays:
        kind = kernel_class(est.kernel)
        if "_kernel" in vars(est):  # searches keep it in the estimator that they refitted
            if not isinstance(est._kernel, kind):
                raise ValueError(f"the kernel is not {est.kernel!r}")
            for name in kind.parameters:
                _check_parameter(getattr(est._kernel, name), n_features)
        # Landmarks that were chosen in chunks have no index: `support_` may be missing.
        known = est.support_ if kind.is_precomputed else est.support_vectors_
        expected["dual_coef_"] = (n_outputs, known.shape[0])
        if not kind.is_precomputed:
            expected["support_vectors_"] = (known.shape[0], n_features)
        if "support_" in arrays:
            expected["support_"] = (known.shape[0],)
            _check_indices(arrays["support_"], n_features if kind.is_precomputed else np.inf)
    elif "coef_" in arrays:
        expected["coef_"] = (n_outputs, n_features)
    for name, shape in expected.items():
        if name not in arrays:
            continue
        value = arrays[name]
        if not (isinstance(value, np.ndarray) or issparse(value)):
            raise ValueError(f"{name} is not an array")
        if value.shape != shape:
            raise ValueError(f"{name} has shape {value.shape} instead of {shape}")
        if name != "support_" and value.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} has values of type {value.dtype}")
    if "calibration_" in arrays:
        _check_calibration(est)
    if "_kept" in vars(est):
        _check_kept(est)


def _check_indices(support, size):
    """Raise ValueError unless the places of support vectors rise, from zero to below `size`."""
    if not (isinstance(support, np.ndarray) and support.dtype.kind == "i" and support.ndim == 1):
        raise ValueError("support_ is not an array of indices")
    rises = (support[1:] > support[:-1]).all()
    if support.size and not (rises and support[0] >= 0 and support[-1] < size):
        raise ValueError("support_ holds indices that are out of range or out of order")


def _check_calibration(est):
    """Raise ValueError unless the map of a loaded classifier is one."""
    made = CalibrationMap(**est.calibration_)
    knots, log_odds = (
        np.asarray(values, dtype=np.float64) for values in (made.knots, made.log_odds)
    )
    if not (np.isfinite(made.slope) and made.slope > 0):
        raise ValueError("the slope of calibration_ is not positive")
    n_values = 1 if est.classes_.size == 2 else est.classes_.size
    if np.shape(made.shift) != (n_values,) or not np.isfinite(made.shift).all():
        raise ValueError("the shift of calibration_ does not fit the intercept")
    if knots.ndim != 1 or knots.shape != log_odds.shape:
        raise ValueError("knots and log_odds of calibration_ have different shapes")
    if not all((np.diff(v) > 0).all() and np.isfinite(v).all() for v in (knots, log_odds)):
        raise ValueError("knots and log_odds of calibration_ do not increase")


def _check_kept(est):
    """Raise ValueError unless what a kernel model keeps of its samples belongs together."""
    kept = {name: np.asarray(est._kept[name]) for name in ("rows", "y", "weight", "decision")}
    n_rows = kept["rows"].size
    if any(values.shape[:1] != (n_rows,) for values in kept.values()):
        raise ValueError("the kept samples differ in number")
    if kept["decision"].shape != (n_rows, est.intercept_.size):
        raise ValueError("the kept decision values do not fit the intercept")
    numbers = [kept[name] for name in ("weight", "decision")]
    if not all(v.dtype.kind == "f" and np.isfinite(v).all() for v in numbers):
        raise ValueError("the kept samples hold values that are not finite")
    if kept["rows"].dtype.kind not in "iu" or not np.isin(est.support_, kept["rows"]).all():
        raise ValueError("the support vectors are not among the kept samples")
    if hasattr(est, "classes_") and not np.isin(kept["y"], np.arange(est.classes_.size)).all():
        raise ValueError("the kept samples are of unknown classes")
