"""
Losses as functions of the margin
=================================

The learners of this library and their relatives differ in one function: the loss of a margin.
An SVM penalises margins below one and ignores the rest. ODM also penalises margins above one,
quadratically on both sides of a band. LDM adds the variance and the mean of the margins to the
SVM; at its optimum, where the mean margin is a fixed number, this is also a loss per margin.
"""

import matplotlib.pyplot as plt
import numpy as np

margin = np.linspace(-1, 3, 401)


def hinge(g):
    return np.maximum(0, 1 - g)


def odm(g, C1, C2, D):
    return C1 * np.maximum(0, 1 - D - g) ** 2 + C2 * np.maximum(0, g - 1 - D) ** 2


def ldm(g, C, lambda1, lambda2, mean):
    return lambda1 * (g - mean) ** 2 - lambda2 * g + C * hinge(g)


# %%
# Left: the family of ODM. With ``C2=0, D=0`` it is the SVM with squared hinge loss, with
# ``C1=C2, D=0`` ridge regression on the labels, which is the least-squares SVM.
#
# Right: the family of LDM for a mean margin of 1.2. With ``lambda1=lambda2=0`` it is the
# SVM; with ``C=0`` and ``lambda1=0`` only the mean margin is left.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
left.plot(margin, odm(margin, 1, 0.25, 0.2), label="ODM: C1=1, C2=0.25, D=0.2", linewidth=2.5)
left.plot(margin, odm(margin, 1, 0, 0), "--", label="C2=0, D=0: squared hinge")
left.plot(margin, odm(margin, 1, 1, 0), ":", label="C1=C2, D=0: least squares")
left.axvspan(0.8, 1.2, color="C0", alpha=0.1)
right.plot(margin, ldm(margin, 1, 0.5, 0.5, 1.2), label="LDM: C=1, l1=l2=0.5", linewidth=2.5)
right.plot(margin, ldm(margin, 1, 0, 0, 1.2), "--", label="l1=l2=0: hinge, the SVM")
right.plot(margin, ldm(margin, 0, 0, 0.5, 1.2), ":", label="C=0, l1=0: the mean alone")
left.set(title="ODM and relatives", xlabel="margin", ylabel="loss", ylim=(-1.5, 4))
right.set(title="LDM and relatives", xlabel="margin")
left.legend()
right.legend()
plt.show()
