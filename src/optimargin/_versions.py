"""Facts about the installation, for bug reports."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_info

_PACKAGES = (
    "optimargin",
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "typer",
    "skops",
    "matplotlib",
    "pandas",
    "pyarrow",
    "skl2onnx",
    "onnxruntime",
)


def show_versions():
    """Print versions and thread pools, for bug reports.

    Examples
    --------
    >>> import optimargin
    >>> optimargin.show_versions()  # doctest: +ELLIPSIS
    python ...
    """
    rows = [("python", sys.version.split()[0]), ("platform", platform.platform())]
    rows.append(("processors", str(os.cpu_count())))
    for name in _PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    for pool in threadpool_info():
        found = f"{pool['internal_api']} {pool['version'] or ''}".strip()
        rows.append(("threads", f"{found}, {pool['num_threads']} threads"))
    for name, value in rows:
        print(f"{name:14} {value}")
