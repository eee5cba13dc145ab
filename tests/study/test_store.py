"""The store: transactions, claims, exchange, and files that cannot be used."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from optimargin_study import Result, Store, StoreError, Unit, export_results, read_export
from optimargin_study.store import SCHEMA_VERSION


def result(repeat=1, **changes):
    unit = Unit(2, "wdbc", repeat, "svm")
    values = {
        "accuracy": 0.9375,
        "params": {"C": 10.0},
        "seconds": 1.5,
        "fit_seconds": 0.25,
        "gap": 1e-9,
        "seed": unit.seed,
        "details": {"support": 0.5},
        "environment": 'here, "now"',
    }
    return Result(unit=unit, **{**values, **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.sqlite"


def test_result_comes_back_as_it_was_filed(path):
    store = Store(path)
    store.add(result())
    store.add(result(2, accuracy=None, params={}, fit_seconds=None, gap=None, error='it, "broke"'))
    store.close()
    again = Store(path)
    assert again.results() == [
        result(),
        result(2, accuracy=None, params={}, fit_seconds=None, gap=None, error='it, "broke"'),
    ]
    assert again.done() == {result().unit, result(2).unit}


def test_first_result_of_a_unit_stays(path):
    store = Store(path)
    store.add(result())
    store.add(result(accuracy=0.1))
    assert [r.accuracy for r in store.results()] == [0.9375]


def test_unit_is_claimed_once_and_not_when_done(path):
    one, other = Store(path), Store(path)
    unit = result().unit
    assert one.claim(unit)
    assert not other.claim(unit)
    one.add(result())
    assert not other.claim(unit)
    assert one.release(os.getpid()) == []


def test_claim_of_a_dead_process_is_void(path):
    code = (
        "import sys, os; from optimargin_study import Store, Unit;"
        "Store(sys.argv[1]).claim(Unit(2, 'wdbc', 1, 'svm')); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=120)
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM claims").fetchone() == (1,)
    assert Store(path).claim(Unit(2, "wdbc", 1, "svm"))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="told by Linux only")
def test_claim_of_a_process_that_nobody_waited_for_is_void(path):
    store = Store(path)
    code = f"from optimargin_study import *; Store({str(path)!r}).claim(Unit(2, 'wdbc', 1, 'lda'))"
    process = subprocess.Popen([sys.executable, "-c", code])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number is still taken
    assert store.claim(Unit(2, "wdbc", 1, "lda"))
    process.wait()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="told by Linux only")
def test_claim_of_an_earlier_process_of_the_same_number_is_void(path):
    store = Store(path)
    assert store.claim(Unit(2, "wdbc", 1, "lda"))
    assert not store.claim(Unit(2, "wdbc", 1, "lda"))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE claims SET started = started - 7200")
    assert store.claim(Unit(2, "wdbc", 1, "lda"))


def test_two_processes_share_the_units_without_doing_one_twice(path):
    code = """
import sys
from optimargin_study import Store, Unit
store = Store(sys.argv[1])
print([r for r in range(1, 41) if store.claim(Unit(2, "wdbc", r, "svm"))], flush=True)
sys.stdin.read()  # stay alive: the claims of the dead are void
"""
    command = [sys.executable, "-c", code, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    claimed = [json.loads(process.stdout.readline()) for process in processes]
    for process in processes:
        process.communicate(timeout=60)
    assert sorted(claimed[0] + claimed[1]) == list(range(1, 41))


@pytest.mark.parametrize("name", ["results.csv", "results.csv.gz"])
def test_export_fills_a_store_again(path, tmp_path, name):
    store = Store(path)
    store.add(result())
    store.add(result(2, accuracy=None, gap=None, fit_seconds=None, error="a,\nb"))
    export_results(store.results(), tmp_path / name)
    fresh = Store(tmp_path / "fresh.sqlite")
    assert fresh.import_results(read_export(tmp_path / name)) == 2
    assert fresh.import_results(read_export(tmp_path / name)) == 0
    assert fresh.results() == store.results()


@pytest.mark.parametrize("text", ["", "nonsense", "# {}\n", '# {"format": 1}\na,b\n1,2\n'])
def test_file_that_is_no_export_is_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(StoreError, match="is not an export"):
        read_export(tmp_path / "x.csv")


def test_export_of_a_newer_version_and_a_missing_one_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text('# {"format": 99, "environments": []}\n')
    with pytest.raises(StoreError, match="newer version"):
        read_export(tmp_path / "x.csv")
    with pytest.raises(StoreError, match="cannot be read"):
        read_export(tmp_path / "none.csv")


def test_store_of_a_newer_version_is_refused_and_left_alone(path):
    Store(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer version of optimargin"):
        Store(path)
    assert path.read_bytes() == before


def test_file_that_is_no_store_is_refused_and_left_alone(path):
    path.write_text("my thesis, the only copy " * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(path)
    assert path.read_text().startswith("my thesis")
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE other (x)")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match="a database of something else"):
        Store(path)


def test_missing_store_and_missing_folder_are_explained(tmp_path):
    with pytest.raises(StoreError, match="does not exist: name a store"):
        Store(tmp_path / "none.sqlite", create=False)
    with pytest.raises(StoreError, match="folder of"):
        Store(tmp_path / "none" / "x.sqlite")


def test_full_disk_is_explained_and_leaves_the_store_intact(path):
    store = Store(path)
    store.add(result())
    # SQLite's own limit on pages gives the same error as a full disk.
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"full.*free space"):
        store.add(result(2, error="x" * 100_000))
    store.close()
    assert [r.unit.repeat for r in Store(path).results()] == [1]


def test_read_only_store_is_explained(path):
    store = Store(path)
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=r"readonly.*may write to"):
        store.add(result())
