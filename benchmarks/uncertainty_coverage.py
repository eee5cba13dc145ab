"""The parts of `uncertainty.py` about the coverage of prediction intervals and sets."""

import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
from report import write
from scipy.stats import ttest_1samp
from sets import names, split
from sklearn.model_selection import LeaveOneOut, train_test_split

from optimargin import ODMClassifier, ODMClassifierCV, ODMRegressor, ODMRegressorCV

SPLITS = 10
LEVELS = [0.8, 0.9, 0.95]
REFITS = {"servo": 2, "bodyfat": 2, "autompg": 1}  # splits on which a model per sample is fitted
EXACT_REFITS = "jackknife+ by refits (MAPIE)"
GUARANTEES = {  # of the level
    "plus": lambda level: 2 * level - 1,
    "minmax": lambda level: level,
    "split conformal (MAPIE)": lambda level: level,
    "class-wise": lambda level: 2 * level - 1,
    "marginal": lambda level: 2 * level - 1,
}


def run(part, rows, n_splits):
    kinds = ["regression"] if part == "intervals" else ["binary", "several"]
    answers = interval_methods if part == "intervals" else set_methods
    for name in [name for kind in kinds for name in names(kind)]:
        for seed in range(n_splits or SPLITS):
            if not rows.missing(set=name, seed=seed, method="done", level=0):
                continue
            X, y, X_test, y_test = split(name, seed)
            for method, judged in answers(name, seed, X, y, X_test, y_test):
                for level, row in zip(LEVELS, judged, strict=True):
                    if rows.missing(set=name, seed=seed, method=method, level=level):
                        rows.add(
                            {"set": name, "seed": seed, "method": method, "level": level, **row}
                        )
            rows.add({"set": name, "seed": seed, "method": "done", "level": 0})
        print(name, flush=True)


def judged_intervals(intervals, y):
    """Return coverage, and the mean width in standard deviations, per level."""
    low, high = intervals[:, 0], intervals[:, 1]
    covered = (low <= y[:, None]) & (y[:, None] <= high)
    width = (high - low).mean(axis=0) / y.std()
    return [
        {"coverage": float(c), "width": float(w)}
        for c, w in zip(covered.mean(axis=0), width, strict=True)
    ]


def interval_methods(name, seed, X, y, X_test, y_test):
    """Yield (method, judged intervals)."""
    y, y_test = y.astype(float), y_test.astype(float)
    gamma = 1.0 / (X.shape[1] * X.var())
    model = ODMRegressor(gamma=gamma).fit(X, y)
    for method in ("plus", "minmax", "base"):
        intervals = model.predict_interval(X_test, LEVELS, method=method)[1]
        yield method, judged_intervals(intervals, y_test)
    tuned = ODMRegressorCV().fit(X, y)
    yield (
        "plus, parameters chosen on the same rows",
        judged_intervals(tuned.predict_interval(X_test, LEVELS)[1], y_test),
    )
    parts = train_test_split(X, y, test_size=0.5, random_state=seed)
    halves = SplitConformalRegressor(
        ODMRegressor(gamma=gamma).fit(parts[0], parts[2]), confidence_level=LEVELS
    ).conformalize(parts[1], parts[3])
    yield (
        "split conformal (MAPIE)",
        judged_intervals(halves.predict_interval(X_test)[1], y_test),
    )
    if seed < REFITS.get(name, 0):
        refits = CrossConformalRegressor(
            ODMRegressor(gamma=gamma), confidence_level=LEVELS, cv=LeaveOneOut()
        ).fit_conformalize(X, y)
        theirs = refits.predict_interval(X_test)[1]
        yield EXACT_REFITS, judged_intervals(theirs, y_test)
        ours = model.predict_interval(X_test, LEVELS)[1]
        difference = float(np.abs(ours - theirs).max() / y.std())
        yield "largest difference to refits", [{"coverage": difference, "width": 0.0}] * 3


def judged_sets(sets, y, classes):
    """Return coverage, that of the worst class, and the mean size, per level."""
    encoded = np.searchsorted(classes, y)
    covered = sets[np.arange(len(y)), encoded]
    worst = np.min([covered[encoded == k].mean(axis=0) for k in np.unique(encoded)], axis=0)
    return [
        {"coverage": float(c), "worst class": float(w), "size": float(s)}
        for c, w, s in zip(covered.mean(axis=0), worst, sets.sum(axis=1).mean(axis=0), strict=True)
    ]


def set_methods(name, seed, X, y, X_test, y_test):
    """Yield (method, judged sets)."""
    model = ODMClassifier(calibration="sigmoid").fit(X, y)
    for method, settings in {
        "class-wise": {},
        "marginal": {"class_wise": False},
        "class-wise, base": {"method": "base"},
    }.items():
        sets = model.predict_set(X_test, LEVELS, **settings)[1]
        yield method, judged_sets(sets, y_test, model.classes_)
    tuned = ODMClassifierCV().fit(X, y)
    yield (
        "class-wise, parameters chosen on the same rows",
        judged_sets(tuned.predict_set(X_test, LEVELS)[1], y_test, tuned.classes_),
    )
    parts = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    if len(parts[1]) <= 1 / (1 - max(LEVELS)):  # MAPIE refuses fewer
        return
    halves = SplitConformalClassifier(
        ODMClassifier(calibration="sigmoid").fit(parts[0], parts[2]), confidence_level=LEVELS
    ).conformalize(parts[1], parts[3])
    sets = halves.predict_set(X_test)[1]
    yield "split conformal (MAPIE)", judged_sets(sets, y_test, model.classes_)


def report(part, rows, machine, command):
    what = "width" if part == "intervals" else "size"
    some = [row for row in rows if row["level"]]
    methods = list(dict.fromkeys(row["method"] for row in some))
    table = []
    for method in methods:
        if method == "largest difference to refits":
            continue
        for level in LEVELS:
            by_set = {}
            for row in some:
                if row["method"] == method and row["level"] == level:
                    by_set.setdefault(row["set"], []).append(row)
            coverage = {name: [r["coverage"] for r in rs] for name, rs in by_set.items()}
            means = np.array([np.mean(values) for values in coverage.values()])
            finite = [
                np.mean([r[what] for r in rs if np.isfinite(r[what])] or [np.nan])
                for rs in by_set.values()
            ]
            line = {
                "method": method,
                "level": level,
                "sets": len(by_set),
                "coverage": float(means.mean()),
                "lowest set": float(means.min()),
                "sets below the guarantee": _below(coverage, GUARANTEES.get(method), level),
                what: float(np.nanmean(finite)),
            }
            if part == "sets":
                worst = [np.mean([r["worst class"] for r in rs]) for rs in by_set.values()]
                line["worst class"] = float(np.mean(worst))
            table.append(line)
    notes = [
        "Coverage is the mean of the sets' means over splits. Sets below the guarantee: those with",
        "a coverage significantly below it over splits (one-sided t-test, 5 %, Holm's correction).",
    ]
    different = [r["coverage"] for r in some if r["method"] == "largest difference to refits"]
    if different:
        notes.append(
            "Widths are in standard deviations of y. Largest difference of an interval's end to "
            f"MAPIE's jackknife+ by refits: {max(different):.1e} standard deviations of y."
        )
    write(f"uncertainty_{part}", f"Prediction {part}", table, machine, notes, command=command)


def _below(coverage, guarantee, level):
    """Return how many sets have a coverage significantly below the guarantee."""
    if guarantee is None:
        return "-"
    p = sorted(
        float(np.nan_to_num(ttest_1samp(v, guarantee(level), alternative="less").pvalue, nan=1.0))
        if len(v) > 1
        else 1.0
        for v in coverage.values()
    )
    for k, value in enumerate(p):
        if value > 0.05 / (len(p) - k):
            return k
    return len(p)
