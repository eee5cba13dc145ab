"""Results of a long study, one JSON row per line: written at once, and continued where they end."""

import json

import numpy as np


class Rows:
    """Rows of a file, each known by some of its keys.

    Parameters
    ----------
    path : Path
    keys : tuple of str
    """

    def __init__(self, path, keys):
        self.path, self.keys = path, keys
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.all = [json.loads(line) for line in path.read_text().splitlines()]
        self._done = {self._key(row) for row in self.all}

    def _key(self, row):
        return tuple(row[key] for key in self.keys)

    def missing(self, **key):
        """Return whether there is no row of that key yet."""
        return self._key(key) not in self._done

    def add(self, row):
        """Append a row to the file."""
        with self.path.open("a") as file:
            print(json.dumps(row), file=file)
        self.all.append(row)
        self._done.add(self._key(row))


def paired(values, reference):
    """Return how values differ from a reference, set by set, in words and numbers.

    Parameters
    ----------
    values, reference : dict of (set, seed) to float
        Differences are averaged within a set first: sets are independent, splits are not.
    """
    keys = sorted(values.keys() & reference.keys())
    sets = sorted({name for name, _ in keys})
    by_set = np.array(
        [np.mean([values[k] - reference[k] for k in keys if k[0] == name]) for name in sets]
    )
    spread = by_set.std(ddof=1) if by_set.size > 1 else np.nan
    return {
        "sets": len(sets),
        "difference": float(by_set.mean()),
        "standard error": float(spread / np.sqrt(by_set.size)),
        "better": int((by_set > 1e-9).sum()),
        "worse": int((by_set < -1e-9).sum()),
    }
