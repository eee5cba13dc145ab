"""
Odd rows of a table, and novelty detection with a known false-alarm rate
========================================================================

Which of my rows are odd? With `novelty=False`, `OneClassODM` judges every row by the model without
it. Which new rows are odd? A novelty detector is shown normal samples only, and must tell when a
new one is different. How often it is wrong about new *normal* samples is up to its threshold, which
comes from leave-one-out scores, too, so that `false_alarm_rate` is the rate one gets. The rates of
`OneClassSVM` and of a threshold on training scores are the rates on the training samples, at best.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import OneClassSVM

from optimargin import OneClassODM
from optimargin.plotting import NoveltyDisplay

normal, _ = make_moons(399, noise=0.1, random_state=0)
strange = np.random.default_rng(0).uniform([-1.5, -1.0], [2.5, 1.5], size=(25, 2))

# %%
# Rows of a table: the last ten were put among the others. The oddest rows have their numbers.

table = np.vstack([normal, strange[:10]])
detector = OneClassODM(false_alarm_rate=0.03, novelty=False).fit(table)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
NoveltyDisplay.from_estimator(detector, table, ax=ax)
plt.show()

# %%
# New rows: the thick line is the threshold. Thin lines are those of equal p-value: a normal sample
# is outside the line of 0.01 about once in a hundred times.

model = OneClassODM(false_alarm_rate=0.05).fit(normal)
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
NoveltyDisplay.from_estimator(model, np.vstack([normal[::4], strange]), ax=ax)
plt.show()

# %%
# False alarms among ten thousand new normal samples, on average over ten training sets.

for rate in (0.01, 0.05, 0.1):
    found = {"OneClassODM": [], "OneClassSVM": [], "threshold on training scores": []}
    new, _ = make_moons(10_000, noise=0.1, random_state=100)
    for seed in range(10):
        normal, _ = make_moons(399, noise=0.1, random_state=seed)
        model = OneClassODM(false_alarm_rate=rate).fit(normal)
        naive = np.quantile(model.score_samples(normal), rate)
        found["OneClassODM"].append(model.predict(new) == -1)
        found["OneClassSVM"].append(OneClassSVM(nu=rate).fit(normal).predict(new) == -1)
        found["threshold on training scores"].append(model.score_samples(new) < naive)
    shown = ", ".join(f"{name} {np.mean(alarms):.3f}" for name, alarms in found.items())
    print(f"wanted {rate:g}: {shown}")
