"""The results of the default parameters as a page of Markdown."""


def table(rows, columns):
    """Return a Markdown table of dictionaries; floats get their format from `columns`."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = (format(row[key], form) if key in row else "" for key, form in columns.items())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def render(results):
    """Return the page."""
    comparison = results["comparison"]
    labels = list(next(iter(comparison["sets"].values()))["both"])
    parts = ["# Default parameters on the regular data sets\n"]
    parts += [
        f"- `{name}`: " + ", ".join(f"`{key}={value!r}`" for key, value in params.items())
        for name, params in results["defaults"].items()
    ]
    parts.append(
        "\nAccuracy on held-out halves, five random halvings a set, each half once the training "
        "half. `unit`: features scaled to [0, 1]; `standard`: standardised; `both`: their mean. "
        "Made by `python benchmarks/defaults.py`.\n\n## Averages\n"
    )
    form = {"scaling": "", "classifier": "", "accuracy": ".4f", "half A": ".4f", "half B": ".4f"}
    parts.append(table(comparison["averages"], form | {"mean rank": ".2f"}))
    parts.append("\n## Against the peer with the same kernel\n")
    parts.append(
        table(
            comparison["pairs"],
            {"scaling": "", "classifier": "", "peer": "", "difference": "+.4f"}
            | {"standard error": ".4f", "higher": "d", "equal": "d", "lower": "d"}
            | {"Wilcoxon p": ".3f"},
        )
    )
    if "search" in results:
        parts.append(
            "\n## The candidates\n\nMean accuracy over both scalings of the candidate that is best "
            "on half A of the sets, on half B and on all, and of the package's defaults. Made by "
            "`python benchmarks/defaults.py --search`.\n"
        )
        form = {"classifier": "", "choice": "", "gamma": "", "C1": "g", "C2": "g", "D": "g"}
        parts.append(
            table(results["search"], form | dict.fromkeys(("half A", "half B", "all"), ".4f"))
        )
        halves = (", ".join(half) for half in results["halves"])
        parts += [f"\nHalf {letter}: {half}." for letter, half in zip("AB", halves, strict=True)]
    parts.append("\n## Every set, both scalings\n")
    rows = [{"set": name, **values["both"]} for name, values in comparison["sets"].items()]
    parts.append(table(rows, {"set": ""} | dict.fromkeys(labels, ".4f")))
    return "\n".join(parts) + "\n"
