"""From the originals to the paper's form: one recipe per set.

A recipe takes the originals as one data frame with the class in its last column, and returns a
data frame of the same kind. Sets without a recipe are used unchanged. Which attributes the
paper left out of colic and colic.ORIG, and its encodings of house, house-votes, haberman,
australian and german, are inferred from the numbers of instances and features it reports.
"""

import pandas as pd


def complete_cases(frame):
    """Keep the rows without a missing value."""
    return frame.dropna().reset_index(drop=True)


def dropping(*columns):
    """Return a recipe that leaves columns out, then keeps the complete cases."""

    def recipe(frame):
        return complete_cases(frame.drop(columns=list(columns)))

    return recipe


def keeping_most_complete(n_dropped):
    """Return a recipe that leaves out the attributes with the most missing values."""

    def recipe(frame):
        missing = frame.iloc[:, :-1].isna().sum()
        worst = missing.sort_values(ascending=False, kind="stable").index[:n_dropped]
        return dropping(*worst)(frame)

    return recipe


def class_pair(*labels):
    """Return a recipe that keeps two of several classes."""

    def recipe(frame):
        return frame[frame.iloc[:, -1].isin(labels)].reset_index(drop=True)

    return recipe


def votes(codes, missing=None):
    """Return a recipe that codes votes as numbers, and a missing one as `missing`."""

    def recipe(frame):
        if missing is None:
            frame = complete_cases(frame)
        coded = frame.iloc[:, :-1].apply(lambda votes: votes.map(codes))
        if missing is not None:
            coded = coded.fillna(missing)
        return coded.join(frame.iloc[:, -1])

    return recipe


def indicators(frame, categories=()):
    """Turn categories into one indicator per value, and scale numbers to [0, 1].

    A missing category becomes the most frequent one, a missing number the mean.

    Parameters
    ----------
    frame : DataFrame
    categories : sequence of str
        Numeric columns to treat as categories.
    """
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
    parts = []
    for name, column in X.items():
        if name in categories or not pd.api.types.is_numeric_dtype(column):
            column = column.fillna(column.mode()[0])
            parts.append(pd.get_dummies(column, prefix=name, dtype=float))
        else:
            column = column.fillna(column.mean())
            parts.append((column - column.min()) / (column.max() - column.min()))
    return pd.concat([*parts, y], axis=1)


def indicators_but(**ones):
    """Return a recipe like `indicators`, with one column for each category of two values.

    Parameters
    ----------
    **ones : str
        For each such category, the value that becomes one.
    """

    def recipe(frame):
        coded = indicators(frame)
        others = [
            f"{name}_{value}"
            for name, one in ones.items()
            for value in frame[name].dropna().unique()
            if value != one
        ]
        return coded.drop(columns=others)

    return recipe


_VOTE = {"n": 0.0, "y": 1.0}
_ECHO = ("survival", "still_alive", "group")
_HABERMAN_YEAR = "Patients_year_of_operation"
_COLIC = (
    "rectal_temperature",
    "respiratory_rate",
    "nasogastric_tube",
    "nasogastric_reflux",
    "nasogastric_reflux_PH",
    "rectal_examination",
    "abdomen",
    "abdominocentesis_appearance",
    "abdomcentesis_total_protein",
)

RECIPES = {
    "australian": indicators_but(A1="a", A9="f", A10="f", A12="f"),
    "breast": complete_cases,
    "colic": dropping(*_COLIC),
    "colic.ORIG": keeping_most_complete(10),
    "credit-a": complete_cases,
    "cylinder-bands": complete_cases,
    "echocardiogram": dropping(*_ECHO),
    "german": indicators_but(own_telephone="yes", foreign_worker="no"),
    "haberman": lambda frame: indicators(frame, [_HABERMAN_YEAR]),
    "heart-c": complete_cases,
    "heart-h": dropping("slope", "ca", "thal"),
    "hepatitis": complete_cases,
    "house": votes(_VOTE),
    "house-votes": votes({"n": 0.0, "y": 0.5}, missing=1.0),
    "vehicle": class_pair("bus", "saab"),
    "vote": complete_cases,
}
