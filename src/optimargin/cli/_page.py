"""The page of `optimargin auto`: one HTML file that needs nothing else."""

from html import escape

import numpy as np

from optimargin import __version__
from optimargin.cli._preparation import describe_preparation
from optimargin.cli._tasks import counted, root_mean_square
from optimargin.io._files import write_bytes

_SHOWN_CLASSES = 20  # a larger confusion matrix is unreadable
_SHOWN_POINTS = 2000  # of a scatter plot
_SHOWN_CELLS = 12  # of a list of columns
_WIDTH, _HEIGHT, _EDGE = 520, 400, 62  # of a plot, in pixels

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
.ours .bar { background: var(--ours); } .ours td { font-weight: 600; } small { font-weight: 400; }
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


def write_page(job, found, rows, tested, path):
    """Write the page.

    Parameters
    ----------
    job : Job
    found : Found
        The chosen model.
    rows : list of Row
        The comparison, the chosen model first.
    tested : Tested or None
    path : Path
    """
    sections = [
        _headline(job, rows[0], tested),
        _comparison(job.task, rows),
        _errors(job, rows[0], tested),
        _columns(job.samples),
        _model(job, found),
        _next(job, path.parent),
    ]
    title = f"{escape(str(job.data))} · optimargin"
    body = "\n".join(f"<section>{section}</section>" for section in sections if section)
    page = (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n"
        f"<h1>{escape(str(job.data))}</h1>\n{body}\n"
        f'<p class="soft">Made by optimargin {__version__}.</p>\n</main></body></html>\n'
    )
    write_bytes(path, page.encode())


def _headline(job, ours, tested):
    """Return the answer to the first question, how good the model is."""
    y, task = job.samples.y, job.task
    what = f"Predicting <b style='font-size:inherit'>{escape(job.target_name)}</b>"
    parts = []
    if tested is not None:
        parts.append((_shown_score(task, tested.y, tested.predicted), f"on {tested.path}"))
    if ours.predicted is not None:
        parts.append((_shown_score(task, y, ours.predicted), f"estimated ({ours.how})"))
    elif ours.score is not None:
        parts.append((f"{ours.score:.3f}", f"{task.measure}, estimated ({ours.how})"))
    if task.name == "classification":
        most, share = task.majority(y)
        beside = f"Always answering {escape(str(most))!r} would be right for {share:.1%}."
    else:
        beside = f"Always answering the mean would be off by {root_mean_square(y - y.mean()):.4g}."
    figures = "".join(
        f"<div><b>{escape(number)}</b> <span class='soft'>{escape(label)}</span></div>"
        for number, label in parts
    )
    size = (
        f"{counted(len(y), 'sample', 'samples')}, "
        f"{counted(job.samples.X.shape[1], 'feature', 'features')}, {task.describe_target(y)[0]}"
    )
    caution = (
        ""
        if tested is not None
        else "<p class='soft'>Parameters were chosen with the same samples, which makes the "
        "estimate slightly optimistic; <code>--test</code> with rows that were put aside does "
        "not.</p>"
    )
    return (
        f"<p>{what}: {escape(size)}.</p><div class='headline'>{figures}</div>"
        f"<p>{beside}</p>{caution}"
    )


def _shown_score(task, y, predicted):
    if task.name == "classification":
        return f"{task.score(y, predicted):.1%} right"
    return f"± {root_mean_square(y - predicted):.4g}, R² {task.score(y, predicted):.3f}"


def _comparison(task, rows):
    """Return the table of all models."""
    is_tested = any(row.test_score is not None for row in rows)
    head = f"<th>model</th><th class='number'>{task.measure}</th>"
    head += "<th class='number'>new data</th>" if is_tested else ""
    head += "<th class='meter'></th>"
    lines = []
    for k, row in enumerate(rows):
        score = "–" if row.score is None else f"{row.score:.3f}"
        name = f"{escape(row.name)}<br><small class='soft'>{escape(row.how)}</small>"
        cells = f"<td>{name}</td><td class='number'>{score}</td>"
        if is_tested:
            cells += f"<td class='number'>{row.test_score:.3f}</td>"
        length = 100 * min(1.0, max(0.0, row.score or 0.0))
        cells += f"<td class='meter'><div class='bar' style='width:{length:.1f}%'></div></td>"
        lines.append(f"<tr{' class=ours' if k == 0 else ''}>{cells}</tr>")
    return (
        "<h2>Beside simpler models</h2><div class='scroll'><table>"
        f"<tr>{head}</tr>{''.join(lines)}</table></div>"
        "<p class='soft'>Baselines have the default parameters of scikit-learn and the same "
        "preparation of the table.</p>"
    )


def _errors(job, ours, tested):
    """Return the confusion matrix, or the plot of predictions."""
    if tested is not None:
        y, predicted, of = tested.y, tested.predicted, f"on {tested.path}"
    elif ours.predicted is not None:
        y, predicted, of = job.samples.y, ours.predicted, "of samples left out"
    else:
        return ""
    if job.task.name == "regression":
        return f"<h2>Predictions {escape(of)}</h2>{scatter(y, predicted)}{_worst(y, predicted)}"
    labels = np.unique(np.concatenate([y, predicted]))
    if labels.size > _SHOWN_CLASSES:
        return f"<h2>Errors {escape(of)}</h2>" + _frequent_errors(y, predicted)
    return f"<h2>Errors {escape(of)}</h2>" + confusion(y, predicted, labels)


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
        counts = [int(np.sum(own == other)) for other in labels]
        cells = ""
        for other, count in zip(labels, counts, strict=True):
            share = count / max(1, own.size)
            color = "31,111,178" if other == label else "201,84,60"
            cells += f"<td style='background:rgba({color},{0.75 * share:.2f})'>{count}</td>"
        found = f"{counts[list(labels).index(label)] / own.size:.1%}" if own.size else "–"
        lines.append(f"<tr><th>{escape(str(label))}</th>{cells}<td>{found}</td></tr>")
    return (
        "<div class='scroll'><table class='matrix'>"
        f"<tr><th>true \\ predicted</th>{head}<th class='number'>found</th></tr>{''.join(lines)}"
        "</table></div>"
    )


def _frequent_errors(y, predicted):
    """Return the most frequent errors, for many classes."""
    wrong = y != predicted
    pairs, counts = np.unique(
        np.stack([y[wrong].astype(str), predicted[wrong].astype(str)], axis=1),
        axis=0,
        return_counts=True,
    )
    order = np.argsort(-counts, kind="stable")[:_SHOWN_CELLS]
    lines = "".join(
        f"<tr><td>{escape(str(pairs[k, 0]))}</td><td>{escape(str(pairs[k, 1]))}</td>"
        f"<td class='number'>{counts[k]}</td></tr>"
        for k in order
    )
    return (
        "<table class='matrix'><tr><th>true</th><th>predicted</th><th class='number'>samples</th>"
        f"</tr>{lines}</table>"
    )


def scatter(y, predicted):
    """Return a plot of predictions over true values as SVG.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,)
    """
    rows = np.arange(len(y))
    if rows.size > _SHOWN_POINTS:
        rows = np.unique(np.linspace(0, rows.size - 1, _SHOWN_POINTS).astype(int))
    low = float(min(y.min(), predicted.min()))
    high = float(max(y.max(), predicted.max()))
    span = (high - low) or 1.0

    def across(value):
        return _EDGE + (value - low) / span * (_WIDTH - _EDGE - 24)

    def up(value):
        return _HEIGHT - 44 - (value - low) / span * (_HEIGHT - 44 - 12)

    ticks = round_numbers(low, low + span)
    parts = [
        f"<line x1='{across(low):.1f}' y1='{up(low):.1f}' x2='{across(high):.1f}' "
        f"y2='{up(high):.1f}' stroke='#9fb0c0' stroke-dasharray='5 4'/>"
    ]
    for tick in ticks:
        x, y_text = f"{across(tick):.1f}", f"{up(tick) + 4:.1f}"
        parts += [
            f"<text x='{x}' y='{_HEIGHT - 24}' text-anchor='middle'>{tick:.4g}</text>",
            f"<text x='{_EDGE - 8}' y='{y_text}' text-anchor='end'>{tick:.4g}</text>",
        ]
    parts += [
        f"<circle cx='{across(a):.1f}' cy='{up(b):.1f}' r='3' fill='#1f6fb2' fill-opacity='.45'/>"
        for a, b in zip(y[rows].tolist(), predicted[rows].tolist(), strict=True)
    ]
    parts.append(f"<text x='{_WIDTH / 2}' y='{_HEIGHT - 4}' text-anchor='middle'>true</text>")
    parts.append(
        f"<text x='14' y='{_HEIGHT / 2}' transform='rotate(-90 14 {_HEIGHT / 2})' "
        "text-anchor='middle'>predicted</text>"
    )
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' role='img' "
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
    names = samples.feature_names or [f"column {j + 1}" for j in range(len(samples.kinds))]
    items = []
    for kind, title in (("number", "numbers"), ("category", "categories")):
        own = [name for name, other in zip(names, samples.kinds, strict=True) if other == kind]
        if own:
            items.append((f"{len(own)} {title}", _listed(own)))
    n_missing = int(np.sum(samples.X != samples.X))
    if n_missing:
        per_column = np.sum(samples.X != samples.X, axis=0)
        order = [int(j) for j in np.argsort(-per_column, kind="stable") if per_column[j]]
        shown = _listed([f"{names[j]} ({per_column[j]})" for j in order])
        items.append(("missing values", shown))
    items += [(f"left out: {name}", reason) for name, reason in samples.left_out.items()]
    items += [("note", remark) for remark in samples.remarks]
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in items)
    return f"<h2>The table</h2><dl>{rows}</dl>"


def _listed(names):
    shown = ", ".join(names[:_SHOWN_CELLS])
    return f"{shown} and {len(names) - _SHOWN_CELLS} more" if len(names) > _SHOWN_CELLS else shown


def _model(job, found):
    """Return what the model is."""
    items = [("model", found.shown)]
    words = describe_preparation(found.model)
    if words is not None:
        items.append(("preparation", words))
    name, text, _ = found.objective_line()
    items.append((name, text))
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in items)
    return f"<h2>The model</h2><dl>{rows}</dl>"


def _next(job, folder):
    """Return what to do with the results."""
    files = "".join(
        f"<dt>{escape(name)}</dt><dd>{text}</dd>"
        for name, text in (
            ("model.skops", "the model; it contains no code and is safe to share"),
            ("held_out.csv", "what is predicted for each sample when it is left out"),
            ("predictions.csv", "predictions for new data"),
        )
        if (folder / name).exists()
    )
    model = escape(str(folder / "model.skops"))
    return (
        f"<h2>Next</h2><dl>{files}</dl>"
        f"<p>Predict: <code>optimargin predict NEW.csv {model} predictions.csv</code></p>"
        f"<p>In Python: <code>from optimargin.io import load_model; model = load_model("
        f'"{model}")</code></p>'
    )
