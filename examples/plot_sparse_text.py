"""
Sparse text
===========

Word counts are sparse: most words are not in most texts. Linear models take such matrices as they
are and keep them sparse. The texts here are generated from two vocabularies that overlap.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from optimargin import LinearODMClassifier, LinearODMClassifierCV
from optimargin.plotting import MarginDistributionDisplay

rng = np.random.default_rng(0)
n_words = 20_000
common = rng.zipf(1.3, size=400_000) % n_words
topics = rng.permutation(n_words).reshape(2, -1)[:, :300]


def text(topic):
    words = np.concatenate([rng.choice(common, 60), rng.choice(topics[topic], 4)])
    return " ".join(f"w{word}" for word in words)


y = rng.integers(0, 2, 1500)
texts = [text(topic) for topic in y]
texts_train, texts_test, y_train, y_test = train_test_split(
    texts, y, train_size=500, random_state=0
)

# %%
# The tuned class chooses its penalty for these texts. ``LinearSVC`` gets a grid of ten penalties.
grid = GridSearchCV(LinearSVC(), {"C": 2.0 ** np.arange(-4, 6)})
classifiers = {
    "LinearODMClassifier": LinearODMClassifier(),
    "LinearODMClassifierCV": LinearODMClassifierCV(),
    "LinearSVC": LinearSVC(),
    "LinearSVC, grid": grid,
}
models = {}
for name, classifier in classifiers.items():
    models[name] = make_pipeline(TfidfVectorizer(), classifier)
    X_train = models[name][0].fit_transform(texts_train)
    start = time.perf_counter()
    classifier.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    print(f"{name:22s} {seconds:5.2f} s, accuracy {models[name].score(texts_test, y_test):.3f}")

# %%
# Distances of held-out texts to the boundary. The further right the curve, the more clearly they
# are told apart; its height at zero is the share of errors.
_, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name in ("LinearODMClassifierCV", "LinearSVC, grid"):
    model = make_pipeline(
        models[name][0], getattr(classifiers[name], "best_estimator_", classifiers[name])
    )
    MarginDistributionDisplay.from_estimator(
        model, texts_test, y_test, kind="geometric", name=name, ax=ax
    )
ax.set_title("Held-out texts")
plt.show()
