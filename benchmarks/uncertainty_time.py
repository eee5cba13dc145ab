"""The part of `uncertainty.py` about time: calibrated fits, and all models without one sample."""

from report import write
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_friedman1
from sklearn.model_selection import LeaveOneOut
from timing import interleaved_medians, keep_memory

from optimargin import LinearODMClassifier, ODMClassifier, ODMRegressor

FITS = (500, 1000, 2000, 5000)
MODELS = (500, 2000, 5000)
REFITS = 500  # samples up to which a model per sample is fitted


def run(part, rows, n_splits):
    keep_memory()
    for n_samples in FITS:
        for estimator in (ODMClassifier, LinearODMClassifier):
            what = f"{estimator.__name__}, calibrated"
            if rows.missing(what=what, samples=n_samples):
                rows.add({"what": what, "samples": n_samples, **calibrated(estimator, n_samples)})
    what = "ODMRegressor, intervals of 1000 samples"
    for n_samples in MODELS:
        if rows.missing(what=what, samples=n_samples):
            rows.add({"what": what, "samples": n_samples, **with_intervals(n_samples)})


def calibrated(estimator, n_samples):
    """Return seconds of a fit, of a calibrated one and of the peer."""
    X, y = make_classification(n_samples, 20, n_informative=8, flip_y=0.05, random_state=0)
    peer = CalibratedClassifierCV(estimator(), ensemble=False)
    return interleaved_medians(
        {
            "fit": lambda: estimator().fit(X, y),
            "ours": lambda: estimator(calibration="sigmoid").fit(X, y),
            "peer": lambda: peer.fit(X, y),
        }
    )


def with_intervals(n_samples):
    """Return seconds of a fit, of intervals of all models and, for few samples, of the peer."""
    X, y = make_friedman1(n_samples + 1000, noise=1.0, random_state=0)
    X, new, y = X[:n_samples], X[n_samples:], y[:n_samples]
    gamma = 1.0 / (X.shape[1] * X.var())
    model = ODMRegressor(gamma=gamma).fit(X, y)
    functions = {
        "fit": lambda: ODMRegressor(gamma=gamma).fit(X, y),
        "ours": lambda: model.predict_interval(new, [0.8, 0.9, 0.95]),
    }
    if n_samples <= REFITS:
        functions["peer"] = lambda: _by_refits(ODMRegressor(gamma=gamma), X, y, new)
    return interleaved_medians(functions)


def _by_refits(model, X, y, new):
    from mapie.regression import CrossConformalRegressor

    refits = CrossConformalRegressor(model, confidence_level=[0.8, 0.9, 0.95], cv=LeaveOneOut())
    return refits.fit_conformalize(X, y).predict_interval(new)


def report(part, rows, machine, command):
    table = [
        {
            "what": row["what"],
            "samples": row["samples"],
            "seconds of a fit": row["fit"],
            "seconds": row["ours"],
            "in fits": round(row["ours"] / row["fit"], 2),
            "peer in fits": round(row["peer"] / row["fit"], 2) if "peer" in row else "-",
            "faster than the peer": round(row["peer"] / row["ours"], 1) if "peer" in row else "-",
        }
        for row in rows
    ]
    notes = [
        "Peers: `CalibratedClassifierCV(..., ensemble=False)`, and MAPIE's jackknife+ with a fit",
        "per sample. Times of intervals are without the fit, with the factor of all models.",
    ]
    write("uncertainty_time", "Time of uncertainty", table, machine, notes, command=command)
