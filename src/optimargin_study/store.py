"""Results of a study in one SQLite file: one transaction per unit, safe for several runners.

A runner claims a unit before it computes it, and stores the result in one transaction. So killing
it at any time loses only the units that are being computed. Claims of processes that no longer
exist are ignored.
"""

import json
import os
import platform
import re
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from optimargin_study.protocol import Unit

SCHEMA_VERSION = 1
_LEASE = 12 * 3600.0  # seconds after which a claim expires
_CLOCK_ERROR = 60.0  # seconds by which the time of boot may be wrong
_SCHEMA = """
CREATE TABLE environments (id INTEGER PRIMARY KEY, description TEXT UNIQUE NOT NULL);
CREATE TABLE results (
    paper_table INTEGER NOT NULL, dataset TEXT NOT NULL, repeat INTEGER NOT NULL,
    method TEXT NOT NULL, accuracy REAL, params TEXT NOT NULL, seconds REAL NOT NULL,
    fit_seconds REAL, gap REAL, seed INTEGER NOT NULL, details TEXT NOT NULL, error TEXT,
    environment INTEGER NOT NULL REFERENCES environments (id),
    PRIMARY KEY (paper_table, dataset, repeat, method)
) WITHOUT ROWID;
CREATE TABLE claims (
    paper_table INTEGER NOT NULL, dataset TEXT NOT NULL, repeat INTEGER NOT NULL,
    method TEXT NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, started REAL NOT NULL,
    PRIMARY KEY (paper_table, dataset, repeat, method)
) WITHOUT ROWID;
"""
_KEY = "paper_table, dataset, repeat, method"


class StoreError(RuntimeError):
    """The store cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Result:
    """The result of one unit.

    Attributes
    ----------
    unit : Unit
    accuracy : float or None
        On the held-out half; None if the unit failed.
    params : dict
        The chosen parameters.
    seconds : float
        CPU time of selection and fit.
    fit_seconds : float or None
        CPU time of the last fit alone.
    gap : float or None
        Certified relative duality gap of the last fit, if the method has one.
    seed : int
        The seed of the split and the folds.
    details : dict
        For example the share of support vectors.
    error : str or None
    environment : str
        Versions and machine.
    """

    unit: Unit
    accuracy: float | None
    params: dict
    seconds: float
    fit_seconds: float | None
    gap: float | None
    seed: int
    details: dict = field(default_factory=dict)
    error: str | None = None
    environment: str = ""


class Store:
    """The results in one SQLite file.

    Parameters
    ----------
    path : path-like
        Created when it does not exist.
    create : bool, default=True
        Whether to create it.

    Examples
    --------
    >>> import tempfile
    >>> from optimargin_study.store import Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(f"{folder}/study.sqlite")
    ...     len(store.results())
    ...     store.close()
    0
    """

    def __init__(self, path, *, create=True):
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise StoreError(f"{self.path} does not exist: name a store that a run has written.")
        if not self.path.parent.is_dir():
            raise StoreError(f"The folder of {self.path} does not exist: create it first.")
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            self._prepare()

    def _prepare(self):
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            self.close()
            raise StoreError(
                f"{self.path} was written by a newer version of optimargin (its format is "
                f"{version}, this one knows {SCHEMA_VERSION}): upgrade, or use another store."
            )
        if version == SCHEMA_VERSION:
            return
        with self._transaction():
            # Another runner may have created the tables in the meantime.
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
                if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise StoreError(f"{self.path} is a database of something else.")
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self):
        """Close the file."""
        self._db.close()

    @contextmanager
    def _explained(self):
        """Turn errors of SQLite into a `StoreError` that says what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            advice = "move it away and import the last export"
            if "readonly" in text or "unable to open" in text:
                advice = "choose a store in a folder you may write to (--store)"
            elif "full" in text or "disk I/O" in text:
                advice = "free space on the disk and run again; what was stored is intact"
            elif "locked" in text:
                advice = "another program holds it; try again"
            raise StoreError(f"{self.path}: {text}: {advice}.") from error

    @contextmanager
    def _transaction(self):
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    # ------------------------------------------------------------------ running

    def claim(self, unit):
        """Claim a unit for this process; return False if it is done or claimed."""
        key = unit.key()
        with self._transaction():
            if self._db.execute(
                "SELECT 1 FROM results WHERE (" + _KEY + ") = (?, ?, ?, ?)", key
            ).fetchone():
                return False
            taken = self._db.execute(
                "SELECT host, process, started FROM claims WHERE (" + _KEY + ") = (?, ?, ?, ?)", key
            ).fetchone()
            if taken and _is_alive(*taken):
                return False
            self._db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*key, platform.node(), os.getpid(), time.time()),
            )
        return True

    def release(self, process):
        """Drop the claims of a process of this machine; return the units."""
        with self._transaction():
            rows = self._db.execute(
                f"SELECT {_KEY} FROM claims WHERE host = ? AND process = ?",
                (platform.node(), process),
            ).fetchall()
            self._db.execute(
                "DELETE FROM claims WHERE host = ? AND process = ?", (platform.node(), process)
            )
        return [Unit(*row) for row in rows]

    def add(self, result):
        """Store a result and drop its claim, in one transaction; an older result is kept."""
        with self._transaction():
            self._insert(result)
            self._db.execute(
                "DELETE FROM claims WHERE (" + _KEY + ") = (?, ?, ?, ?)", result.unit.key()
            )

    def _insert(self, result):
        self._db.execute(
            "INSERT OR IGNORE INTO environments (description) VALUES (?)", (result.environment,)
        )
        environment = self._db.execute(
            "SELECT id FROM environments WHERE description = ?", (result.environment,)
        ).fetchone()[0]
        return self._db.execute(
            "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *result.unit.key(),
                result.accuracy,
                json.dumps(result.params),
                result.seconds,
                result.fit_seconds,
                result.gap,
                result.seed,
                json.dumps(result.details),
                result.error,
                environment,
            ),
        ).rowcount

    def forget_failures(self):
        """Remove failed units, so that the next run tries them again; return their number."""
        with self._transaction():
            return self._db.execute("DELETE FROM results WHERE error IS NOT NULL").rowcount

    # ------------------------------------------------------------------ reading

    def results(self):
        """Return all results, a list sorted by unit."""
        with self._explained():
            rows = self._db.execute(
                f"SELECT {_KEY}, accuracy, params, seconds, fit_seconds, gap, seed, details, "
                "error, description FROM results JOIN environments ON environment = id "
                f"ORDER BY {_KEY}"
            ).fetchall()
        return [_result(row) for row in rows]

    def done(self):
        """Return the units with a result, failed ones included, as a set."""
        with self._explained():
            return {Unit(*row) for row in self._db.execute(f"SELECT {_KEY} FROM results")}

    def import_results(self, results):
        """Add results that are not in the store yet; return how many were new."""
        with self._transaction():
            return sum(self._insert(result) for result in results)


def _result(row):
    table, dataset, repeat, method, accuracy, params, seconds, fit, gap, seed, details, *rest = row
    error, environment = rest
    return Result(
        Unit(table, dataset, repeat, method),
        accuracy,
        json.loads(params),
        seconds,
        fit,
        gap,
        seed,
        json.loads(details),
        error,
        environment,
    )


def _is_alive(host, process, started):
    """Return whether the claim of a process is still valid."""
    recent = time.time() - started < _LEASE
    if host != platform.node():
        return recent
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return recent and not _is_another(process, started)


def _is_another(process, started):
    """Return whether a process has ended, or is not the one that made a claim.

    A killed process keeps its number until its parent asks for it, which in a container may be
    never. And after a restart another process may have that number.
    """
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        boot = re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        return False
    begun = float(boot[1]) + int(fields[18]) / os.sysconf("SC_CLK_TCK") if boot else 0.0
    return state in "ZX" or begun > started + _CLOCK_ERROR
