"""Tables as Markdown, LaTeX, HTML and plain text."""

import html
from dataclasses import dataclass, field

from optimargin_study.datasets import find_set, list_paper_datasets
from optimargin_study.methods import METHODS
from optimargin_study.protocol import TABLES
from optimargin_study.statistics import REFERENCE, make_comparison

MARKS = {"better": "•", "worse": "◦", "": ""}
_LATEX_MARKS = {"•": r"$\bullet$", "◦": r"$\circ$", "±": r"$\pm$", "^": r"\textasciicircum{}"}
NO_VALUE = "–"
WORTH = (  # what differs between two methods; the last four have the same search
    ("an intercept", "odm_intercept", "odm"),
    ("the loss, both tuned by a grid", "odm_intercept", "svm_wide"),
    ("the search, not the paper's grid", "odm_default", "odm_intercept"),
    ("loss and search together", "odm_default", "svm_wide"),
    ("squared hinge loss and search, not the hinge loss", "odm_no_C2", "svm_wide"),
    ("C2, a penalty above the band", "odm_default", "odm_no_C2"),
    ("D, a band that costs nothing", "odm_default", "odm_no_band"),
    ("C2 < C1 and D, not least squares", "odm_default", "odm_least_squares"),
    ("a width per feature", "odm_widths", "odm_default"),
)


@dataclass
class TextTable:
    """A table of texts.

    Attributes
    ----------
    caption : str
    head : list of str
    rows : list of list of str
    foot : list of list of str
    bold : set of (int, int)
        Cells of `rows` to set in bold.
    """

    caption: str
    head: list
    rows: list
    foot: list = field(default_factory=list)
    bold: set = field(default_factory=set)

    def markdown(self):
        """Return the table as Markdown."""
        lines = [f"**{self.caption}**", "", _bar(self.head), _bar(["---"] * len(self.head))]
        for i, row in enumerate(self.rows):
            lines.append(
                _bar([f"**{x}**" if (i, j) in self.bold else x for j, x in enumerate(row)])
            )
        lines += [_bar([f"*{x}*" if x else "" for x in row]) for row in self.foot]
        return "\n".join(lines) + "\n"

    def plain(self):
        """Return the table for a terminal."""
        rows = [self.head, *self.rows, *self.foot]
        widths = [max(len(row[j]) for row in rows) for j in range(len(self.head))]
        lines = [
            "  ".join(
                x.ljust(w) if j == 0 else x.rjust(w)
                for j, (x, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.caption, *lines])

    def latex(self):
        """Return the table as LaTeX."""
        columns = "l" + "r" * (len(self.head) - 1)
        lines = [
            r"\begin{table}",
            rf"\caption{{{_tex(self.caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
        ]
        lines += [" & ".join(map(_tex, self.head)) + r" \\", r"\hline"]
        for i, row in enumerate(self.rows):
            texts = [
                rf"\textbf{{{_tex(x)}}}" if (i, j) in self.bold else _tex(x)
                for j, x in enumerate(row)
            ]
            lines.append(" & ".join(texts) + r" \\")
        if self.foot:
            lines += [r"\hline"] + [" & ".join(map(_tex, row)) + r" \\" for row in self.foot]
        lines += [r"\hline", r"\end{tabular}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def html(self):
        """Return the table as HTML."""
        head = "".join(f'<th scope="col">{as_html(x)}</th>' for x in self.head)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{' class=best' if (i, j) in self.bold else ''}>{as_html(x)}</td>"
                for j, x in enumerate(row)
            )
            + "</tr>"
            for i, row in enumerate(self.rows)
        )
        foot = "".join(
            "<tr>" + "".join(f"<td>{as_html(x)}</td>" for x in row) + "</tr>" for row in self.foot
        )
        foot = f"<tfoot>{foot}</tfoot>" if foot else ""
        return (
            f"<table class=sortable><caption>{as_html(self.caption)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>"
        )


def as_html(text):
    """Return a text with its marks and superscripts as HTML."""
    text = html.escape(text).replace("^L", "<sup>L</sup>")
    for word, mark in MARKS.items():
        if mark:
            text = text.replace(mark, f'<span class="{word}">{mark}</span>')
    return text


def _bar(cells):
    return "| " + " | ".join(cells) + " |"


def _tex(text):
    for symbol in "&%#_":
        text = text.replace(symbol, "\\" + symbol)
    for symbol, command in _LATEX_MARKS.items():
        text = text.replace(symbol, command)
    return text


def figure(mean, std):
    """Return a mean with its standard deviation, if there is one."""
    return f"{mean:.3f}" if std != std else f"{mean:.3f}±{std:.3f}"


def data_table():
    """Return Table 1: the data sets, and how our versions differ from the paper's."""
    rows = []
    for name in list_paper_datasets():
        s = find_set(name)
        ours = "" if s.shape is None else f"{s.shape[1]} features"
        rows.append([name, s.scale, f"{s.instances:,}", f"{s.features:,}", ours or s.differs or ""])
    return TextTable(
        "Table 1: data sets as in the paper",
        ["set", "scale", "instances", "features", "ours"],
        rows,
    )


def accuracy_table(comparison, note=""):
    """Return Tables 2 to 4: accuracies of all methods, with marks relative to the paper's SVM."""
    c = comparison
    spans = sorted(set(c.repeats.values()))
    repeats = f"{spans[0]}" if len(spans) == 1 else f"{spans[0]} to {spans[-1]}" if spans else "0"
    rows, bold = [], set()
    for i, dataset in enumerate(c.datasets):
        cells = [c.cells[dataset, m] for m in c.methods]
        best = max(round(cell.mean, 3) for cell in cells)
        for j, cell in enumerate(cells):
            if round(cell.mean, 3) == best:
                bold.add((i, j + 1))
        texts = [figure(cell.mean, cell.std) + MARKS[cell.verdict] for cell in cells]
        rows.append([dataset, *texts, str(c.repeats[dataset])])
    foot = []
    if c.datasets:
        averages, ranks = c.averages(), c.ranks()
        foot.append(["average", *(f"{averages[m]:.3f}" for m in c.methods), ""])
        foot.append(["mean rank", *(f"{ranks[m]:.2f}" for m in c.methods), ""])
        if REFERENCE in c.methods:
            counts = [
                "" if m == REFERENCE else "/".join(map(str, c.win_tie_loss(m))) for m in c.methods
            ]
            foot.append(["win/tie/loss against SVM", *counts, ""])
    return TextTable(
        f"Table {c.number}{note}: accuracy on {TABLES[c.number].title}, mean±std of {repeats} half "
        "splits; •/◦ significantly better/worse than SVM (paired t-test, 95 %)",
        ["set", *(METHODS[m].label for m in c.methods), "repeats"],
        rows,
        foot,
        bold,
    )


def worth_table(results, number):
    """Return what parts of a method are worth, as far as there are two that differ in it alone.

    Each pair of methods is compared on all repeats that both have.
    """
    rows = []
    for what, method, other in WORTH:
        c = make_comparison(results, number, (method, other))
        if len(c.methods) == 2 and len(c.datasets) > 1:
            mean, error = c.gain(method, other)
            counts = "/".join(map(str, c.win_tie_loss(method, other)))
            labels = [METHODS[method].label, METHODS[other].label]
            gain = f"{100 * mean:+.2f}±{100 * error:.2f}"
            rows.append([what, *labels, gain, counts, str(min(c.repeats.values()))])
    return TextTable(
        f"Table {number}, what each part contributes: mean difference of the accuracy in points, "
        "with its standard error over sets; sets with a significant difference",
        ["what", "with it", "without it", "points", "win/tie/loss", "repeats"],
        rows,
    )


def agreement_table(comparison):
    """Return the paper's figures and ours, with the difference in its standard deviations."""
    methods = [m for m in comparison.methods if METHODS[m].paper_column]
    known = [d for d in comparison.datasets if any(comparison.cells[d, m].paper for m in methods)]
    rows, bold = [], set()
    for i, dataset in enumerate(known):
        row = [dataset]
        for method in methods:
            cell = comparison.cells[dataset, method]
            if cell.paper is None:
                row += [f"{cell.mean:.3f}", NO_VALUE, NO_VALUE]
                continue
            if abs(cell.deviations) > 2:
                bold.add((i, len(row) + 2))
            row += [f"{cell.mean:.3f}", figure(*cell.paper), f"{cell.deviations:+.1f}"]
        rows.append(row)
    head, foot = ["set"], [["within 1 / 2 deviations"]]
    for method in methods:
        label = METHODS[method].label
        head += [label, f"{label}, paper", "diff / std"]
        one, two, total = comparison.agreement(method)
        foot[0] += ["", "", f"{one} / {two} of {total}"]
    return TextTable(
        f"Table {comparison.number}, our figures and the paper's; bold: beyond two of its standard "
        "deviations",
        head,
        rows,
        foot,
        bold,
    )


def time_table(results, number):
    """Return the CPU seconds of each method: the total, and the median per unit."""
    import numpy as np

    rows = []
    for key, method in METHODS.items():
        seconds = [r.seconds for r in results if r.unit.table == number and r.unit.method == key]
        if seconds:
            fits = [
                r.fit_seconds
                for r in results
                if r.unit.table == number and r.unit.method == key and r.fit_seconds is not None
            ]
            rows.append(
                [
                    method.label,
                    str(len(seconds)),
                    f"{sum(seconds):.0f}",
                    f"{np.median(seconds):.2f}",
                    f"{np.median(fits):.4f}" if fits else NO_VALUE,
                ]
            )
    return TextTable(
        f"CPU seconds for table {number}: choosing parameters and fitting",
        ["method", "runs", "total", "median per run", "median of the last fit"],
        rows,
    )
