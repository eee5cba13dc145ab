"""One HTML file with all results of a study, and its tables as text."""

import json
from collections import Counter
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from optimargin.io import write_bytes
from optimargin_study import figures, tables
from optimargin_study.export import export_results
from optimargin_study.methods import METHODS
from optimargin_study.protocol import N_FOLDS, TABLES
from optimargin_study.sample_sets import ABOUT
from optimargin_study.statistics import REFERENCE, make_comparison, most_complete

RIVALS = ("svm", "svm_wide")
CLAIMANTS = ("odm", "odml", "odm_default")
N_FIGURES = 6
REPRESENTATIVE = ("wdbc", "sonar", "heart-statlog", "vote", "diabetes", "german")


def verdicts(comparison):
    """Return sentences: how the margin-distribution methods compare with the SVMs.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    sentences : list of str
    """
    sentences = []
    averages = comparison.averages() if comparison.datasets else {}
    for ours in CLAIMANTS:
        for rival in RIVALS:
            if ours not in averages or rival not in averages:
                continue
            wins, ties, losses = comparison.win_tie_loss(ours, rival)
            gain = averages[ours] - averages[rival]
            word = "higher" if gain > 0 else "lower"
            apart = f"{abs(gain):.3f} {word}" if abs(gain) >= 5e-4 else "no difference"
            sentences.append(
                f"{METHODS[ours].label} against {METHODS[rival].label}: {wins} wins, {ties} ties, "
                f"{losses} losses on {wins + ties + losses} sets; average accuracy "
                f"{averages[ours]:.3f} against {averages[rival]:.3f}, {apart}."
            )
    return sentences


def _counted(wins, losses, n_sets):
    """Return in words on how many sets a method is significantly better and worse."""
    if wins == losses == 0:
        return f"no significant difference on any of the {n_sets} sets"
    return f"significantly better on {wins or 'none'}, worse on {losses or 'none'}"


def _summary(comparison):
    """Return the main result in a few sentences, or None."""
    if not comparison.datasets or not {"odm", REFERENCE} <= set(comparison.methods):
        return None
    wins, _, losses = comparison.win_tie_loss("odm")
    averages = comparison.averages()
    n_sets = len(comparison.datasets)
    gain = 100 * (averages["odm"] - averages[REFERENCE])
    text = (
        f"On {n_sets} {TABLES[comparison.number].title}, ODM is {abs(gain):.1f} points "
        f"{'above' if gain > 0 else 'below'} the paper's SVM on average: "
        f"{_counted(wins, losses, n_sets)}."
    )
    if "svm_wide" in averages:
        wide = 100 * (averages["odm"] - averages["svm_wide"])
        won, _, lost = comparison.win_tie_loss("odm", "svm_wide")
        text += (
            f" Against an SVM tuned over a wide grid, with an intercept, it is {abs(wide):.1f} "
            f"points {'above' if wide > 0 else 'below'}: {_counted(won, lost, n_sets)}."
        )
    if {"svm_wide", "odm_default"} <= set(averages):
        gain = 100 * (averages["odm_default"] - averages["svm_wide"])
        won, _, lost = comparison.win_tie_loss("odm_default", "svm_wide")
        text += (
            f" ODM with an intercept, tuned by this library without a grid, is {abs(gain):.1f} "
            f"points {'above' if gain > 0 else 'below'} that SVM: {_counted(won, lost, n_sets)}."
        )
    return text


def answer(comparisons):
    """Return the answer to the question of the report, one sentence, or None.

    Parameters
    ----------
    comparisons : list of Comparison
        Those that have ODM as this library tunes it and the SVM with a wide grid count.
    """
    ours, rival = "odm_default", "svm_wide"
    counted = [c for c in comparisons if c.datasets and {ours, rival} <= set(c.methods)]
    if not counted:
        return None
    wins, ties, losses = map(sum, zip(*(c.win_tie_loss(ours, rival) for c in counted), strict=True))
    gain = 100 * np.mean([c.averages()[ours] - c.averages()[rival] for c in counted])
    share = (wins - losses) / (wins + ties + losses)
    if share > 0.5:
        word = "Yes"
    elif share > 0.2:
        word = "A little"
    elif share >= -0.2:
        word = "No clear difference"
    else:
        word = "No"
    return (
        f"{word}: with both tuned thoroughly, ODM is significantly more accurate than the SVM in "
        f"{wins or 'none'} of {wins + ties + losses} comparisons and less accurate in "
        f"{losses or 'none'}; on average it is {abs(gain):.1f} points "
        f"{'above' if gain > 0 else 'below'}."
    )


def _caution(comparison):
    """Return a sentence about missing repeats, or None."""
    planned = TABLES[comparison.number].repeats
    counts = sorted(set(comparison.repeats.values()))
    if counts[0] >= planned:
        return None
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"These figures rest on {span} of the paper's {planned} repeats: tests over few repeats "
        "rarely find a difference, so there are too many ties."
    )


def make_sections(results):
    """Return one dict of texts and tables for each table that has results."""
    sections = []
    for number in TABLES:
        comparison = make_comparison(results, number)
        if not comparison.datasets:
            continue
        sections.append(
            {
                "number": number,
                "title": TABLES[number].title,
                "summary": _summary(comparison),
                "caution": _caution(comparison),
                "verdicts": verdicts(comparison),
                "friedman": comparison.friedman(),
                "comparison": comparison,
                "tables": [
                    *_worth_tables(results, number),
                    tables.accuracy_table(comparison),
                    tables.agreement_table(comparison),
                    *_further_tables(results, comparison),
                    tables.time_table(results, number),
                ],
            }
        )
    return sections


def _worth_tables(results, number):
    """Return a table of what parts of the methods are worth, if it has rows."""
    table = tables.worth_table(results, number)
    return [table] if table.rows else []


def _further_tables(results, comparison):
    """Return tables of the methods that have fewer results, together with SVM and ODM."""
    own = Counter(r.unit.method for r in results if r.unit.table == comparison.number)
    few = {method: n for method, n in own.items() if method not in comparison.methods}
    found = []
    while few:
        chosen = most_complete(few)
        further = make_comparison(results, comparison.number, {REFERENCE, "odm", *chosen})
        if further.datasets:
            found.append(tables.accuracy_table(further, ", further methods"))
        few = {method: n for method, n in few.items() if method not in chosen}
    return found


def make_context(results):
    """Return everything that the page shows.

    Parameters
    ----------
    results : list of Result

    Returns
    -------
    context : dict
    """
    sections = make_sections(results)
    for section in sections:
        section["ranks_figure"] = figures.critical_differences_figure(section["comparison"])
    claims, curves = _margins(results)
    shown = dict(list(curves.items())[:N_FIGURES])
    effect = figures.band_effect(results, list(shown), 3 if _has(results, 3) else 2)
    return {
        "sections": sections,
        "cautions": dict.fromkeys(s["caution"] for s in sections if s["caution"]),
        "answer": answer([section["comparison"] for section in sections]),
        "margins_figures": figures.margins_figures(shown),
        "claims": claims,
        "margin_kinds": figures.MARGIN_KINDS,
        "margin_verdicts": margin_verdicts(claims),
        "band_verdict": band_verdict(effect) if effect else None,
        "times_figure": figures.times_figure(results),
        "band_figures": figures.band_figures(effect) if effect else [],
        "band": effect,
        "data_table": tables.data_table(),
        "sample_sets": {
            name: about
            for name, about in ABOUT.items()
            if any(r.unit.dataset == name for r in results)
        },
        "methods": [m for m in METHODS.values() if any(r.unit.method == m.key for r in results)],
        "failures": [r for r in results if r.error],
        "environments": sorted({r.environment for r in results}),
        "n_results": len(results),
        "n_folds": N_FOLDS,
    }


def _has(results, table):
    return any(r.unit.table == table for r in results)


def margin_verdicts(claims):
    """Return sentences: on how many sets the paper's claims about margins hold.

    Parameters
    ----------
    claims : list of dict
        See `figures.margin_claims`.
    """
    sentences = []
    for method in dict.fromkeys(claim["method"] for claim in claims):
        own = [claim for claim in claims if claim["method"] == method]
        for kind in figures.MARGIN_KINDS:
            right = sum(claim[kind]["right"] > 0.5 for claim in own)
            smaller = sum(claim[kind]["smaller"] for claim in own)
            sentences.append(
                f"{METHODS[method].label}, {kind} margins: most lie to the right of the SVM's on "
                f"{right} of {len(own)} sets; the smallest is smaller than the SVM's on {smaller}."
            )
    return sentences


def band_verdict(effect):
    """Return a sentence: whether a larger D leaves fewer support vectors."""
    names = list(dict.fromkeys(row["dataset"] for row in effect))
    falls = 0
    for name in names:
        shares = [row["support"] for row in effect if row["dataset"] == name]
        falls += all(b <= a for a, b in pairwise(shares))
    first, last = (
        sum(row["support"] for row in effect if row["D"] == D) / len(names)
        for D in (effect[0]["D"], effect[-1]["D"])
    )
    return (
        f"With D from {effect[0]['D']:g} to {effect[-1]['D']:g} the share of support vectors falls "
        f"from {100 * first:.0f} % to {100 * last:.0f} % on average, without ever rising on "
        f"{falls} of {len(names)} sets."
    )


def _margins(results):
    """Return claims and curves, representative sets first, for RBF if there are results."""
    table = 3 if _has(results, 3) else 2
    known = {r.unit.dataset for r in results if r.unit.table == table}
    names = [n for n in REPRESENTATIVE if n in known]
    names += [n for n in sorted(known) if n not in names]
    claims, curves = figures.margin_claims(results, names, table)
    for claim in claims:
        claim["label"] = METHODS[claim["method"]].label
    return claims, curves


def write_report(results, folder):
    """Write the report and its tables.

    Parameters
    ----------
    results : list of Result
    folder : path-like
        Receives ``index.html``, which needs no other file, the tables alone as ``tables.md``,
        ``tables.tex`` and ``tables.html``, ``claims.json`` and ``results.csv``.

    Returns
    -------
    page : Path
    """
    import jinja2
    from markupsafe import Markup

    if not any(r.error is None for r in results):
        raise ValueError("There are no results to report: run the study first.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    context = make_context(results)
    source = (files(__package__) / "report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["raised"] = lambda text: Markup(tables.as_html(text))
    page = environment.from_string(source).render(**context)
    write_bytes(folder / "index.html", page.encode())
    claims = {"margins": context["claims"], "band": context["band"]}
    write_bytes(folder / "claims.json", json.dumps(claims, indent=1).encode())
    write_tables(context["sections"], folder)
    export_results(results, folder / "results.csv")
    return folder / "index.html"


def write_tables(sections, folder):
    """Write the verdicts and tables as ``tables.md``, ``tables.tex`` and ``tables.html``.

    Parameters
    ----------
    sections : list of dict
        From `make_sections`.
    folder : path-like
    """
    markdown, latex, page = [], [], []
    for section in sections:
        title = f"Table {section['number']}: {section['title']}"
        words = [*filter(None, [section["summary"], section["caution"]]), *section["verdicts"]]
        markdown += [f"## {title}\n", *(f"- {text}" for text in words), ""]
        items = "".join(f"<li>{tables.as_html(text)}</li>" for text in words)
        page.append(f"<h3>{title}</h3>\n<ul>{items}</ul>")
        for table in section["tables"]:
            markdown.append(table.markdown())
            latex.append(table.latex())
            page.append(f'<div class="study-table">{table.html()}</div>')
    for name, parts in {"tables.md": markdown, "tables.tex": latex, "tables.html": page}.items():
        write_bytes(Path(folder) / name, "\n".join(parts).encode())
