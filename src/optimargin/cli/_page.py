"""The page of `optimargin auto`: one HTML file that needs nothing else."""

from collections import Counter
from html import escape

import numpy as np

from optimargin import __version__
from optimargin.cli._auto import Predicted
from optimargin.cli._learning import columns_of, describe_columns
from optimargin.cli._preparation import describe_preparation
from optimargin.cli._tasks import SEARCHED, counted, root_mean_square
from optimargin.io._dataset import SHOWN_NAMES, some_of
from optimargin.io._files import write_bytes

_STYLE = """
:root { --ink: #1c2733; --soft: #5b6b7b; --line: #dde3ea; --ours: #1f6fb2; --other: #9fb0c0; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0; background: #f6f8fa; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
section { background: #fff; border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0;
  padding: 1rem 1.25rem; }
h1 { font-size: 1.6rem; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .6rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
.headline { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; align-items: baseline; }
.headline b { font-size: 2.6rem; line-height: 1.1; color: var(--ours); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { background: var(--other); height: .8rem; border-radius: 3px; min-width: 1px; }
.models tr:nth-child(2) .bar { background: var(--ours); } small { font-weight: 400; }
.models tr:nth-child(2) td { font-weight: 600; }
td.meter { width: 40%; min-width: 6rem; vertical-align: middle; }
table.matrix { width: auto; } table.matrix td { text-align: right; min-width: 3rem; }
table.matrix th { font-weight: 500; }
code { background: #eef2f6; padding: .1rem .3rem; border-radius: 4px; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { font: 13px system-ui, sans-serif; fill: #5b6b7b; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  td.meter, th.meter { display: none; } section { padding: .8rem; }
  table { font-size: .9rem; } th.number { white-space: normal; } table.matrix td { min-width: 0; }
  th, td { padding: .35rem .25rem; } .headline b { font-size: 2rem; }
}
"""


def write_page(job, rows, held_out, tested, path):
    """Write the page.

    Parameters
    ----------
    job : Job
    rows : list of Row
        The comparison, the chosen model first.
    held_out : ndarray of shape (n_samples,) or None
        What is predicted for each sample when it is left out.
    tested : Predicted or None
        Predictions for new data.
    path : Path
    """
    known = [tested] if tested is not None else []
    if held_out is not None:
        known.append(Predicted("estimated by leave-one-out", job.samples.y, held_out))
    sections = [
        _headline(job, rows[0].found.search, known, is_tested=tested is not None),
        _comparison(job.task, rows),
        _errors(job.task, known[0]) if known else "",
        _columns(job.samples),
        _model(rows[0].found),
        _next(path.parent),
    ]
    title = escape(str(job.data))
    body = "\n".join(f"<section>{section}</section>" for section in sections if section)
    page = (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title} · optimargin</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n"
        f"<h1>{title}</h1>\n{body}\n"
        f'<p class="soft">Made by optimargin {__version__}.</p>\n</main></body></html>\n'
    )
    write_bytes(path, page.encode())


def _headline(job, search, known, *, is_tested):
    """Return the answer to the first question, how good the model is."""
    y, task = job.samples.y, job.task
    figures = [(_shown_score(task, each), each.of) for each in known]
    if not known and hasattr(search, "held_out_score_"):
        figures = [(f"{search.held_out_score_:.3f}", f"{task.measure}, estimated ({SEARCHED})")]
    if task.name == "classification":
        most, share = task.majority(y)
        beside = f"Always answering {escape(str(most))!r} would be right for {share:.1%}."
    else:
        beside = f"Always answering the mean would be off by {root_mean_square(y - y.mean()):.4g}."
    shown = "".join(
        f"<div><b>{escape(number)}</b> <span class='soft'>{escape(label)}</span></div>"
        for number, label in figures
    )
    size = (
        f"{counted(len(y), 'sample', 'samples')}, "
        f"{counted(job.samples.X.shape[1], 'feature', 'features')}, {task.describe_target(y)[0]}"
    )
    caution = (
        "<p class='soft'>Parameters were chosen on the same samples, which makes the estimate "
        "slightly optimistic. Give rows that were put aside by <code>--test</code> for an estimate "
        "that is not.</p>"
    )
    return (
        f"<p>Predicting <b style='font-size:inherit'>{escape(job.target_name)}</b>: "
        f"{escape(size)}.</p><div class='headline'>{shown}</div>"
        f"<p>{beside}</p>{'' if is_tested else caution}"
    )


def _shown_score(task, known):
    score = task.score(known.y, known.values)
    if task.name == "classification":
        return f"{score:.1%} right"
    return f"± {root_mean_square(known.y - known.values):.4g}, R² {score:.3f}"


def _table(head, lines, kind=""):
    """Return an HTML table; cells are HTML, those of `head` with their tags."""
    rows = "".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f"<div class='scroll'><table class='{kind}'>{rows}</table></div>"


def _terms(title, items):
    """Return a list of terms and texts under a title."""
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in items)
    return f"<h2>{title}</h2><dl>{rows}</dl>"


def _comparison(task, rows):
    """Return the table of all models."""
    is_tested = any(row.test_score is not None for row in rows)
    head = f"<th>model</th><th class='number'>{task.measure}</th>"
    head += "<th class='number'>new data</th>" if is_tested else ""
    lines = []
    for row in rows:
        score = "–" if row.score is None else f"{row.score:.3f}"
        cells = (
            f"<td>{escape(row.name)}<br><small class='soft'>{escape(row.how)}</small></td>"
            f"<td class='number'>{score}</td>"
        )
        if is_tested:
            cells += f"<td class='number'>{row.test_score:.3f}</td>"
        length = 100 * min(1.0, max(0.0, row.score or 0.0))
        bar = f"<div class='bar' style='width:{length:.1f}%'></div>"
        lines.append(f"{cells}<td class='meter'>{bar}</td>")
    return (
        f"<h2>Beside simpler models</h2>{_table(head + '<th class=meter></th>', lines, 'models')}"
        "<p class='soft'>Baselines have the default parameters of scikit-learn and the same "
        "preparation of the table.</p>"
    )


def _errors(task, known):
    """Return the confusion matrix, or the plot of predictions."""
    y, predicted = known.y, known.values
    if task.name == "regression":
        shown = scatter(y, predicted) + _worst(y, predicted)
        return f"<h2>Predictions, {escape(known.of)}</h2>{shown}"
    labels = np.unique(np.concatenate([y, predicted]))
    readable = labels.size <= 20
    shown = confusion(y, predicted, labels) if readable else _frequent_errors(y, predicted)
    return f"<h2>Errors, {escape(known.of)}</h2>{shown}"


def confusion(y, predicted, labels):
    """Return a confusion matrix as an HTML table, with the share found of each class.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,)
    labels : ndarray of shape (n_classes,)
    """
    head = "".join(f"<th class='number'>{escape(str(label))}</th>" for label in labels)
    lines = []
    for label in labels:
        own = predicted[y == label]
        cells = f"<th>{escape(str(label))}</th>"
        for other in labels:
            count = int(np.sum(own == other))
            color = "31,111,178" if other == label else "201,84,60"
            strength = 0.75 * count / max(1, own.size)
            cells += f"<td style='background:rgba({color},{strength:.2f})'>{count}</td>"
        found = f"{np.mean(own == label):.1%}" if own.size else "–"
        lines.append(f"{cells}<td>{found}</td>")
    head = f"<th>true \\ predicted</th>{head}<th class='number'>found</th>"
    return _table(head, lines, "matrix")


def _frequent_errors(y, predicted):
    """Return the most frequent errors, for many classes."""
    wrong = y != predicted
    pairs = Counter(zip(y[wrong].tolist(), predicted[wrong].tolist(), strict=True))
    lines = [
        f"<td>{escape(str(true))}</td><td>{escape(str(label))}</td><td>{count}</td>"
        for (true, label), count in pairs.most_common(SHOWN_NAMES)
    ]
    return _table("<th>true</th><th>predicted</th><th>samples</th>", lines, "matrix")


def scatter(y, predicted):
    """Return a plot of predictions over true values as SVG.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,)
    """
    width, height, left, right, bottom, top = 520, 400, 62, 24, 44, 12  # pixels
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), 2000)).astype(int))
    low = float(min(y.min(), predicted.min()))
    high = float(max(y.max(), predicted.max()))
    span = (high - low) or 1.0

    def across(value):
        return left + (value - low) / span * (width - left - right)

    def up(value):
        return height - bottom - (value - low) / span * (height - bottom - top)

    def text(x, y, words, anchor="middle", more=""):
        return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{more}>{words}</text>"

    parts = [
        f"<line x1='{across(low):.1f}' y1='{up(low):.1f}' x2='{across(high):.1f}' "
        f"y2='{up(high):.1f}' stroke='#9fb0c0' stroke-dasharray='5 4'/>"
    ]
    for tick in round_numbers(low, low + span):
        parts.append(text(across(tick), height - 24, f"{tick:.4g}"))
        parts.append(text(left - 8, up(tick) + 4, f"{tick:.4g}", "end"))
    parts += [
        f"<circle cx='{across(a):.1f}' cy='{up(b):.1f}' r='3' fill='#1f6fb2' fill-opacity='.45'/>"
        for a, b in zip(y[rows].tolist(), predicted[rows].tolist(), strict=True)
    ]
    parts.append(text(width / 2, height - 4, "true"))
    turned = f" transform='rotate(-90 14 {height / 2})'"
    parts.append(text(14, height / 2, "predicted", more=turned))
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' role='img' "
        f"aria-label='predicted over true values'>{''.join(parts)}</svg>"
    )


def round_numbers(low, high):
    """Return some round numbers within a range, for the ticks of an axis."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [k * step for k in range(first, last + 1)]


def _worst(y, predicted):
    """Return how large errors are, in a sentence."""
    errors = np.abs(y - predicted)
    half, most = np.quantile(errors, [0.5, 0.9])
    return (
        f"<p>Half of the predictions are off by at most {half:.4g}, nine of ten by at most "
        f"{most:.4g}; the worst by {errors.max():.4g}.</p>"
    )


def _columns(samples):
    """Return what became of the columns of a table."""
    if samples.kinds is None:
        return ""
    numbers = columns_of(samples, "number")
    items = [("numbers", f"{len(numbers)}: {some_of(numbers)}")] if numbers else []
    items += [(name, text) for name, text, _ in describe_columns(samples)]
    return _terms("The table", items)


def _model(found):
    """Return what the model is."""
    preparation = describe_preparation(found.model)
    items = [("model", found.shown), ("preparation", preparation), found.objective_line()[:2]]
    return _terms("The model", [item for item in items if item[1] is not None])


def _next(folder):
    """Return what to do with the results."""
    files = (
        ("model.skops", "the model; it contains no code and is safe to load"),
        ("held_out.csv", "what is predicted for each sample when it is left out"),
        ("predictions.csv", "predictions for new data"),
    )
    model = escape(str(folder / "model.skops"))
    return (
        _terms("Next", [(name, text) for name, text in files if (folder / name).exists()])
        + f"<p>Predict: <code>optimargin predict NEW.csv {model} predictions.csv</code></p>"
        f"<p>In Python: <code>from optimargin.io import load_model; model = load_model("
        f'"{model}")</code></p>'
    )
