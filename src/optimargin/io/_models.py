"""Model files: safe to load, written completely or not at all, with a readable header.

A model file is a skops archive: arrays and parameters, no code. Loading constructs only estimators
of this library and of scikit-learn, and their parts. A file that names any other type is refused
before anything in it is constructed. One more entry, ``optimargin.json``, holds the versions, the
parameters and the notes given on saving; it can be read without loading the model.
"""

import inspect
import json
import re
from importlib.metadata import version
from io import BytesIO
from math import isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from optimargin._checks import check_sparse
from optimargin.calibration import CalibrationMap
from optimargin.held_out.calibration import from_arrays
from optimargin.io._archive import NotPlainError, archive_model
from optimargin.io._files import write_atomically
from optimargin.kernels import KERNELS, check_gammas, kernel_class
from optimargin.margins import unwrap

FORMAT = 2  # 1 named modules that no longer exist
_HEADER = "optimargin.json"
_MAX_ENTRIES = 10_000
_MAX_BYTES, _MAX_EXPANSION = 1e8, 100  # of compressed arrays, and relative to the file
_PLAIN_NAME = re.compile(r"[\w-][\w.-]*")


class ModelFileError(ValueError):
    """A model file that cannot be read, or a model that cannot be written to one."""


def save_model(
    estimator: Any, path: str | PathLike[str], *, notes: dict[str, Any] | None = None
) -> None:
    """Save a fitted estimator to a file.

    Parameters
    ----------
    estimator : estimator
        A model of this library, a scikit-learn estimator, or a pipeline of these. The training
        data that a model keeps are not saved.
    path : path-like
        Replaced if it exists.
    notes : dict, default=None
        Saved with the model, for `read_model_header`; anything that JSON can hold.

    Raises
    ------
    ModelFileError
        If the estimator holds code, such as a kernel given as a function: a file that is safe
        to load cannot hold it. Use `joblib.dump` for such models.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from optimargin import ODMClassifier
    >>> from optimargin.io import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ODMClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "iris.skops"))
    ...     copy = load_model(Path(folder, "iris.skops"))
    >>> bool((copy.decision_function(X) == model.decision_function(X)).all())
    True
    """
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError) as error:
        raise ModelFileError(f"Only fitted estimators can be saved: {error}") from None
    kernel = getattr(unwrap(estimator), "kernel", None)
    if callable(kernel):
        raise ModelFileError(
            f"The kernel is a function ({getattr(kernel, '__name__', kernel)!r}), and a model file "
            "holds no code: use one of the named kernels, or joblib.dump for your own use."
        )
    content = _archived(estimator)
    header = {
        "format": FORMAT,
        "optimargin": version("optimargin"),
        "scikit-learn": version("scikit-learn"),
        "numpy": version("numpy"),
        "estimator": type(unwrap(estimator)).__name__,
        "parameters": {k: _plain(v) for k, v in unwrap(estimator).get_params(deep=False).items()},
        "notes": {} if notes is None else notes,
    }
    archive = BytesIO(content)
    with ZipFile(archive, "a", compression=ZIP_STORED) as zip_file:
        zip_file.writestr(_HEADER, json.dumps(header, indent=1))
    with write_atomically(path) as temporary:
        temporary.write_bytes(archive.getbuffer())


def load_model(path: str | PathLike[str]) -> Any:
    """Load an estimator from a file written by `save_model`.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator : estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model file, was written by a newer version of this
        library, or names types that do not belong in a model. These are listed, not constructed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.io import load_model, save_model
    >>> model = LinearODMClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> with TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "model.skops"))
    ...     copy = load_model(Path(folder, "model.skops"))
    >>> copy.predict([[0.9]]).tolist()
    ['yes']
    """
    import skops.io

    content = _read(path)
    _header(content, path)
    try:
        unknown = _unknown_types(content)
        if unknown:
            raise ModelFileError(
                f"{path} is refused: it asks for {', '.join(unknown)}, which no model needs. Such "
                "a file can be an attack; nothing of it was run."
            )
        estimator = skops.io.loads(content, trusted=_trusted())
        _check_model(estimator)
    except ModelFileError:
        raise
    except Exception as error:
        # A damaged file can fail anywhere in the reader, with any error.
        raise ModelFileError(
            f"{path} is damaged or was not written by save_model ({_reason(error)})."
        ) from error
    return estimator


def _archived(estimator):
    """Return the bytes of a skops archive of an estimator."""
    try:
        return archive_model(estimator)
    except NotPlainError:
        import skops.io
    content = skops.io.dumps(estimator)
    unknown = _unknown_types(content)
    if unknown:
        raise ModelFileError(
            f"The model holds objects that a safe file cannot ({', '.join(unknown)}): use "
            "joblib.dump for your own use."
        )
    return content


def read_model_header(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file, without loading the model.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    header : dict
        ``format``, the versions of the libraries, ``estimator``, ``parameters``, ``notes``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.io import read_model_header, save_model
    >>> model = LinearODMClassifier(C1=8).fit([[0.0], [1.0]], ["no", "yes"])
    >>> with TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "model.skops"))
    ...     header = read_model_header(Path(folder, "model.skops"))
    >>> header["estimator"], header["parameters"]["C1"]
    ('LinearODMClassifier', 8)
    """
    return _header(_read(path), path)


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def _header(content, path):
    try:
        with ZipFile(BytesIO(content)) as zip_file:
            if _HEADER not in zip_file.namelist():
                raise ModelFileError(
                    f"{path} was not written by optimargin, or it is cut short: no {_HEADER}."
                )
            _check_entries(zip_file, len(content), path)
            header = json.loads(zip_file.read(_HEADER))
            written_in = int(header["format"])
            written_by = str(header["optimargin"])
            header["parameters"].items(), header["notes"].items(), str(header["estimator"])
    except ModelFileError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} has a damaged {_HEADER} ({_reason(error)}).") from None
    except Exception:  # damage can show anywhere in an archive, by any error
        raise ModelFileError(
            f"{path} is no model file of optimargin, or it is damaged or cut short."
        ) from None
    if written_in != FORMAT:
        advice = "upgrade it" if written_in > FORMAT else "train the model again"
        raise ModelFileError(
            f"{path} was written by optimargin {written_by} in model format {written_in}; this is "
            f"optimargin {version('optimargin')}, which reads format {FORMAT}: {advice}."
        )
    return header


def _check_entries(zip_file, n_bytes, path):
    """Raise for an archive that no model needs: too many entries, odd names, or a huge content."""
    entries = zip_file.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > _MAX_ENTRIES:
        raise ModelFileError(f"{path} is refused: it has {len(entries)} entries.")
    if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        raise ModelFileError(f"{path} is refused: it has entries with odd or equal names.")
    # Entries are stored uncompressed, so that a small file cannot expand to a huge one. Sparse
    # matrices are archives of their own, which are compressed.
    if any(entry.compress_type != ZIP_STORED for entry in entries):
        raise ModelFileError(f"{path} is refused: its entries are compressed.")
    n_expanded = 0
    for name in names:
        if name.endswith(".npz"):
            with ZipFile(BytesIO(zip_file.read(name))) as inner:
                n_expanded += sum(entry.file_size for entry in inner.infolist())
    if n_expanded > max(_MAX_BYTES, _MAX_EXPANSION * n_bytes):
        raise ModelFileError(f"{path} is refused: it expands to {n_expanded / 1e6:.0f} MB.")


def _trusted():
    import optimargin

    classes = [getattr(optimargin, name) for name in optimargin.__all__]
    classes = [c for c in classes if inspect.isclass(c) and issubclass(c, BaseEstimator)]
    # An imputer remembers the dtype of its data, which is read off an empty array.
    parts = [*KERNELS.values(), csr_matrix, csr_array, np.dtype]
    return [f"{c.__module__}.{c.__qualname__}" for c in [*classes, *parts]]


def _unknown_types(content):
    import skops.io

    return sorted(set(skops.io.get_untrusted_types(data=content)) - set(_trusted()))


def _check_model(estimator):
    """Raise ValueError unless the parts of a loaded model fit together."""
    check_is_fitted(estimator)
    for part in _estimators_in(estimator):
        if type(part).__module__.startswith("optimargin."):
            _check_learner(part)


def _estimators_in(value):
    """Yield an estimator and all estimators in its attributes."""
    if isinstance(value, BaseEstimator):
        yield value
        value = list(vars(value).values())
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _estimators_in(part)


def _check_learner(est):
    """Raise ValueError unless the arrays of a classifier of this library fit together."""
    est._validate_params()
    arrays = {name: value for name, value in vars(est).items() if name.endswith("_")}
    for name, value in arrays.items():
        if issparse(value):
            # Compiled loops trust the indices of a sparse matrix.
            check_sparse(value)
            value.check_format(full_check=True)
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


def _plain(value):
    """Return a parameter in a form that JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _reason(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]
