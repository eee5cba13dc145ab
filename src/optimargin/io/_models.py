"""Model files: safe to load, written completely or not at all, with a readable header.

A model file is a skops archive: arrays and parameters, no code. Loading constructs only estimators
of this library and of scikit-learn, and their parts. A file that names any other type is refused
before anything in it is constructed. One more entry, ``optimargin.json``, holds the versions, the
parameters and the notes given on saving; it can be read without loading the model.
"""

import inspect
import json
from contextlib import contextmanager
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from optimargin.io._archive import NotPlainError, archive_model
from optimargin.io._files import write_atomically
from optimargin.io._parts import check_model, refuse_unchecked
from optimargin.io._vetting import (
    HEADER,
    ModelFileError,
    check_content,
    check_entries,
    checksum,
    parse,
)
from optimargin.kernels import KERNELS
from optimargin.margins import unwrap

FORMAT = 2  # 1 named modules that no longer exist


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
            "contains no code: use one of the named kernels, or joblib.dump for your own use."
        )
    refuse_unchecked(estimator, path)
    content = _archived(estimator, path)
    header = {
        "format": FORMAT,
        "optimargin": version("optimargin"),
        "scikit-learn": version("scikit-learn"),
        "numpy": version("numpy"),
        "estimator": type(unwrap(estimator)).__name__,
        "parameters": {k: _plain(v) for k, v in unwrap(estimator).get_params(deep=False).items()},
        "notes": {} if notes is None else notes,
    }
    header = json.loads(json.dumps(header))  # as it is read again
    archive = BytesIO(content)
    with ZipFile(archive, "a", compression=ZIP_STORED) as zip_file:
        header["checksum"] = checksum(zip_file, header)
        zip_file.writestr(HEADER, json.dumps(header, indent=1))
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
    content = _read(path)
    header = _header(content, path)
    # A damaged file can fail anywhere in the reader, with any error.
    with _named_damage(f"{path} is damaged or was not written by save_model"):
        with ZipFile(BytesIO(content)) as zip_file:
            check_content(zip_file, len(content), _kernels(), path)
            if header.get("checksum") not in (None, checksum(zip_file, header)):
                raise ModelFileError(
                    f"{path} is damaged: its content has changed since it was written. Save the "
                    "model again."
                )
        estimator = _constructed(content, path)
        check_model(estimator, len(content), path)
    return estimator


@contextmanager
def _named_damage(words):
    """Turn any error into a ModelFileError of these words and the reason."""
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelFileError(f"{words} ({reason}).") from error


def _constructed(content, path):
    """Return the estimator of an archive; raise for types that do not belong in a model."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.loads(content, trusted=_trusted())
    except UntrustedTypesFoundException:
        raise ModelFileError(
            f"{path} is refused: it asks for {', '.join(_unknown_types(content))}, which no model "
            "needs. Such a file can be an attack; nothing of it was run."
        ) from None


def _archived(estimator, path):
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
    damage = _named_damage("The model has parts that could not be loaded")
    with damage, ZipFile(BytesIO(content)) as zip_file:
        check_content(zip_file, len(content), _kernels(), path)
    return content


def read_model_header(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file, without loading the model.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    header : dict
        ``format``, the versions of the libraries, ``estimator``, ``parameters``, ``notes``, and the
        ``checksum`` of the file, which is compared when the model is loaded.

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
    damage = _named_damage(f"{path} is no model file of optimargin, or it is damaged or cut short")
    with damage, ZipFile(BytesIO(content)) as zip_file:
        if HEADER not in zip_file.namelist():
            raise ModelFileError(
                f"{path} was not written by optimargin, or it is cut short: no {HEADER}."
            )
        check_entries(zip_file, len(content), path)
        text = zip_file.read(HEADER)
    with _named_damage(f"{path} has a damaged {HEADER}"):
        header = parse(text, path)
        written_in, written_by = int(header["format"]), str(header["optimargin"])
        header["parameters"].items(), header["notes"].items(), str(header["estimator"])
    if written_in != FORMAT:
        advice = "upgrade it" if written_in > FORMAT else "train the model again"
        raise ModelFileError(
            f"{path} was written by optimargin {written_by} in model format {written_in}; this is "
            f"optimargin {version('optimargin')}, which reads format {FORMAT}: {advice}."
        )
    return header


def _kernels():
    """Return the names of the kernel classes, those of other packages among them."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in KERNELS.values()]


def _trusted():
    """Return the names of the classes that a model file may hold besides scikit-learn's."""
    import optimargin

    classes = [getattr(optimargin, name) for name in optimargin.__all__]
    classes = [c for c in classes if inspect.isclass(c) and issubclass(c, BaseEstimator)]
    # An imputer remembers the dtype of its data, which is read off an empty array.
    parts = [csr_matrix, csr_array, np.dtype]
    return [f"{c.__module__}.{c.__qualname__}" for c in [*classes, *parts]] + _kernels()


def _unknown_types(content):
    import skops.io

    return sorted(set(skops.io.get_untrusted_types(data=content)) - set(_trusted()))


def _plain(value):
    """Return a parameter in a form that JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
