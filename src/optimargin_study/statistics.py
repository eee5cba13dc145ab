"""Statistics of the results: means, paired tests, agreement with the paper."""

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, ttest_rel

from optimargin_study.methods import METHODS
from optimargin_study.protocol import set_names

SIGNIFICANCE = 0.05
REFERENCE = "svm"
_COMPLETE = 0.9  # of the results of the most complete method


@cache
def paper_table(number):
    """Return the paper's means and standard deviations, by data set and column."""
    text = (files(__package__) / "paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)[str(number)]


@dataclass(frozen=True)
class Cell:
    """One method on one data set.

    Attributes
    ----------
    accuracies : dict of int to float
        By repeat.
    paper : tuple of float or None
        Mean and standard deviation in the paper.
    verdict : str
        "better" or "worse" than the reference at 95 %, otherwise "".
    """

    accuracies: dict
    paper: tuple | None
    verdict: str = ""

    @property
    def mean(self):
        """Mean accuracy."""
        return float(np.mean(list(self.accuracies.values())))

    @property
    def std(self):
        """Standard deviation over the repeats; nan for a single repeat."""
        values = list(self.accuracies.values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    @property
    def deviations(self):
        """Difference from the paper's mean in units of its standard deviation, or None."""
        if self.paper is None:
            return None
        # The paper prints three digits: 0.000 can be anything below 0.0005.
        return (self.mean - self.paper[0]) / max(self.paper[1], 5e-4)


@dataclass(frozen=True)
class Comparison:
    """One table of results.

    Attributes
    ----------
    number : int
    methods : list of str
    datasets : list of str
        The sets for which every method has a result.
    cells : dict of (str, str) to Cell
        By data set and method.
    repeats : dict of str to int
        The number of repeats that all methods have in common, by data set.
    """

    number: int
    methods: list
    datasets: list
    cells: dict
    repeats: dict

    def averages(self):
        """Return the mean accuracy of each method over the data sets."""
        return {
            m: float(np.mean([self.cells[d, m].mean for d in self.datasets])) for m in self.methods
        }

    def ranks(self):
        """Return the mean rank of each method, 1 the best."""
        ranks = rankdata(
            [[-self.cells[d, m].mean for m in self.methods] for d in self.datasets], axis=1
        )
        return dict(zip(self.methods, ranks.mean(axis=0).tolist(), strict=True))

    def friedman(self):
        """Return the p value of Friedman's test that all methods are equal, or None."""
        if len(self.methods) < 3 or len(self.datasets) < 3:
            return None
        columns = [[self.cells[d, m].mean for d in self.datasets] for m in self.methods]
        return float(friedmanchisquare(*columns).pvalue)

    def win_tie_loss(self, method, against=REFERENCE):
        """Count the sets where a method is significantly better, not different, or worse."""
        verdicts = [
            compare(self.cells[d, method].accuracies, self.cells[d, against].accuracies)
            for d in self.datasets
        ]
        wins, losses = verdicts.count("better"), verdicts.count("worse")
        return wins, len(verdicts) - wins - losses, losses

    def gain(self, method, against):
        """Return the mean difference of the accuracies over the sets, and its standard error."""
        differences = [
            self.cells[d, method].mean - self.cells[d, against].mean for d in self.datasets
        ]
        error = np.std(differences, ddof=1) / len(differences) ** 0.5
        return float(np.mean(differences)), float(error)

    def agreement(self, method):
        """Count the cells within one and within two of the paper's deviations, and all cells."""
        deviations = [
            abs(self.cells[d, method].deviations)
            for d in self.datasets
            if self.cells[d, method].deviations is not None
        ]
        within = [sum(x <= limit + 1e-9 for x in deviations) for limit in (1, 2)]
        return within[0], within[1], len(deviations)


def compare(accuracies, reference):
    """Return "better", "worse" or "" by a paired t-test at 95 % over the common repeats."""
    common = sorted(set(accuracies) & set(reference))
    difference = np.array([accuracies[r] - reference[r] for r in common])
    if difference.size < 2 or not difference.any():
        return ""
    if np.ptp(difference) <= 1e-12:  # equal up to rounding
        return "better" if difference[0] > 0 else "worse"
    p_value = ttest_rel([accuracies[r] for r in common], [reference[r] for r in common]).pvalue
    if not p_value < SIGNIFICANCE:
        return ""
    return "better" if difference.mean() > 0 else "worse"


def most_complete(covered):
    """Return the methods with about as many results as the one that has most.

    Parameters
    ----------
    covered : dict of str to int
        The number of results, by method.
    """
    least = _COMPLETE * max(covered.values(), default=0)
    return {method for method, n_results in covered.items() if n_results >= least}


def make_comparison(results, number, methods=None):
    """Return one table of results.

    Parameters
    ----------
    results : list of Result
    number : int
        The number of the paper's table.
    methods : sequence of str, default=None
        By default those with about as many results as the most complete one: a method with fewer
        would leave fewer sets and repeats to compare on.

    Returns
    -------
    comparison : Comparison
        Only repeats that all methods have are used. A data set without such a repeat is left out.
    """
    accuracies: dict = {}
    for r in results:
        if r.unit.table == number and r.error is None:
            accuracies.setdefault((r.unit.dataset, r.unit.method), {})[r.unit.repeat] = r.accuracy
    covered: Counter = Counter()
    for (_, method), by_repeat in accuracies.items():
        covered[method] += len(by_repeat)
    if methods is None:
        methods = most_complete(covered)
    chosen = [m for m in METHODS if m in covered and m in methods]
    cells, repeats = {}, {}
    for dataset in set_names(number):
        parts = [accuracies.get((dataset, m), {}) for m in chosen]
        common = set.intersection(*map(set, parts)) if parts else set()
        if not common:
            continue
        repeats[dataset] = len(common)
        shared = [{r: part[r] for r in sorted(common)} for part in parts]
        reference = dict(zip(chosen, shared, strict=True)).get(REFERENCE)
        for method, values in zip(chosen, shared, strict=True):
            column = METHODS[method].paper_column
            figures = paper_table(number).get(dataset, {}).get(column)
            verdict = "" if reference is None or method == REFERENCE else compare(values, reference)
            cells[dataset, method] = Cell(values, figures and tuple(figures), verdict)
    return Comparison(number, chosen, list(repeats), cells, repeats)
