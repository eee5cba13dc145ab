"""Novelty detection: false alarms, the order of scores, fit times, and what the defaults rest on.

    python benchmarks/novelty.py rates      false alarms and p-values on held-out normal samples
    python benchmarks/novelty.py order      AUC for the other classes, beside peers
    python benchmarks/novelty.py defaults   AUC over widths and penalties
    python benchmarks/novelty.py speed      fit times up to 20,000 samples, on a quiet machine
    python benchmarks/novelty.py report     results/novelty.md of what was measured

The largest class of a set of `sets.py` is normal, all other classes are novel. Features are
standardised over all normal samples, of training and test: a scaler that was fitted to the training
samples alone has seen these and not the others, which would be measured along with the methods.
Rows go to results/novelty_*.jsonl as they come; a run that is started again goes on.

Rates: 99, 199, 299, 399 or 499 training samples, so that the levels 0.01, 0.05 and 0.1 are ranks of
held-out scores, on every set that has twice as many normal samples as the least of these. Order and
defaults: half of the normal samples, at most 500.
"""

import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from time import perf_counter
from zlib import crc32

import numpy as np
import pandas as pd
from data import preprocessor
from rows import Rows
from scipy.stats import rankdata, t
from sets import FAMILIES, _whole, names
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.svm import OneClassSVM

from optimargin import OneClassODM

RESULTS = Path(__file__).parent / "results"
LEVELS = (0.01, 0.05, 0.1)
RATE_SIZES = (499, 399, 299, 199, 99)
RATE_SPLITS, ORDER_SPLITS, DEFAULT_SPLITS = 10, 5, 3
MAX_TRAIN, MAX_TEST, FEWEST = 500, 2000, 20
WIDTHS = 2.0 ** np.arange(-1, 6)  # gamma times the sum of the variances
PENALTIES, RATIOS, BANDS = (0.125, 0.5, 2.0, 8.0), (0.0, 0.25, 1.0), (0.0, 0.2, 0.5)
CHOSEN = (8.0, 0.5, 0.25, 0.5)
SPEED_SIZES = (1000, 2000, 5000, 10_000, 20_000)


def set_names():
    """Return the names of all sets with classes."""
    return [*names("binary"), *names("several")]


def family(name):
    """Return one name for all variants of the same data."""
    return next((min(f) for f in FAMILIES if name in f), name)


def halves(every):
    """Return two halves of some sets; variants of the same data are in the same half."""
    out: list[list[str]] = [[], []]
    every = sorted(every, key=lambda name: crc32(name.encode()))
    done: set[str] = set()
    for name in every:
        if name not in done:
            variants = [other for other in every if family(other) == family(name)]
            min(out, key=len).extend(variants)
            done |= set(variants)
    return out


def split(name, seed, sizes=None):
    """Return training, test and novel samples, or None where the set is too small."""
    X, y = _whole(name)
    y = np.asarray(y)
    labels, counts = np.unique(y, return_counts=True)
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(y == labels[counts.argmax()]))
    novel = rng.permutation(np.flatnonzero(y != labels[counts.argmax()]))
    n_train = min(normal.size // 2, MAX_TRAIN)
    if sizes is not None:
        n_train = next((size for size in sizes if size <= n_train), 0)
    if n_train < FEWEST:
        return None
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    rows = normal[:n_train], normal[n_train:][:MAX_TEST], novel[:MAX_TEST]
    scaler = preprocessor("standard").fit(frame.iloc[np.concatenate(rows[:2])])
    return [np.ascontiguousarray(scaler.transform(frame.iloc[part])) for part in rows]


def rate_methods(level):
    """Return what is asked for false alarms at a level."""
    return {
        "OneClassODM": OneClassODM(false_alarm_rate=level),
        "OneClassSVM(nu)": OneClassSVM(nu=level),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True, contamination=level),
        "IsolationForest": IsolationForest(contamination=level, random_state=0),
        "EllipticEnvelope": EllipticEnvelope(contamination=level, random_state=0),
    }


def order_methods(n_samples, n_features):
    """Return the methods whose order of samples is compared, with their own defaults."""
    scott = n_samples ** (-1 / (n_features + 4))
    methods = {
        "OneClassODM": OneClassODM(),
        'OneClassODM(gamma="scale")': OneClassODM(gamma="scale"),
        "OneClassSVM": OneClassSVM(),
        "OneClassSVM, our gamma": OneClassSVM(gamma=8 / n_features),
        "IsolationForest": IsolationForest(random_state=0),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True),
        "KernelDensity": KernelDensity(bandwidth=scott),
        "EllipticEnvelope": EllipticEnvelope(random_state=0),
    }
    if not _has_covariance(n_samples, n_features):
        del methods["EllipticEnvelope"]
    return methods


def _has_covariance(n_samples, n_features):
    """Return whether a robust covariance can be estimated, and within a minute."""
    return n_samples > 2 * n_features


def measure_rates():
    """Measure false alarms on held-out normal samples."""
    rows = Rows(RESULTS / "novelty_rates.jsonl", ("set", "split"))
    for seed in range(RATE_SPLITS):
        for name in set_names():
            if not rows.missing(set=name, split=seed):
                continue
            parts = split(name, seed, RATE_SIZES)
            if parts is None:
                continue
            train, test, _ = parts
            row = {"set": name, "split": seed, "n_train": len(train), "alarms": {}}
            for level in LEVELS:
                alarms = {}
                for method, model in rate_methods(level).items():
                    model.fit(train)
                    alarms[method] = float((model.predict(test) == -1).mean())
                    if method == "OneClassODM":
                        scores = model.score_samples(train)
                        naive = np.sort(scores)[round(level * (len(train) + 1)) - 1]
                        alarms["p-values"] = float((model.p_values(test) <= level).mean())
                        alarms["training scores"] = float(
                            (model.score_samples(test) < naive).mean()
                        )
                row["alarms"][str(level)] = alarms
            rows.add(row)
            print(name, seed, flush=True)


def measure_order():
    """Measure the AUC of novel against held-out normal samples."""
    rows = Rows(RESULTS / "novelty_order.jsonl", ("set", "split"))
    for seed in range(ORDER_SPLITS):
        for name in set_names():
            if not rows.missing(set=name, split=seed):
                continue
            parts = split(name, seed)
            if parts is None:
                continue
            train, test, novel = parts
            new = np.vstack([test, novel])
            label = np.repeat([1, 0], [len(test), len(novel)])
            row = {"set": name, "split": seed, "n_train": len(train), "auc": {}}
            for method, model in order_methods(*train.shape).items():
                model.fit(train)
                row["auc"][method] = float(roc_auc_score(label, model.score_samples(new)))
            rows.add(row)
            print(name, seed, flush=True)


def measure_defaults():
    """Measure the AUC over widths, and over penalties at some widths."""
    rows = Rows(RESULTS / "novelty_defaults.jsonl", ("set", "split"))
    _, penalty, ratio, band = CHOSEN
    for seed in range(DEFAULT_SPLITS):
        for name in set_names():
            if not rows.missing(set=name, split=seed):
                continue
            parts = split(name, seed)
            if parts is None:
                continue
            train, test, novel = parts
            new = np.vstack([test, novel])
            label = np.repeat([1, 0], [len(test), len(novel)])
            total = train.var(axis=0).sum()

            def auc(width, C1, C2_share, D, train=train, new=new, label=label, total=total):
                C1 *= len(train)
                model = OneClassODM(C1, C2_share * C1, D, gamma=width / total).fit(train)
                return float(roc_auc_score(label, model.score_samples(new)))

            points = [(w, penalty, ratio, band) for w in WIDTHS]
            points += [(8.0, C1, ratio, band) for C1 in PENALTIES]
            points += [(8.0, penalty, r, band) for r in RATIOS]
            points += [(8.0, penalty, ratio, D) for D in BANDS]
            found = {" ".join(f"{v:g}" for v in p): auc(*p) for p in dict.fromkeys(points)}
            scale = OneClassODM(gamma="scale").fit(train).score_samples(new)
            found["scale"] = float(roc_auc_score(label, scale))
            rows.add({"set": name, "split": seed, "auc": found})
            print(name, seed, flush=True)


def measure_speed():
    """Measure fit times on the largest class of the generated and public large sets."""
    rows = Rows(RESULTS / "novelty_speed.jsonl", ("set", "n_train", "method"))
    X, y = _whole("magic")
    magic = preprocessor("standard").fit_transform(X[np.asarray(y) == "g"])
    X, y = _whole("electricity")
    electricity = preprocessor("standard").fit_transform(X[np.asarray(y) == "0"])
    generated = np.random.default_rng(0).normal(size=(max(SPEED_SIZES), 10))
    sets = {"magic": magic, "electricity": electricity, "generated": generated}
    methods = {
        "OneClassODM": OneClassODM(random_state=0),
        'OneClassODM(approximation="nystrom")': OneClassODM(
            approximation="nystrom", random_state=0
        ),
        "OneClassSVM(nu=0.05)": OneClassSVM(nu=0.05),
        "OneClassSVM(nu=0.5)": OneClassSVM(),
        "OneClassSVM(nu=0.05), our gamma": OneClassSVM(nu=0.05, gamma=-1.0),
    }
    for name, X in sets.items():
        for n_train in SPEED_SIZES:
            if n_train > len(X):
                continue
            some = np.random.default_rng(1).permutation(len(X))[:n_train]
            train = np.ascontiguousarray(X[some])
            for method, model in methods.items():
                if not rows.missing(set=name, n_train=n_train, method=method):
                    continue
                if getattr(model, "gamma", None) == -1.0:
                    model.set_params(gamma=8 / train.var(axis=0).sum())
                times = []
                while len(times) < 3 and sum(times) < 60:
                    start = perf_counter()
                    model.fit(train)
                    times.append(perf_counter() - start)
                row = {"set": name, "n_train": n_train, "method": method, "seconds": min(times)}
                rows.add(row)
                print(name, n_train, method, f"{min(times):.3f}", flush=True)


def read(kind):
    """Return the rows measured."""
    path = RESULTS / f"novelty_{kind}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def by_set(rows, value):
    """Return the values of the splits of each set."""
    found = defaultdict(list)
    for row in rows:
        found[row["set"]].append(value(row))
    return {name: np.array(values) for name, values in found.items()}


def by_family(rows, value):
    """Return the mean of each family of sets: variants of the same data count once."""
    found = defaultdict(list)
    for name, values in by_set(rows, value).items():
        found[family(name)].append(values.mean())
    return {name: float(np.mean(values)) for name, values in found.items()}


def mean_and_error(values):
    """Return the mean over independent values, and its standard error."""
    values = np.array(list(values))
    values = values[np.isfinite(values)]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def holm(p_values):
    """Return p-values with Holm's correction."""
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    out = np.empty(len(order))
    out[order] = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values)[order]), 1.0)
    return out


def rates_table(rows):
    """Return lines of false alarms, and the summary."""
    methods = list(rows[0]["alarms"]["0.05"])
    n_sets, n_families = len(by_set(rows, len)), len(by_family(rows, len))
    lines = [
        f"False alarms in percent on held-out normal samples: {n_sets} sets, {RATE_SPLITS} splits; "
        f"mean and standard error over {n_families} families (variants of the same data count "
        "once). Sets: how many differ from the level, by a t-test across splits with Holm's "
        "correction at 0.05.",
        "",
        "| method | " + " | ".join(f"wanted {100 * a:g} | sets" for a in LEVELS) + " |",
        "|---|" + "---:|---:|" * len(LEVELS),
    ]
    summary = {}
    for method in methods:
        cells = []
        for level in LEVELS:

            def alarms(row, level=level, method=method):
                return 100 * row["alarms"][str(level)][method]

            mean, error = mean_and_error(by_family(rows, alarms).values())
            tests = []
            for values in by_set(rows, alarms).values():
                spread = values.std(ddof=1) / np.sqrt(values.size)
                ratio = abs(values.mean() - 100 * level) / max(spread, 1e-9)
                tests.append(2 * t.sf(ratio, values.size - 1))
            n_off = int((holm(tests) < 0.05).sum())
            cells.append(f"{mean:.2f} ± {error:.2f} | {n_off}")
            summary[f"{method} {level}"] = {"mean": mean, "error": error, "sets off": n_off}
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines, summary


def order_table(rows):
    """Return lines of AUC, and the summary; a method that cannot be used has the last rank."""
    methods = list(order_methods(99, 2))
    table = np.array(
        [list(by_family(rows, lambda r, m=m: r["auc"].get(m, np.nan)).values()) for m in methods]
    )
    ranks = rankdata(-np.nan_to_num(table), axis=0)
    ours = table[methods.index("OneClassODM")]
    lines = [
        f"AUC of novel against held-out normal samples: {len(by_set(rows, len))} sets, "
        f"{ORDER_SPLITS} splits; mean, standard error, mean rank among {len(methods)} and paired "
        f"difference over {table.shape[1]} families. EllipticEnvelope needs twice as many samples "
        "as features: it is compared on the sets that have them.",
        "",
        "| method | AUC | rank | OneClassODM less it | wins | losses |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    summary = {}
    for method, values, rank in sorted(
        zip(methods, table, ranks, strict=True), key=lambda row: -np.nanmean(row[1])
    ):
        mean, error = mean_and_error(values)
        gain, gain_error = mean_and_error(ours - values)
        wins, losses = int((ours > values + 1e-9).sum()), int((ours < values - 1e-9).sum())
        rank_error = rank.std(ddof=1) / np.sqrt(rank.size)
        lines.append(
            f"| {method} | {mean:.3f} ± {error:.3f} | {rank.mean():.2f} ± {rank_error:.2f} | "
            f"{gain:+.3f} ± {gain_error:.3f} | {wins} | {losses} |"
        )
        summary[method] = {
            "auc": mean, "error": error, "rank": float(rank.mean()), "gain": gain,
            "gain error": gain_error, "wins": wins, "losses": losses,
        }  # fmt: skip
    return lines, summary


def defaults_table(rows):
    """Return lines of AUC over widths and penalties, per half of the sets."""
    points = list(rows[0]["auc"])
    lines = [
        "AUC over settings, `gamma * sum of variances, C1 per sample, C2 / C1, D`: means over "
        f"families of the half of the sets that chose, and of the other; {DEFAULT_SPLITS} splits. "
        "In brackets: the paired difference to the best setting on the half that chose, and its "
        "standard error.",
        "",
        "| setting | chosen on | confirmed on |",
        "|---|---:|---:|",
    ]
    summary = {}
    halves_of_rows = halves({row["set"] for row in rows})
    parts = [[row for row in rows if row["set"] in half] for half in halves_of_rows]
    tables = [
        {
            point: np.array(list(by_family(part, lambda r, p=point: r["auc"][p]).values()))
            for point in points
        }
        for part in parts
    ]
    best = max(points, key=lambda point: tables[0][point].mean())
    for point in points:
        cells, summary[point] = [], []
        for table in tables:
            gap, error = mean_and_error(table[point] - table[best])
            cells.append(f"{table[point].mean():.4f} ({gap:+.4f} ± {error:.4f})")
            summary[point].append({"auc": table[point].mean(), "to best": gap, "error": error})
        lines.append(f"| {point} | " + " | ".join(cells) + " |")
    return lines, summary


def speed_table(rows):
    """Return lines of fit times."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["set"], row["n_train"], row["method"]): row["seconds"] for row in rows}
    lines = [
        "Fit times in seconds (best of up to three); those of OneClassODM include its threshold.",
        "",
        "| set | samples | " + " | ".join(methods) + " |",
        "|---|---:|" + "---:|" * len(methods),
    ]
    for name, n_train in dict.fromkeys((row["set"], row["n_train"]) for row in rows):
        cells = [f"{found.get((name, n_train, method), np.nan):.2f}" for method in methods]
        lines.append(f"| {name} | {n_train} | " + " | ".join(cells) + " |")
    return lines, {" ".join(map(str, key)): value for key, value in found.items()}


TABLES = {
    "rates": ("False alarms", rates_table),
    "order": ("Order of samples", order_table),
    "defaults": ("Defaults", defaults_table),
    "speed": ("Fit times", speed_table),
}


def report():
    """Write results/novelty.md and results/novelty.json."""
    lines, summary = ["# Novelty detection", ""], {}
    for kind, (title, table) in TABLES.items():
        rows = read(kind)
        if rows:
            some, summary[kind] = table(rows)
            lines += [f"## {title}", "", *some, ""]
    (RESULTS / "novelty.md").write_text("\n".join(lines))
    (RESULTS / "novelty.json").write_text(json.dumps(summary, indent=1) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    measures = {
        "rates": measure_rates,
        "order": measure_order,
        "defaults": measure_defaults,
        "speed": measure_speed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for asked in sys.argv[1:]:
            (report if asked == "report" else measures[asked])()
