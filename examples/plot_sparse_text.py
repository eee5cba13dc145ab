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
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from optimargin import LinearODMClassifier
from optimargin.plotting import MarginDistributionDisplay

rng = np.random.default_rng(0)
n_words = 20_000
common = rng.zipf(1.3, size=400_000) % n_words
topics = rng.permutation(n_words).reshape(2, -1)[:, :300]


def text(topic):
    words = np.concatenate([rng.choice(common, 60), rng.choice(topics[topic], 2)])
    return " ".join(f"w{word}" for word in words)


y = rng.integers(0, 2, 4000)
texts = [text(topic) for topic in y]
texts_train, texts_test, y_train, y_test = train_test_split(texts, y, random_state=0)

# %%
# Both are fitted with their default parameters.
_, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for classifier in (LinearODMClassifier(), LinearSVC()):
    model = make_pipeline(TfidfVectorizer(), classifier)
    X_train = model[0].fit_transform(texts_train)
    start = time.perf_counter()
    classifier.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    print(
        f"{type(classifier).__name__:20s} {X_train.shape[1]} words, {seconds:.2f} s, "
        f"accuracy {model.score(texts_test, y_test):.3f}"
    )
    MarginDistributionDisplay.from_estimator(model, texts_test, y_test, kind="geometric", ax=ax)
ax.set_title("Held-out margins")
plt.show()
