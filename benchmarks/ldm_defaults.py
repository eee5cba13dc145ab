"""Default parameters of the LDM classifiers, measured over the paper's regular data sets.

Prints the mean test accuracy over all sets (standardised features, `N_SPLITS` half/half splits)
for a few candidates, and for scikit-learn's SVMs and ODM with their own defaults.
"""

import warnings
from itertools import product

import data
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC

from optimargin import LDMClassifier, LinearLDMClassifier, ODMClassifier

N_SPLITS = 2
PENALTIES = (10.0, 64.0, 256.0)
STATISTICS = ((2**-8, 2**-8), (0.25, 0.25), (1.0, 1.0), (4.0, 1.0), (16.0, 1.0))


def candidates():
    models = {"SVC": SVC(), "LinearSVC": LinearSVC(), "ODMClassifier": ODMClassifier()}
    for C, (lambda1, lambda2) in product(PENALTIES, STATISTICS):
        for estimator in (LDMClassifier, LinearLDMClassifier):
            models[f"{estimator.__name__}({C:g}, {lambda1:g}, {lambda2:g})"] = estimator(
                C, lambda1, lambda2
            )
    return models


def main():
    models = candidates()
    scores = {name: [] for name in models}
    for dataset in data.regular_names():
        X, y = data.load(dataset)
        for seed in range(N_SPLITS):
            train, test = train_test_split(
                np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed
            )
            scaler = data.preprocessor("standard").fit(X.iloc[train])
            X_train, X_test = scaler.transform(X.iloc[train]), scaler.transform(X.iloc[test])
            for name, model in models.items():
                scores[name].append(model.fit(X_train, y[train]).score(X_test, y[test]))
    for name in sorted(models, key=lambda name: -np.mean(scores[name])):
        print(f"{np.mean(scores[name]):.4f}  {name}")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
