"""The same rows in containers of different kinds, for fits and for questions, on random data."""

import time

from tests.equivalence_table import ROWS, Cell, check_cells, made

_N_CELLS = 3
_MANY = 512  # features up to which sparse rows may be filled up
_NEAR = 4
_EXACT = 1e-8  # digits with which p-values and bounds do not depend on chance


def containers(rng):
    """Fit a model to rows in one container, and ask it about rows in others."""
    start = time.process_time()
    name = str(rng.choice(list(ROWS)))
    row = ROWS[name]
    few, many = rng.integers(1, 60), rng.integers(_MANY - _NEAR, _MANY + _NEAR)
    n_features = int((few, many)[rng.integers(2)])
    n_filled = None if rng.random() < 0.2 else int(rng.integers(min(n_features, 4) + 1))
    share = float(10 ** rng.uniform(-2, 0))
    here = made(row, n_features, n_filled, share, rng)
    fit = str(rng.choice(row.containers))
    cells = []
    for _ in range(_N_CELLS):
        route, asked = str(rng.choice(row.routes)), str(rng.choice(row.containers))
        cells.append(Cell(fit, route, asked, route == "fitted" and rng.random() < 0.5))
    found = {"model": name, "columns": n_features, "filled": n_filled, "share": round(share, 3)}
    try:
        check_cells(here, cells, exact=_EXACT)
    except AssertionError as error:
        found["failure"] = str(error)
    return found | {"seconds": round(time.process_time() - start, 3)}
