"""Samples of a product of parameters, where the whole product says little more."""

from itertools import combinations, product


def pairwise(*lists):
    """Return rows of a product so that any two values of different lists meet in one of them.

    Examples
    --------
    >>> pairwise("ab", "xy", [0, 1])
    [('a', 'x', 0), ('a', 'y', 1), ('b', 'x', 1), ('b', 'y', 0)]
    """
    rows = list(product(*[range(len(values)) for values in lists]))
    places = list(combinations(range(len(lists)), 2))

    def pairs(row):
        return {(a, row[a], b, row[b]) for a, b in places}

    missing = set().union(*map(pairs, rows))
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(pairs(row) & missing))
        missing -= pairs(best)
        chosen.append(best)
    return [tuple(values[k] for values, k in zip(lists, row, strict=True)) for row in chosen]
