"""The data sets of the benchmarks: CSV files listed in a manifest.

The folder is ``../shared/datasets`` beside the repository unless the environment variable
``OPTIMARGIN_DATA`` names another one. It holds ``manifest.json`` and one CSV file per set:
a header row, the class in the last column, an empty cell for a missing value.
"""

import json
import os
from functools import cache
from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

FOLDER = Path(os.environ.get("OPTIMARGIN_DATA", Path(__file__).parents[2] / "shared" / "datasets"))
SCALERS = {"unit": MinMaxScaler, "standard": StandardScaler}
_MAX_REGULAR = 1000  # samples; the larger sets of the manifest are for timings


@cache
def _manifest():
    path = FOLDER / "manifest.json"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: set OPTIMARGIN_DATA to the folder of the data sets."
        )
    return {
        entry["name"]: entry
        for entry in json.loads(path.read_text())["sets"]
        if entry["group"] == "paper"
    }


def regular_names():
    """Return the names of the paper's regular-scale sets, sorted."""
    sets = _manifest().values()
    return sorted((s["name"] for s in sets if s["instances"] <= _MAX_REGULAR), key=str.lower)


def load(name):
    """Return the features, a DataFrame with text columns as categories, and the class labels."""
    frame = pd.read_csv(FOLDER / _manifest()[name]["file"], keep_default_na=False, na_values=[""])
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1].astype(str).to_numpy()
    text = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(text, "category")), y


def preprocessor(scaling):
    """Return a transformer to be fitted on the training part alone.

    Text columns become one indicator per value. Missing values become the median or the most
    frequent value. Every column is scaled: ``"unit"`` to [0, 1], ``"standard"`` to mean 0 and
    variance 1.
    """
    encode = make_column_transformer(
        (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return make_pipeline(encode, SCALERS[scaling]())
