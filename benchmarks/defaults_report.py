"""The results of the default parameters as Markdown, and as a fragment for the documentation."""

CHOICE = {"classifier": "", "gamma": "", "C1 / m": "g", "C2 / C1": "g", "D": "g"}
AVERAGES = {"scaling": "", "classifier": "", "accuracy": ".4f", "half A": ".4f", "half B": ".4f"}
PAIRS = {"scaling": "", "classifier": "", "peer": "", "difference": "+.4f"}
PAIRS |= {"standard error": ".4f", "higher": "d", "equal": "d", "lower": "d", "Wilcoxon p": ".3f"}

PROTOCOL = (
    "Accuracy on held-out halves: five random half splits per set, each half training once, "
    "{n_sets} sets. *unit* scales features to [0, 1], *standard* to mean 0 and variance 1, *both* "
    "is the mean of the two. Ranks are among the four classifiers."
)
CANDIDATES = (
    "Mean accuracy over both scalings of the candidates that are best on half A of the sets, on "
    "half B and on all sets, and of the defaults."
)


def sections(results):
    """Yield (title, text, columns, rows) of every table."""
    comparison = results["comparison"]
    protocol = PROTOCOL.format(n_sets=len(comparison["sets"]))
    defaults = [{"classifier": name, **params} for name, params in results["defaults"].items()]
    yield "Default parameters", "", CHOICE, defaults
    yield (
        "Average accuracy and rank",
        protocol,
        AVERAGES | {"mean rank": ".2f"},
        comparison["averages"],
    )
    text = "Difference in accuracy, and the number of sets on which it is higher, equal and lower."
    yield "Against the peer with the same kernel", text, PAIRS, comparison["pairs"]
    if "search" in results:
        halves = zip("AB", results["halves"], strict=True)
        text = " ".join([CANDIDATES, *(f"Half {k}: {', '.join(names)}." for k, names in halves)])
        columns = CHOICE | {"choice": ""} | dict.fromkeys(("half A", "half B", "all"), ".4f")
        yield "Candidates", text, columns, results["search"]
    rows = [{"set": name, **values["both"]} for name, values in comparison["sets"].items()]
    yield "Every set", "Mean over both scalings.", dict.fromkeys(rows[0], ".4f") | {"set": ""}, rows


def _cells(columns, row):
    return [format(row[key], form) if key in row else "" for key, form in columns.items()]


def markdown(results):
    """Return the whole page as Markdown."""
    lines = ["# Default parameters on the regular data sets", ""]
    for title, text, columns, rows in sections(results):
        lines += [f"## {title}", "", *([text, ""] if text else [])]
        lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(_cells(columns, row)) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def restructured(results):
    """Return the same tables as reStructuredText, to be included under a title."""
    lines = []
    for title, text, columns, rows in sections(results):
        lines += [title, "-" * len(title), "", *([text, ""] if text else [])]
        lines += [".. csv-table::", f"   :header: {', '.join(columns)}", ""]
        lines += ["   " + ", ".join(_cells(columns, row)) for row in rows]
        lines.append("")
    return "\n".join(lines)
