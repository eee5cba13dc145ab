"""One minus a held-out score, as a function of parameters, with its gradient.

For the ODM the parameters are x = (log2 C1, log2 C2/C1, D), penalties in units of the data, and,
for a radial kernel, the base-2 logarithm of its width in units of the mean distance, or those of a
width per feature; other objectives have their own (`optimargin.objectives`). The score is that of a
criterion (`optimargin.selection.criteria`) of held-out decision values. For additive objectives
these are, by default, those of repeated, stratified folds in closed form, so that one evaluation
costs about two fits whatever the number of folds; else those of exact fits to given splits. Both
are differentiated exactly, by one adjoint solve per fold on the active set.

As many widths as features fit chance, too. So widths per feature have a penalty,

    PENALTY / n_samples * sum_j (log2 width_j - mean)^2,

which is a normal prior and so counts less the more samples there are per feature. With Z the rows
divided by these widths, s_ab the squared distances of Z and K_ab = k(s_ab), the score has
derivatives G_ab by K_ab: sums of adjoints times coefficients over all models without a fold. With
W = G k'(s) + (G k'(s))',

    d score / d log gamma_j = sum_ab G_ab k'(s_ab) (z_aj - z_bj)^2
                            = sum_a z_aj^2 (sum_b W_ab) - sum_a z_aj (W Z)_aj,

for all features together one product of matrices.
"""

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.held_out.search_designs import LandmarkFeatures
from optimargin.kernels import gamma_of_width, squared_distances
from optimargin.selection.criteria import Criterion, SmoothAccuracy
from optimargin.selection.stages import Judged
from optimargin.systems import Folds
from optimargin.tasks import Classification

N_FOLDS = 5
N_REPEATS = 3
PENALTY = 0.1  # loss times samples, per squared log2 width
WIDTH_BOUNDS = (-3.5, 2.5)  # log2 of the common width in mean distances
_FEATURE_WIDTH_BOUNDS = (-5.0, 5.0)  # log2 of a width, from where a descent starts
_EXACT_UP_TO = 500  # samples up to which finalists are fitted without each fold, too
_ALL_FOLDS_UP_TO = 200  # samples up to which finalists are fitted without folds of all partitions
_ONE_REPEAT_FROM = 1000  # samples from which one partition tells points apart
_ONE_REPEAT_OF_TWO_FROM = (
    300  # samples of two classes from which one partition does, as points take long
)
_EVERY_LOSS_UP_TO = 1.5e8  # sum of n_samples^3 up to which outputs have active sets of their own
_LOOKS = 250  # samples that first looks are taken at, at least
_LOOKS_PER_CLASS = 32  # samples per class that first looks are taken at
_MOST_LOOKS = 600  # samples that first looks are taken at, at most
_LINEAR_LOOKS = 3000  # samples that first looks of linear models are taken at
_MIDDLE_FROM = 1500  # samples from which some of them make most of the way
_MIDDLE_SHARE = 0.25  # share of the samples that makes most of the way
_MIDDLE = (1000, 5000)  # samples that make most of the way, at least and at most
_LN2 = float(np.log(2.0))


@dataclass
class CommonWidth:
    """Kernel values at one width after another.

    Attributes
    ----------
    distances : dict of str to ndarray
        Squared distances by what they are between, as in `Form.of`: "samples" and maybe "test", or
        "landmarks" (with the samples; in the precision of products over these) and "between" them.
    slopes : dict of str to ndarray
        The derivatives of the last kernel values by the logarithm of the width, if wanted.
    """

    distances: dict[str, np.ndarray]
    slopes: dict[str, np.ndarray] = field(default_factory=dict, init=False)

    def change(self, refitter, kernel, gradient):
        """Let a refitter go on with the kernel of another width; a gradient may be wanted."""
        of_landmarks = "landmarks" in self.distances
        self.slopes = {}
        if of_landmarks:
            refitter.change_design(None)  # frees its memory for the new one
        values = {name: kernel.of_distances(each) for name, each in self.distances.items()}
        if gradient:  # now: the values of landmarks will be overwritten
            self.slopes = {
                name: kernel.width_slope(self.distances[name], K) for name, K in values.items()
            }
        if of_landmarks:
            refitter.change_design(LandmarkFeatures(values["landmarks"], values["between"]))
        else:
            refitter.change_kernel(values["samples"], values.get("test"))

    def by_width(self, found):
        """Return derivatives by the binary logarithms of the widths, given `Derivatives`."""
        return np.array([_LN2 * found.by_width(self.slopes)])


class FeatureWidths:
    """The same at one width per feature.

    Parameters
    ----------
    kernel : RadialKernel
        Of width one.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    """

    def __init__(self, kernel, X):
        self._kernel = kernel
        self._center = _dense(X).mean(axis=0)
        self._rows = _dense(X) - self._center

    def change(self, refitter, gamma, gradient):
        """Let a refitter go on with another gamma per feature."""
        self._root = np.sqrt(gamma)
        self._Z = self._rows * self._root
        self._squares = squared_distances(self._Z)
        refitter.change_kernel(self._kernel.of_distances(self._squares))

    def by_width(self, found):
        """Return derivatives by the binary logarithms of the widths, given `Derivatives`."""
        G = found.by_kernel(len(self._Z))
        G *= self._kernel.profile_slope(self._squares)
        W = G + G.T
        by_log_gamma = W.sum(axis=1) @ self._Z**2 - np.einsum("ij,ij->j", self._Z, W @ self._Z)
        return -2 * _LN2 * by_log_gamma  # gamma falls with the square of the width

    def of_others(self, X):
        """Return kernel values of other rows with the samples."""
        Z = (_dense(X) - self._center) * self._root
        return self._kernel.of_distances(squared_distances(Z, self._Z))


@dataclass(frozen=True)
class Part:
    """Samples that are held out, by one refitter.

    Attributes
    ----------
    rows : ndarray of shape (n_held_out,)
    refitter : Refitter
    widths : CommonWidth, FeatureWidths or None
        Where there are any to change.
    folds : Folds or None
        To be left out in closed form; None predicts test samples.
    """

    rows: np.ndarray
    refitter: Any
    widths: Any = None
    folds: Folds | None = None

    def held_out(self, objective, width, gradient):
        """Return the held-out decision values at a point."""
        if self.widths is not None:
            self.widths.change(self.refitter, width, gradient)
        solved = self.refitter.solve(objective)
        return solved.predict_test() if self.folds is None else solved.leave_folds_out(self.folds)

    def derivatives(self, held_out, slope):
        """Return derivatives by the parameters of the loss, and by the logarithms of widths."""
        found = held_out.derivatives(slope.reshape(held_out.decision.shape))
        by_width = np.empty(0) if self.widths is None else self.widths.by_width(found)
        return found.by_loss, by_width

    def decide(self, objective, gamma, X):
        """Return decision values of other rows for the model of all samples, by their widths."""
        self.widths.change(self.refitter, gamma, gradient=False)
        solved = self.refitter.solve(objective)
        return self.widths.of_others(X) @ solved.coef.T + solved.intercept


class HeldOutLoss:
    """One minus a held-out score, as a function of the parameters.

    Parameters
    ----------
    data : SelectionData
    splits : list of (train, test) or None
        None means closed-form repeated folds.
    random_state : RandomState
        Deals the samples out to the folds.
    guide : Criterion, default=None
        What is maximised; the smooth accuracy when not given.
    n_folds : int
    n_repeats : int, default=None
        Partitions into folds; by default three, of many samples one.
    gamma : float or ndarray of shape (n_features,), default=None
        For widths per feature: what their logarithms are relative to. Without there is a common
        width, if any.
    rows : ndarray of shape (n_rows,), default=None
        With widths per feature: the samples of positive weight that take part.

    Attributes
    ----------
    used : ndarray
        The samples of positive weight that take part.
    parts : list of Part
    rows : ndarray of shape (n_held_out,)
        The samples held out, part by part.
    truth : Truth
        Of these.
    """

    def __init__(
        self,
        data,
        splits,
        random_state,
        guide: Criterion | None = None,
        n_folds=N_FOLDS,
        n_repeats=None,
        gamma=None,
        rows=None,
    ):
        self.data = data
        self.used = np.flatnonzero(data.weight) if rows is None else rows
        # penalties per sample stay what they are
        self._share = 1.0 if rows is None else float(data.weight[rows].sum())
        self.guide = SmoothAccuracy() if guide is None else guide
        kind = data.objective_type
        self._n_loss = len(kind.bounds)
        self._is_per_feature = gamma is not None
        self.has_width = data.kernel.kind.has_width and not self._is_per_feature
        of_widths = [WIDTH_BOUNDS] * self.has_width
        if self._is_per_feature:
            of_widths = [_FEATURE_WIDTH_BOUNDS] * data.X.shape[1]
        self.bounds = np.array([*kind.bounds, *of_widths])
        self.spread = np.array([*(kind.bounds if kind.spread is None else kind.spread), *of_widths])
        self.has_gradient = kind.has_gradient and self.guide.has_slope
        # where widths start, or the one number of a kernel without a width
        self._gamma = gamma
        if gamma is None and data.kernel.has_gamma and not self.has_width:
            self._gamma = data.default_gamma()
        self._folds: Any = None
        if splits is None:
            if n_repeats is None:
                are_two = isinstance(data.task, Classification) and len(data.targets) == 1
                enough = _ONE_REPEAT_OF_TWO_FROM if are_two else _ONE_REPEAT_FROM
                n_repeats = N_REPEATS if self.used.size < enough else 1
            strata, n_folds = data.strata[self.used], min(n_folds, self.used.size)
            self._folds = Folds.stratified(strata, n_folds, n_repeats, random_state)
            self._use([self._closed_form_part(random_state)])
        else:
            self._use([self._exact_part(*split) for split in splits])

    def _closed_form_part(self, random_state):
        """Return all samples, held out fold by fold in closed form."""
        data, folds = self.data, self._folds
        if self._is_per_feature:
            refitter = data.refitter(1.0, self.used)
            widths: Any = FeatureWidths(data.kernel.at(1.0), data.X[self.used])
        else:
            gamma = self._gamma_at(np.zeros(len(self.bounds)))
            refitter, widths = data.folds_refitter(gamma, folds, random_state)
        return Part(np.tile(self.used, folds.fold.shape[0]), refitter, widths, folds)

    def _exact_part(self, train, test):
        """Return the samples of one split, held out by fitting without them."""
        gamma = self._gamma_at(np.zeros(len(self.bounds)))
        refitter = self.data.refitter(gamma, train, test)
        return Part(test, refitter, self.data.width_between(train, test))

    def _use(self, parts):
        """Hold out the samples of these parts."""
        self.parts = parts
        self.rows = np.concatenate([part.rows for part in parts])
        self.truth = self.data.truth(self.rows, "The held-out samples")

    def parameters(self, x):
        """Return the parameters of the objective and gamma, where the kernel has one, at `x`."""
        return self._at(x)[0]

    def _at(self, x):
        """Return the parameters, the objective, and what tells the widths to refitters, at `x`."""
        data, gamma = self.data, self._gamma_at(x)
        point = data.objective_type.at(x, self._share * data.unit)
        objective = data.make_objective(**point)
        if gamma is not None:
            point["gamma"] = gamma
        return point, objective, data.kernel.at(gamma) if self.has_width else gamma

    def _gamma_at(self, x):
        """Return gamma: a number, one per feature, or None where the kernel has none."""
        if self._is_per_feature:
            return self._gamma * 4.0 ** -x[self._n_loss :]
        if not self.has_width:
            return self._gamma
        return float(gamma_of_width(self.data.mean_distance * 2.0 ** x[-1]))

    def roughness(self, point):
        """Return what points of equal losses are compared by; of widths the earliest are taken."""
        return () if self._is_per_feature else self.data.objective_type.roughness(point)

    def bounds_around(self, start):
        """Return the bounds of a descent."""
        bounds = self.bounds.copy()
        if self._is_per_feature:
            bounds[self._n_loss :] += start[self._n_loss :, None]
        return bounds

    @property
    def quadratic(self):
        """Coordinates of quadratic losses, NaN where they may have any value, or None."""
        of_objective = self.data.objective_type.quadratic
        if of_objective is None or len(self.bounds) == self._n_loss:
            return None
        return np.append(of_objective, np.full(len(self.bounds) - self._n_loss, np.nan))

    @property
    def stays_quadratic(self):
        """Whether active sets of all outputs would cost too much, or tell too little.

        Pairs of classes have few samples each, whose closed form jumps where active sets change.
        """
        n_asked = np.array(self.data.n_asked, dtype=np.float64)
        if self.quadratic is None or n_asked.size == 1:
            return False
        return self.data.are_pairs or np.sum(n_asked**3) > _EVERY_LOSS_UP_TO

    def looks(self, random_state):
        """Return the loss of first looks: at few samples, or at quadratic losses; or None.

        Parameters
        ----------
        random_state : RandomState
            Draws samples and folds.
        """
        if self._folds is None or not self.has_gradient:
            return None
        n_classes = np.unique(self.data.strata).size
        n_looks = max(_LOOKS, min(_LOOKS_PER_CLASS * n_classes, _MOST_LOOKS))
        if self.data.n_samples <= n_looks:
            return self if self.quadratic is not None else None
        n_looks = n_looks if self.has_width else _LINEAR_LOOKS
        return self._of_some(n_looks, random_state) if self.data.n_samples > n_looks else None

    def middle(self, random_state):
        """Return the loss of most of the descent, that of some of many samples; or None.

        Parameters
        ----------
        random_state : RandomState
            Draws folds.
        """
        n_samples = self.data.n_samples
        if not (self._folds and self.has_gradient and self.has_width and n_samples > _MIDDLE_FROM):
            return None
        return self._of_some(int(np.clip(_MIDDLE_SHARE * n_samples, *_MIDDLE)), random_state)

    def _of_some(self, n_samples, random_state):
        return HeldOutLoss(self.data.looks(n_samples), None, random_state, self.guide)

    def judge(self, finalists):
        """Return the loss of finalists: fits without the same folds count as well, if cheap.

        Not where the closed form is exact anyway.

        Parameters
        ----------
        finalists : list of ndarray of shape (n_parameters,)
        """
        is_exact = all(self._at(x)[1].is_quadratic for x in finalists)
        if self._folds is None or self.used.size > _EXACT_UP_TO or is_exact:
            return self
        splits = [
            (np.delete(self.used, left_out), self.used[left_out])
            for _, left_out in self._folds.models()
        ]
        if self.used.size > _ALL_FOLDS_UP_TO:
            splits = splits[: self._folds.n_folds]  # those of one partition
        if any(self.data.lacks_a_class(train) for train, _ in splits):
            return self
        judge = copy(self)
        judge._use([*self.parts, *(self._exact_part(*split) for split in splits)])
        return judge

    def decide(self, x, X):
        """Return decision values of other rows for the model of all samples at widths `x`."""
        _, objective, widths = self._at(x)
        return self.parts[0].decide(objective, widths, X)

    def __call__(self, x, gradient=True):
        """Return the record of `x` and the gradient, or None."""
        x, gradient = np.array(x), gradient and self.has_gradient
        point, objective, widths = self._at(x)
        found = [part.held_out(objective, widths, gradient) for part in self.parts]
        n_outputs = len(self.data.targets)
        decision = np.concatenate([each.decision.reshape(-1, n_outputs) for each in found])
        score, slope = self.guide.score_and_slope(decision, self.truth)
        penalty, apart = 0.0, 0.0
        if self._is_per_feature:
            apart = x[self._n_loss :] - x[self._n_loss :].mean()
            share = PENALTY / self.used.size
            penalty, apart = share * (apart @ apart), 2 * share * apart
        judged = Judged(x, point, 1.0 - score + penalty, self.truth, decision)
        if not gradient:
            return judged, None
        ends = np.cumsum([part.rows.size for part in self.parts])[:-1]
        slopes = [
            part.derivatives(held_out, some)
            for part, held_out, some in zip(self.parts, found, np.split(slope, ends), strict=True)
        ]
        by_loss, by_width = (sum(each) for each in zip(*slopes, strict=True))
        by_x = self.data.objective_type.chain(by_loss)
        return judged, np.append(-by_x, apart - by_width)


def _dense(X) -> Any:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
