"""Models give the same answers whatever container the same rows come in: a sample, and all cells.

The sample has every row of the table on few and on many columns, filled in all ways, every pair of
containers, and every row in all ways in which training rows and new ones are dense or sparse.
"""

from itertools import groupby, product

import numpy as np
import pytest

from tests.containers import CONTAINERS, DENSE, PRECISIONS, SPARSE, into
from tests.equivalence_table import (
    COLUMNS,
    FILLED,
    N_ONE_BY_ONE,
    ROUTES,
    ROWS,
    SHAPES,
    Cell,
    case,
    cells_of,
    check_cells,
    differences,
)

# All fillings for every row, of few columns or of many.
SHAPES_OF = [
    [(columns, filled) for k, (columns, filled) in enumerate(SHAPES) if (k + k // 4) % 2 == even]
    for even in (0, 1)
]
every_row = pytest.mark.parametrize("name", ROWS)


def sample_of(name):
    """Return (columns, filled, cells) of a row: one container of training rows per shape."""
    row, number = ROWS[name], list(ROWS).index(name)
    kinds = [DENSE, [c for c in row.containers if c not in DENSE] or DENSE[1:]]
    for k, shape in enumerate(SHAPES_OF[number % 2]):
        turn = 4 * number + k
        fit = row.containers[5 * turn % len(row.containers)]  # some dense, some sparse
        other = turn + turn // len(CONTAINERS)  # meets all containers of training rows
        asks = [kind[other % len(kind)] for kind in kinds]
        elsewhere = row.routes[1 + other % (len(row.routes) - 1)]
        here, there = asks[k % 2], asks[(k + 1) % 2]
        cells = [Cell(fit, "fitted", here), Cell(fit, "fitted", here, True)]
        yield *shape, [*cells, Cell(fit, elsewhere, there)]


@every_row
def test_a_sample_of_cells_gives_the_answers_of_the_first(name):
    for columns, filled, cells in sample_of(name):
        check_cells(case(name, columns, filled), cells)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "filled"), SHAPES)
@every_row
def test_all_cells_give_the_answers_of_the_first(name, columns, filled):
    for _, cells in groupby(cells_of(ROWS[name]), key=lambda cell: cell.fit):
        check_cells(case(name, columns, filled), list(cells))


def form(container):
    return "sparse" if container.startswith(SPARSE) else "dense"


def test_the_sample_lacks_no_value_and_no_pair_that_matters():
    cells = [
        (name, columns, filled, cell)
        for name in ROWS
        for columns, filled, some in sample_of(name)
        for cell in some
    ]
    assert {(cell.fit, cell.ask) for *_, cell in cells} == set(product(CONTAINERS, CONTAINERS))
    assert {(cell.fit, cell.route) for *_, cell in cells} == set(product(CONTAINERS, ROUTES))
    assert {(columns, filled) for _, columns, filled, _ in cells} == set(SHAPES)
    for name, row in ROWS.items():
        own = [rest for name_, *rest in cells if name_ == name]
        assert {columns for columns, *_ in own} == set(COLUMNS)
        assert {filled for _, filled, _ in own} == set(FILLED)
        forms = {(form(cell.fit), form(cell.ask)) for *_, cell in own}
        both = ["dense", "sparse"] if row.containers is CONTAINERS else ["dense"]
        assert forms == set(product(both, both)), name
        assert {cell.route for *_, cell in own} == set(row.routes), name
        assert {cell.one_by_one for *_, cell in own} == {False, True}, name


# Graphs are of the numbers of a model, whatever container these came from.

EXPORTED = [
    name
    for name, row in ROWS.items()
    if row.saved and not row.is_precomputed and row.containers is not DENSE
]
GRAPHS = list(product(CONTAINERS, PRECISIONS))
GRAPH_DIGITS = {"64": 1e-6, "32": 2e-3}


def check_graphs(name, columns, filled, graphs):
    """Check that graphs of models fitted in containers say what the model of reference says."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    from optimargin.onnx import to_onnx

    here = case(name, columns, filled)
    for fit, bits in graphs:
        model = here.fitted(fit)
        graph = to_onnx(model, dtype=PRECISIONS[bits])
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        names = [output.name for output in session.get_outputs()]
        new = into(f"C-{bits}", here.new)
        at_once = dict(zip(names, session.run(None, {"X": new}), strict=True))
        each = [session.run(None, {"X": new[i : i + 1]}) for i in range(N_ONE_BY_ONE)]
        one_by_one = dict(zip(names, map(np.concatenate, zip(*each, strict=True)), strict=True))
        is_single = "32" in fit + bits
        digits = max(GRAPH_DIGITS[bits], here.row.single if is_single else here.row.digits)
        for said in (at_once, one_by_one):
            worst = differences(in_our_words(said), here.answers)
            assert max(worst.values()) <= digits, (columns, filled, fit, bits, worst)


def in_our_words(said):
    """Return the outputs of a graph under the names of methods."""
    words = {
        "label": "predict",
        "scores": "decision_function",
        "probabilities": "predict_proba",
        "predictions": "predict",
    }
    return {words[name]: values for name, values in said.items()}


@pytest.mark.parametrize("name", EXPORTED)
def test_a_sample_of_graphs_says_what_the_model_says(name):
    number = EXPORTED.index(name)
    for shape in (number % len(SHAPES), (number + 3) % len(SHAPES)):
        check_graphs(name, *SHAPES[shape], [GRAPHS[(5 * number + shape) % len(GRAPHS)]])


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "filled"), SHAPES)
@pytest.mark.parametrize("name", EXPORTED)
def test_all_graphs_say_what_the_model_says(name, columns, filled):
    check_graphs(name, columns, filled, GRAPHS)
