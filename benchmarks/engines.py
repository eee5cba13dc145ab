"""Do cheap engines of held-out values rank points of the search as the exact one does?

    python benchmarks/engines.py                    run what is missing
    python benchmarks/engines.py --report           write results/engines.json and .md

The smooth accuracy at 60 points of a Sobol sequence all over the box of the search, RBF kernel, all
rows standardised, pairs of classes. The exact engine leaves folds out in closed form by all kernel
values. The others are landmarks, in single precision; the part of the rows that makes most of the
descent (from 1500 rows on); first looks, at a part of the rows and at least squares, where the
exact engine is at least squares, too; and fits without each fold, which the closed form stands for.
Times are those of values and gradients. The rows are in build/engines.jsonl.
"""

import argparse
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from data import preprocessor
from report import write
from rows import Rows
from scipy.stats import qmc, spearmanr
from sets import _whole
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.selection.search import looks_and_middle
from optimargin.tasks import Classification
from optimargin.training.plan import FoldsPlan, plan_folds

STORE = Path(__file__).parents[1] / "build" / "engines.jsonl"
N_POINTS = 60
SETS = {
    "diabetes": 350,
    "moons": 400,
    "german": 500,
    "hypercube": 750,
    "phishing": 1000,
    "electricity": 1200,
    "htru2": 1500,
    "ijcnn1": 1800,
    "magic": 2000,
    "vowel": 500,
    "digits": 900,
    "segment": 1150,
    "satimage": 2000,
}
EXACT, SQUARES = "exact", "exact, least squares"
FITS = "fits without each fold"
# What each engine is compared with.
REFERENCES = {
    "landmarks": EXACT,
    "part of the rows": EXACT,
    "first looks": SQUARES,
    EXACT: FITS,
}


def data_of(name):
    """Return some rows of a set."""
    X, y = _whole(name)
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    y = np.unique(y, return_inverse=True)[1]
    rows = np.arange(y.size)
    if SETS[name] < y.size:
        rows, _ = train_test_split(rows, train_size=SETS[name], stratify=y, random_state=0)
    X = preprocessor("standard").fit_transform(frame.iloc[rows])
    task = Classification.from_labels(y[rows], multi_class="ovo")
    return SelectionData(
        ODM,
        np.ascontiguousarray(X),
        y[rows],
        None,
        task=task,
        kernel=KernelChoice("rbf"),
        fit_intercept=True,
    )


def with_plan(plan, data):
    """Return the loss of all rows by one of the engines, whatever the plan would be."""
    with patch("optimargin.selection.data.plan_folds", lambda *_: plan):
        return HeldOutLoss(data, None, np.random.RandomState(0))


def losses_of(data):
    """Return what makes the loss of each engine."""
    random_state = np.random.RandomState(0)
    exact = with_plan(FoldsPlan(False), data)
    plan = plan_folds(ODM, data.X, data.n_asked, data.kernel.kind)

    def fits():
        used = np.arange(data.n_samples)
        models = exact.folds.models()
        splits = [(np.delete(used, left_out), left_out) for _, left_out in models]
        return HeldOutLoss(data, splits, np.random.RandomState(0))

    return exact, {
        EXACT: lambda: exact,
        SQUARES: lambda: exact,
        "landmarks": lambda: with_plan(plan, data) if plan.in_few_dimensions else None,
        "part of the rows": lambda: looks_and_middle(exact, random_state)[1],
        "first looks": lambda: looks_and_middle(exact, random_state)[0],
        FITS: fits,
    }


def run(rows):
    """Evaluate all that is missing."""
    for name in SETS:
        data = data_of(name)
        exact, made = losses_of(data)
        points = qmc.scale(qmc.Sobol(4, rng=0).random(64)[:N_POINTS], *exact.bounds.T)
        squares = np.where(np.isnan(exact.quadratic), points, exact.quadratic)
        for engine, make in made.items():
            if not rows.missing(set=name, engine=engine):
                continue
            loss = make()
            if loss is None:  # rows are few enough, or those of pairs of classes
                continue
            at = squares if engine in (SQUARES, "first looks") else points
            start = time.process_time()
            values = [loss(x)[0].loss for x in at]
            row = {
                "set": name,
                "engine": engine,
                "rows": data.n_samples,
                "classes": int(data.strata.max()) + 1,
                "looked at": loss.data.n_samples,
                "cpu": time.process_time() - start,
                "losses": values,
            }
            rows.add(row)
            print(name, engine, row["cpu"], flush=True)


def table(rows):
    """Return one row per set and engine."""
    found = {(row["set"], row["engine"]): row for row in rows}
    out = []
    for engine, reference in REFERENCES.items():
        for name in SETS:
            if (name, engine) not in found or (name, reference) not in found:
                continue
            ours, theirs = found[name, engine], found[name, reference]
            cheap, exact = np.array(ours["losses"]), np.array(theirs["losses"])
            best = np.argsort(exact)
            places = np.flatnonzero(best == cheap.argmin())
            out.append(
                {
                    "engine": engine,
                    "against": reference,
                    "set": name,
                    "rows": ours["rows"],
                    "classes": ours["classes"],
                    "rows looked at": ours["looked at"],
                    "rank correlation": round(float(spearmanr(cheap, exact)[0]), 3),
                    "its best point is worse by": round(
                        100 * (exact[cheap.argmin()] - exact.min()), 2
                    ),
                    "and is number": int(places[0]) + 1,
                    "points differ by": round(100 * exact.std(), 2),
                    "times faster": theirs["cpu"] / ours["cpu"],
                }
            )
    return out


def main():
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    rows = Rows(STORE, ("set", "engine"))
    if not arguments.report:
        with threadpool_limits(1):
            run(rows)
        return
    write(
        "engines",
        "Cheap engines of held-out values beside the exact one, 60 points of the search",
        table(rows.all),
        "one core",
        [
            "Worse by, and differ by (the standard deviation over the points): in points of the "
            "smooth accuracy, as the engine that it is compared with finds them. The best point is "
            "number 1 where both agree. Times are CPU times, with gradients.",
        ],
        command="python benchmarks/engines.py --report",
    )


if __name__ == "__main__":
    main()
