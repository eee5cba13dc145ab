"""
Margins of ODM and of an SVM
============================

A support vector machine makes the smallest margins large. An optimal margin distribution machine
looks at all of them: it pulls them into a band around one. Both are fitted to one half of the
breast cancer data with their default parameters; the plots show the margins of the other half.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import ODMClassifier
from optimargin.plotting import MarginDistributionDisplay

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
models = [
    make_pipeline(StandardScaler(), classifier).fit(X_train, y_train)
    for classifier in (ODMClassifier(), SVC())
]

# %%
# Left: the distance of each sample to the boundary. The further right the curve, the farther the
# samples; its height at zero is the share of errors. On these data, with default parameters,
# samples are farther from the boundary of the SVM; on 28 of the paper's 32 data sets, tuned, they
# are farther from that of ODM. Right: the decision values themselves, with the band in which ODM
# does not penalise margins. ODM's are close to the band, those of the SVM are spread out.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for model in models:
    MarginDistributionDisplay.from_estimator(model, X_test, y_test, kind="geometric", ax=left)
    MarginDistributionDisplay.from_estimator(
        model, X_test, y_test, style="histogram", bins=np.linspace(-1, 3, 25), ax=right
    )
left.set_title("Distance to the boundary, cumulative")
right.set_title("Decision values")
plt.show()
