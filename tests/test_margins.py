"""Margins: their definition, their geometry and what is refused."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.margins import (
    MarginDistribution,
    distribution_from_scores,
    margin_distribution,
    margin_mean,
    margin_variance,
)

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(n_samples=80, n_features=6, flip_y=0.1, random_state=0)
    return X, np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(n_samples=90, centers=3, n_features=4, cluster_std=3.0, random_state=1)


def geometric(est, X, y):
    return margin_distribution(est, X, y, kind="geometric").margins


@pytest.mark.parametrize("est", [ODMClassifier(), LinearODMClassifier(), SVC(), LinearSVC()])
def test_binary_margin_is_signed_decision_value(est, binary):
    X, y = binary
    scores = est.fit(X, y).decision_function(X)
    margins = margin_distribution(est, X, y).margins
    np.testing.assert_allclose(margins, np.where(y == "yes", scores, -scores))
    # Ties aside, a positive margin is a correct prediction.
    np.testing.assert_array_equal(margins > 0, est.predict(X) == y)


@pytest.mark.parametrize("est", [ODMClassifier(), LinearODMClassifier(), SVC(), LinearSVC()])
def test_multiclass_margin_is_true_score_minus_best_other(est, blobs):
    X, y = blobs
    scores = est.fit(X, y).decision_function(X)
    margins = margin_distribution(est, X, y).margins
    expected = [row[k] - np.delete(row, k).max() for row, k in zip(scores, y, strict=True)]
    np.testing.assert_allclose(margins, expected)
    np.testing.assert_array_equal(margins > 0, est.predict(X) == y)


def test_mean_and_variance_agree_with_numpy(binary):
    X, y = binary
    est = LinearODMClassifier().fit(X, y)
    margins = margin_distribution(est, X, y).margins
    assert margin_mean(est, X, y) == pytest.approx(margins.mean())
    assert margin_variance(est, X, y) == pytest.approx(margins.var())
    scaled = geometric(est, X, y)
    assert margin_mean(est, X, y, kind="geometric") == pytest.approx(scaled.mean())
    assert margin_variance(est, X, y, kind="geometric") == pytest.approx(scaled.var())


def test_weight_equals_repetition(binary):
    X, y = binary
    est = LinearODMClassifier().fit(X, y)
    repeats = np.random.default_rng(0).integers(0, 4, y.size)
    X_long, y_long = np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
    assert margin_mean(est, X, y, repeats) == pytest.approx(margin_mean(est, X_long, y_long))
    assert margin_variance(est, X, y, repeats) == pytest.approx(
        margin_variance(est, X_long, y_long)
    )


def test_cumulative_shares_rise_to_one():
    distribution = MarginDistribution(np.array([0.5, -1.0, 2.0]), np.array([0.2, 0.3, 0.5]))
    margins, shares = distribution.cumulative()
    np.testing.assert_array_equal(margins, [-1.0, 0.5, 2.0])
    np.testing.assert_allclose(shares, [0.3, 0.5, 1.0])


@pytest.mark.parametrize("est", [LinearODMClassifier(), LinearSVC(), LogisticRegression()])
def test_geometric_margin_is_the_distance_to_the_plane(est, binary):
    X, y = binary
    est.fit(X, y)
    margins = geometric(est, X, y)
    w = est.coef_[0] / np.linalg.norm(est.coef_)
    # Walking that far along w, against the label, ends on the plane.
    on_plane = X - (np.where(y == "yes", 1, -1) * margins)[:, None] * w
    np.testing.assert_allclose(est.decision_function(on_plane), 0, atol=1e-9)


@pytest.mark.parametrize("make", [ODMClassifier, SVC])
@pytest.mark.parametrize("sparse", [False, True])
def test_kernel_norm_equals_that_of_explicit_features(make, sparse, binary):
    X, y = binary
    data = csr_matrix(X) if sparse else X
    penalty = {"C1": 50.0} if make is ODMClassifier else {}
    linear = make(kernel="linear", **penalty).fit(data, y)
    # The same kernel by another route: no coef_, so the norm comes from dual_coef_.
    poly = make(kernel="poly", degree=1, gamma=1.0, coef0=0.0, **penalty).fit(data, y)
    np.testing.assert_allclose(geometric(poly, data, y), geometric(linear, data, y), rtol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", lambda A, B: (A @ B.T + 1) ** 2])
@pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix is not positive semi-definite")
def test_kernel_norm_is_that_of_the_objective(kernel, binary):
    X, y = binary
    est = ODMClassifier(C1=4.0, C2=1.0, D=0.1, kernel=kernel).fit(X, y)
    margins = margin_distribution(est, X, y).margins
    loss = 4 * np.maximum(0.9 - margins, 0) ** 2 + np.maximum(margins - 1.1, 0) ** 2
    norm = np.sqrt(2 * (est.objective_ - loss.mean()))
    np.testing.assert_allclose(geometric(est, X, y), margins / norm, rtol=1e-6)


def test_hard_margin_svm_has_geometric_margin_one_over_norm():
    X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), [0, 0, 1, 1]
    est = SVC(kernel="rbf", gamma=0.5, C=1e6).fit(X, y)
    functional = margin_distribution(est, X, y).margins
    ratio = functional / geometric(est, X, y)
    K = np.exp(-0.5 * (est.support_vectors_ - est.support_vectors_.T) ** 2)
    norm = np.sqrt(est.dual_coef_ @ K @ est.dual_coef_.T).item()
    np.testing.assert_allclose(ratio, norm)


@pytest.mark.parametrize(
    "est",
    [LinearODMClassifier(multi_class="ovr"), ODMClassifier(kernel="linear", multi_class="ovr")],
)
def test_multiclass_geometric_margin_is_the_distance_to_the_nearest_boundary(est, blobs):
    X, y = blobs
    est.fit(X, y)
    scores, w = est.decision_function(X), est.coef_
    expected = [
        min((scores[i, k] - scores[i, j]) / np.linalg.norm(w[k] - w[j]) for j in range(3) if j != k)
        for i, k in enumerate(y)
    ]
    np.testing.assert_allclose(geometric(est, X, y), expected)


def test_pipelines_and_searches_are_looked_through(binary):
    X, y = binary
    Z = StandardScaler().fit_transform(X)
    pipe = make_pipeline(StandardScaler(), LinearODMClassifier(C1=4.0))
    search = GridSearchCV(pipe, {"linearodmclassifier__C2": [1.0]}, cv=2).fit(X, y)
    plain = LinearODMClassifier(C1=4.0, C2=1.0).fit(Z, y)
    np.testing.assert_allclose(geometric(search, X, y), geometric(plain, Z, y))


def test_pandas_labels_are_accepted(binary):
    pd = pytest.importorskip("pandas")
    X, y = binary
    est = LinearODMClassifier().fit(X, y)
    assert margin_mean(est, X, pd.Series(y)) == pytest.approx(margin_mean(est, X, y))


def precomputed(X, y):
    return ODMClassifier(kernel="precomputed").fit(X @ X.T, y), X @ X.T


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (precomputed, "norm of w of this ODMClassifier is not known"),
        (lambda X, y: (OneVsRestClassifier(SVC()).fit(X, y), X), "is not known"),
        (
            lambda X, y: (SVC(kernel=lambda A, B: A @ B.T).fit(X, y), X),
            "norm of w of this SVC is not known",
        ),
    ],
)
def test_unknown_norm_is_refused(make, message, binary):
    est, X = make(*binary)
    with pytest.raises(ValueError, match=message):
        margin_distribution(est, X, binary[1], kind="geometric")


def test_pairwise_classifiers_are_refused(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="one w per pair of classes"):
        geometric(SVC(kernel="linear").fit(X, y), X, y)
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        margin_mean(SVC(decision_function_shape="ovo").fit(X, y), X, y)


def test_wrong_number_of_weight_vectors_is_refused(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="or fit with multi_class='ovr'"):
        geometric(LinearODMClassifier().fit(X, y), X, y)
    est = LinearODMClassifier(multi_class="ovr").fit(X, y)
    est.coef_ = est.coef_[:2]
    est.decision_function = lambda X: np.zeros((X.shape[0], 3))
    with pytest.raises(ValueError, match="2 weight vectors, not 3"):
        geometric(est, X, y)


def test_zero_weight_vector_is_refused(binary):
    X, y = binary
    est = LinearODMClassifier().fit(np.zeros_like(X), y)
    with pytest.raises(ValueError, match="w is zero"):
        geometric(est, np.zeros_like(X), y)


def test_bad_arguments_are_refused(binary):
    X, y = binary
    est = LinearODMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="kind='norm' is unknown"):
        margin_mean(est, X, y, kind="norm")
    with pytest.raises(ValueError, match="labels the classifier does not know"):
        margin_mean(est, X, np.where(y == "no", "nein", y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        margin_mean(est, X, y[:-1])
    with pytest.raises(ValueError, match="zero for every sample"):
        margin_mean(est, X, y, np.zeros(y.size))
    with pytest.raises(ValueError, match="Negative values"):
        margin_mean(est, X, y, -np.ones(y.size))
    with pytest.raises(TypeError, match="no decision_function"):
        margin_mean(RandomForestClassifier(2).fit(X, y), X, y)
    with pytest.raises(ValueError, match="do not fit 2 classes"):
        distribution_from_scores(y, np.zeros((y.size, 2)), est.classes_)


def test_calibration_does_not_move_the_margins():
    X, y = make_classification(120, weights=[0.8], flip_y=0.4, random_state=0)
    plain = ODMClassifier().fit(X, y)
    calibrated = ODMClassifier(calibration="sigmoid").fit(X, y)
    expected = margin_distribution(plain, X, y).mean
    assert margin_distribution(calibrated, X, y).mean == pytest.approx(expected, rel=1e-9)
