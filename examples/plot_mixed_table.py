"""
A table with categories and gaps
================================

Real tables have numbers, categories and missing values. The estimators take numbers only, as
``SVC`` does, so a pipeline prepares the table first: it fills gaps, scales numbers and makes one
column per category. The pipeline is then used like any other classifier.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from optimargin import ODMClassifierCV

# %%
# The table
# ---------
# Who cancels a subscription? The answers are generated: people leave when the price per visit is
# high, unless they have a long contract; the city matters little.
rng = np.random.default_rng(0)
n = 800
table = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n).astype(float),
        "visits": rng.poisson(6, n) + 1.0,
        "price": rng.normal(50, 15, n).clip(10),
        "contract": rng.choice(["month", "year", "two years"], n, p=[0.5, 0.3, 0.2]),
        "city": rng.choice(["Aarhus", "Bergen", "Turku", "Uppsala"], n),
    }
)
bound = table["contract"].map({"month": 0.0, "year": 0.5, "two years": 1.0})
urge = table["price"] / table["visits"] / 10 - bound + rng.normal(0, 0.3, n)
y = np.where(urge > 0, "left", "stayed")
for column in ("age", "visits", "city"):  # every tenth cell is missing
    table.loc[rng.random(n) < 0.1, column] = np.nan
table.head()

# %%
# The pipeline
# ------------
# Compared with two classifiers that one should always try. Boosting takes gaps as they are; here
# it gets the same prepared columns.


def prepared(classifier):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (words, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, classifier)


X_train, X_test, y_train, y_test = train_test_split(table, y, stratify=y, random_state=0)
for classifier in (
    LogisticRegression(max_iter=1000),
    HistGradientBoostingClassifier(random_state=0),
    ODMClassifierCV(),
):
    model = prepared(classifier).fit(X_train, y_train)
    print(f"{type(classifier).__name__:32s} accuracy {model.score(X_test, y_test):.3f}")

# %%
# The last model also estimates its accuracy without the test set, and gives probabilities.
print(f"held-out accuracy of the search: {model[-1].held_out_score_:.3f}")
print(pd.DataFrame(model.predict_proba(X_test[:4]).round(2), columns=model.classes_))

# %%
# Which columns matter
# --------------------
# By how much the accuracy falls when a column is shuffled.
found = permutation_importance(model, X_test, y_test, n_repeats=10, random_state=0)
order = found.importances_mean.argsort()
_, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
ax.barh(table.columns[order], 100 * found.importances_mean[order], color="#0072B2")
ax.set(xlabel="loss of accuracy, points", title="Importance of columns")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
