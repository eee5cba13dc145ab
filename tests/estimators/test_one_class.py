"""The one-class machine: its objective, leave-one-out scores, threshold and p-values."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.neighbors import KernelDensity

from optimargin import LinearODMClassifier, OneClassODM
from optimargin.chunks import ArrayChunks, NpyChunks
from optimargin.io import load_model, save_model
from tests import oracle

pytestmark = pytest.mark.numbers

KERNELS = {
    "rbf": lambda X, rng: rbf_kernel(X, gamma=2.0 ** rng.uniform(-3, 2)),
    "linear": lambda X, rng: linear_kernel(X),
    "poly": lambda X, rng: polynomial_kernel(X, degree=2, gamma=0.3, coef0=1.0),
}


def normal_rows(n_samples=99, n_features=3, *, seed=0):
    """Return rows of two clusters."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, n_features)) + 3.0 * (rng.random((n_samples, 1)) < 0.4)


# The objective


@pytest.mark.parametrize("seed", range(100))
def test_the_objective_is_that_of_a_conic_solver(seed):
    rng = np.random.default_rng(seed)
    n_samples = int(rng.integers(5, 40))
    X = rng.normal(size=(n_samples, int(rng.integers(1, 5)))) + rng.normal()
    K = list(KERNELS.values())[seed % 3](X, rng)
    weight = rng.integers(1, 4, n_samples) * 1.0 if seed % 2 else np.ones(n_samples)
    C1 = 2.0 ** rng.uniform(-3, 9)
    C2 = rng.choice([0.0, 2.0 ** rng.uniform(-3, 9)])
    D = rng.choice([0.0, rng.uniform(0.0, 0.9)])
    model = OneClassODM(C1, C2, D, kernel="precomputed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few samples
        model.fit(K, sample_weight=weight)
    features = oracle.features_of_kernel(K)
    ones = np.ones(n_samples)
    w, _ = oracle.solve(features, ones, weight, C1, C2, D, fit_intercept=False)
    best = oracle.objective(w @ w, features @ w, ones, weight, C1, C2, D)
    theta = np.zeros(n_samples)
    theta[model.support_] = model.dual_coef_[0]
    found = oracle.objective(theta @ K @ theta, K @ theta, ones, weight, C1, C2, D)
    assert found <= best + 1e-8 * max(best, 1e-3)
    assert found >= best - 1e-6 * max(best, 1e-3)
    np.testing.assert_allclose(model.objective_, found, rtol=1e-8, atol=1e-12)


def test_small_penalties_give_a_kernel_density():
    X, new = normal_rows(), normal_rows(seed=1)
    scores = OneClassODM(C1=1e-6, gamma=0.5).fit(X).score_samples(new)
    density = np.exp(KernelDensity(bandwidth=1.0).fit(X).score_samples(new))
    np.testing.assert_allclose(scores / scores.mean(), density / density.mean(), rtol=1e-4)


def test_the_width_is_a_quarter_of_the_distance_from_the_mean():
    X = normal_rows()
    width = np.sqrt(np.square(X - X.mean(axis=0)).sum(axis=1).mean()) / 4
    np.testing.assert_allclose(OneClassODM().fit(X).gamma_, 1 / (2 * width**2))
    np.testing.assert_allclose(OneClassODM().fit(100.0 * X).offset_, OneClassODM().fit(X).offset_)


# Leave-one-out

SETTINGS = {
    "default": {},
    "wide": {"gamma": "scale"},
    "strong": {"gamma": "scale", "C1": 1e4, "C2": 1e3, "D": 0.2},
    "no band": {"D": 0.0},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "linear": {"kernel": "linear"},
    "landmarks": {"approximation": "nystrom", "n_components": 30, "random_state": 0},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_leave_one_out_scores_are_those_of_refits(settings):
    X = normal_rows(40)
    model = OneClassODM(**settings).fit(X)
    found = model.loo_score_samples(exact=True)
    weight = np.ones(40)
    fixed = {"C1": model.C1_ * 39 / 40, "C2": model.C2_ * 39 / 40}
    if hasattr(model, "gamma_"):
        fixed["gamma"] = model.gamma_
    if model.approximation is not None:
        # Landmarks are chosen anew by a refit: here the model of the same ones is asked for.
        Z = model.support_vectors_
        K = rbf_kernel(Z, gamma=model.gamma_)
        root = np.linalg.cholesky(K + 1e-14 * np.eye(len(K)))
        X = np.linalg.solve(root, rbf_kernel(Z, X, gamma=model.gamma_)).T
        fixed |= {"kernel": "linear", "approximation": None}
    for i in range(40):
        weight[i] = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few samples
            refit = clone(model).set_params(**fixed).fit(X, sample_weight=weight)
        np.testing.assert_allclose(refit.score_samples(X[[i]])[0], found[i], atol=1e-6)
        weight[i] = 1.0


def test_of_a_sample_that_stands_for_several_one_is_left_out():
    X = normal_rows(40)
    times = np.random.default_rng(0).integers(1, 4, size=40)
    repeated = np.repeat(np.arange(40), times)
    weighted = OneClassODM(gamma="scale").fit(X, sample_weight=times)
    longer = OneClassODM(gamma="scale").fit(X[repeated])
    for exact in (False, True):
        np.testing.assert_allclose(
            weighted.loo_score_samples(exact=exact)[repeated],
            longer.loo_score_samples(exact=exact),
            atol=1e-9,
        )
    np.testing.assert_allclose(weighted.offset_, longer.offset_, atol=1e-10)
    np.testing.assert_allclose(weighted.p_values(X), longer.p_values(X), atol=1e-10)


def test_held_out_scores_need_the_training_data():
    X = normal_rows()
    model = pickle.loads(pickle.dumps(OneClassODM().fit(X)))
    with pytest.raises(ValueError, match="loaded without its training data"):
        model.loo_score_samples()
    np.testing.assert_allclose(model.loo_score_samples(X), OneClassODM().fit(X).loo_score_samples())
    folds = model.kfold_score_samples(9, X)
    assert folds.shape == (99,)
    assert folds.mean() < model.score_samples(X).mean()
    with pytest.raises(ValueError, match="pass X"):
        model.loo_score_samples(X[::-1])


# Threshold


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.29, 0.5])
def test_the_threshold_is_an_order_statistic(rate):
    X = normal_rows(99)
    model = OneClassODM(false_alarm_rate=rate).fit(X)
    scores = np.sort(model.loo_score_samples())
    np.testing.assert_allclose(model.offset_, scores[round(100 * rate) - 1], rtol=1e-9)
    new = normal_rows(500, seed=1)
    np.testing.assert_array_equal(
        model.decision_function(new), model.score_samples(new) - model.offset_
    )
    np.testing.assert_array_equal(
        model.predict(new), np.where(model.score_samples(new) < model.offset_, -1, 1)
    )


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_new_normal_samples_raise_as_many_alarms_as_asked_for(rate):
    alarms, p_values = [], []
    for seed in range(40):
        model = OneClassODM(false_alarm_rate=rate).fit(normal_rows(99, seed=seed))
        new = normal_rows(400, seed=1000 + seed)
        alarms.append((model.predict(new) == -1).mean())
        p_values.append((model.p_values(new) <= rate).mean())
    for rates in (alarms, p_values):
        error = np.std(rates, ddof=1) / np.sqrt(len(rates))
        assert abs(np.mean(rates) - rate) < 3 * error


def test_too_few_samples_are_told():
    X = normal_rows(18)
    with pytest.warns(UserWarning, match=r"0\.05 needs at least 19 samples, and there are 18"):
        model = OneClassODM().fit(X)
    assert model.offset_ == model.loo_score_samples().min()
    with pytest.warns(UserWarning, match=r"at least 19 samples, and there are 9 \(the sum"):
        OneClassODM().fit(X, sample_weight=np.full(18, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OneClassODM().fit(normal_rows(19))
        OneClassODM().fit(X, sample_weight=np.full(18, 2.0))


# p-values


def refitted_p_values(model, X, new):
    """Return p-values by one refit per training sample, as they are defined."""
    n = len(X)
    fixed = {"C1": model.C1_ * (n - 1) / n, "C2": model.C2_ * (n - 1) / n, "gamma": model.gamma_}
    count = np.ones(len(new))
    for i in range(n):
        refit = clone(model).set_params(**fixed).fit(np.delete(X, i, axis=0))
        count += refit.score_samples(new) >= refit.score_samples(X[[i]]) - 1e-9
    return count / (n + 1)


@pytest.mark.parametrize("settings", [{}, {"gamma": "scale"}, {"D": 0.0}])
def test_p_values_are_those_of_refits(settings):
    X, new = normal_rows(40), np.vstack([normal_rows(30, seed=1), normal_rows(40)[:5], [[9.0] * 3]])
    model = OneClassODM(**settings).fit(X)
    found = model.p_values(new)
    expected = refitted_p_values(model, X, new)
    if model.D == 0.0:  # every sample is active: closed forms are exact where none changes sides
        np.testing.assert_allclose(found, expected, atol=1e-12 + 1 / 41)
    assert np.abs(found - expected).max() <= 2.001 / 41
    assert np.abs(found - expected).mean() <= 0.3 / 41
    assert found[-1] == pytest.approx(1 / 41)


def test_p_values_are_whole_numbers_of_samples():
    p_values = OneClassODM().fit(normal_rows(99)).p_values(normal_rows(2000, seed=1))
    assert set(p_values) <= {k / 100 for k in range(1, 101)}
    assert (p_values <= 0.01).sum() > 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kernel": "linear"},
        {"approximation": "nystrom", "n_components": 20, "random_state": 0},
    ],
)
def test_models_in_files_have_the_same_p_values(settings, tmp_path):
    X, new = normal_rows(), normal_rows(seed=1)
    model = OneClassODM(**settings).fit(X)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.p_values(new), model.p_values(new))
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_a_file_with_damaged_references_is_refused(tmp_path):
    model = OneClassODM().fit(normal_rows())
    model._reference["shares"] = model._reference["shares"][:-1]
    save_model(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match="damaged"):
        load_model(tmp_path / "model.skops")


def test_a_precomputed_kernel_gives_the_same_threshold():
    X, new = normal_rows(), normal_rows(300, seed=1)
    model = OneClassODM(gamma=0.3).fit(X)
    given = OneClassODM(kernel="precomputed", random_state=0).fit(rbf_kernel(X, gamma=0.3))
    assert given.offset_ == pytest.approx(model.offset_, rel=1e-9)
    K = rbf_kernel(new, X, gamma=0.3)
    np.testing.assert_allclose(given.score_samples(K), model.score_samples(new), atol=1e-10)
    assert np.abs(given.p_values(K) - model.p_values(new)).mean() < 0.03  # by folds


def test_many_samples_are_calibrated_by_folds(monkeypatch):
    monkeypatch.setattr("optimargin.training.plan._INVERTED_UP_TO", 50)
    X, new = normal_rows(400), normal_rows(2000, seed=1)
    by_folds = OneClassODM(random_state=0, solver="newton_cg", tol=1e-6).fit(X)
    monkeypatch.undo()
    exact = OneClassODM(tol=1e-6).fit(X)
    assert 0 < abs(by_folds.offset_ - exact.offset_) < 0.1 * exact.offset_
    assert "fold" in by_folds._reference
    np.testing.assert_allclose(by_folds.score_samples(new), exact.score_samples(new), atol=1e-3)
    assert np.abs(by_folds.p_values(new) - exact.p_values(new)).mean() < 0.03
    fold, coef = by_folds._reference["fold"], by_folds._reference["coef"]
    weight = (fold != 2) * 1.0
    share = weight.mean()
    refit = OneClassODM(by_folds.C1_ * share, by_folds.C2_ * share, gamma=by_folds.gamma_)
    refit.fit(X, sample_weight=weight)
    K = rbf_kernel(new, by_folds.support_vectors_, gamma=by_folds.gamma_)
    np.testing.assert_allclose(K @ coef[2], refit.score_samples(new), atol=2e-3)


# Input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_alarm_rate", 0.0),
        ("false_alarm_rate", 0.51),
        ("false_alarm_rate", -0.1),
        ("false_alarm_rate", "5%"),
        ("D", 1.0),
        ("C1", 0.0),
        ("C2", -1.0),
        ("gamma", "narrow"),
    ],
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of OneClassODM"):
        OneClassODM(**{name: value}).fit(normal_rows())


def test_a_y_is_not_looked_at():
    X = normal_rows()
    model = OneClassODM().fit(X)
    for y in (np.full(99, np.nan), np.array(["a"] * 99), np.arange(99)):
        assert OneClassODM().fit(X, y).offset_ == model.offset_


def test_equal_rows_and_single_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        equal = OneClassODM().fit(np.ones((30, 2)))
        single = OneClassODM().fit([[1.0, 2.0]])
    assert equal.predict([[1.0, 1.0], [9.0, 9.0]]).tolist() == [1, -1]
    assert equal.p_values([[1.0, 1.0], [9.0, 9.0]]).tolist() == pytest.approx([1.0, 1 / 31])
    assert np.isfinite(single.offset_)
    assert single.p_values([[1.0, 2.0]]).tolist() == [1.0]


def test_sparse_rows_have_the_p_values_of_dense_ones():
    X = np.where(normal_rows() > 0.5, normal_rows(), 0.0)
    dense, sparse = OneClassODM().fit(X), OneClassODM().fit(sp.csr_array(X))
    assert sparse.offset_ == pytest.approx(dense.offset_, rel=1e-6)
    np.testing.assert_allclose(sparse.p_values(sp.csr_array(X)), dense.p_values(X), atol=0.011)


# Chunks


LANDMARKS = {"approximation": "nystrom", "n_components": 40, "random_state": 0}


@pytest.mark.parametrize("chunk_rows", [70, 130, 1000])
def test_chunks_give_the_model_and_the_rate_of_all_rows(chunk_rows):
    X, new = normal_rows(400), normal_rows(3000, seed=1)
    weight = np.where(np.arange(400) % 7 == 0, 0.0, 1.0)
    chunks = ArrayChunks(X, sample_weight=weight, chunk_rows=chunk_rows)
    model = OneClassODM(**LANDMARKS, tol=1e-6).fit_chunks(chunks)
    assert not hasattr(model, "support_")
    assert model.dual_gap_ <= 1e-6
    reference = OneClassODM(gamma=model.gamma_).fit(X, sample_weight=weight)
    assert model.gamma_ == pytest.approx(OneClassODM().fit(X, sample_weight=weight).gamma_)
    assert model.objective_ >= reference.objective_ - 1e-9  # of all functions, not of a span
    assert model.n_iter_ >= 1
    assert isinstance(model.objective_, float)
    alarms = (model.predict(new) == -1).mean()
    p_values = model.p_values(new)
    for rate in (alarms, (p_values <= 0.05).mean()):
        assert 0.02 < rate < 0.1
    assert model._reference["scores"].size == np.count_nonzero(weight)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.p_values(new), p_values)


def test_the_models_of_folds_are_those_of_fits_without_them():
    X, new = normal_rows(400), normal_rows(300, seed=1)
    model = OneClassODM(**LANDMARKS, tol=1e-10).fit_chunks(ArrayChunks(X, chunk_rows=100))
    reference = model._reference
    Z, gamma = model.support_vectors_, model.gamma_
    root = np.linalg.cholesky(rbf_kernel(Z, gamma=gamma) + 1e-14 * np.eye(40))
    features, new_features = (
        np.linalg.solve(root, rbf_kernel(Z, A, gamma=gamma)).T for A in (X, new)
    )
    weight = (reference["fold"] != 3) * 1.0
    share = weight.mean()
    refit = OneClassODM(model.C1_ * share, model.C2_ * share, kernel="linear")
    refit.fit(features, sample_weight=weight)
    found = rbf_kernel(new, Z, gamma=gamma) @ reference["coef"][3]
    np.testing.assert_allclose(found, refit.score_samples(new_features), atol=1e-5)
    left_out = refit.score_samples(features)[weight == 0]
    np.testing.assert_allclose(reference["scores"][weight == 0], left_out, atol=1e-5)


def test_labels_of_chunks_are_needed_by_classifiers_alone(tmp_path):
    X = normal_rows(60)
    with pytest.raises(ValueError, match="Chunk 0: y is missing"):
        LinearODMClassifier().fit_chunks(ArrayChunks(X, chunk_rows=20))
    with pytest.raises(ValueError, match="needs landmarks"):
        OneClassODM().fit_chunks(ArrayChunks(X, chunk_rows=20))
    np.save(tmp_path / "X.npy", X)
    from_file = OneClassODM(**LANDMARKS).fit_chunks(NpyChunks(tmp_path / "X.npy"))
    in_memory = OneClassODM(**LANDMARKS).fit_chunks(ArrayChunks(X, np.arange(60)))
    assert from_file.offset_ == in_memory.offset_
    with pytest.warns(UserWarning, match="at least 99 samples"):
        OneClassODM(false_alarm_rate=0.01, **LANDMARKS).fit_chunks(ArrayChunks(X))
