"""Disks that are full: an error in words, the old file intact, nothing left beside it."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from optimargin_study import find_methods, plan
from optimargin_study.store import Result, Store, StoreError
from tests.fuzz.commands import run_command
from tests.fuzz.writers import WRITERS

_SIZE = 1 << 20  # bytes
_MOUNT = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs"]


def full_disk(rng):
    """Write where too little is free."""
    with _small_disk() as disk:
        if disk is None:
            return {"refused": "no disk may be mounted here"}
        attack = (_write_file, _store_result, _run_command)[rng.integers(3)]
        return {"attack": attack.__name__} | attack(rng, disk)


def _write_file(rng, disk):
    name = str(rng.choice(sorted(WRITERS)))
    writer = WRITERS[name]
    path = disk / f"file{writer.suffix}"
    writer.write(0, path)
    before = path.read_bytes()
    n_free = _fill(disk, rng)
    found = {"writer": name, "free": n_free}
    try:
        writer.write(1, path)
    except OSError as error:
        if path.read_bytes() != before:
            return found | {"failure": "the old file has changed"}
        found["refused"] = str(error)
    else:
        writer.read(path)
    return found | _leftovers(disk, path.name)


def _store_result(rng, disk):
    path = disk / "study.sqlite"
    store = Store(path)
    units = plan([2, 3], find_methods(["lda", "odm"]), ["wdbc", "iris"], 20)
    n_free = _fill(disk, rng, at_most=1 << 15)
    n_stored, found = 0, {"free": n_free}
    try:
        for unit in units:
            store.claim(unit)
            details = {"text": rng.bytes(4000).hex()}
            store.add(Result(unit, 0.5, {}, 0.1, 0.1, 1e-7, unit.seed, details, None, "machine"))
            n_stored += 1
    except StoreError as error:
        found["refused"] = str(error)
    store.close()
    (disk / "filling").unlink()
    store = Store(path)
    n_left = len(store.results())
    store.add(Result(units[-1], 0.5, {}, 0.1, 0.1, 1e-7, 1, {}, None, "machine"))
    store.close()
    if n_left != n_stored:
        return found | {"failure": f"{n_stored} results were stored and {n_left} are left"}
    return found


def _run_command(rng, disk):
    """Run a command in this process; its output must not be a traceback."""
    X = rng.normal(size=(60, 4))
    labels = np.where(X[:, 0] > 0, "yes", "no")
    with TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        cells = [[*map(str, row), label] for row, label in zip(X, labels, strict=True)]
        rows.write_text("\n".join(",".join(row) for row in [["a", "b", "c", "d", "kind"], *cells]))
        model = Path(folder, "model.skops")
        run_command("train", rows, model)
        out = disk / "out"
        commands = {
            "train": ("train", rows, out),
            "predict": ("predict", rows, model, out, "--scores"),
            "scale": ("scale", rows, out),
            "study": ("study", "run", "--quick", "--repeats", 1, "--datasets", "iris")
            + ("--methods", "odm_default", "--store", out),
        }
        name = str(rng.choice(sorted(commands)))
        n_free = _fill(disk, rng, at_most=8192)
        code, text = run_command(*commands[name])
    found = {"command": name, "free": n_free, "code": code}
    if code not in (0, 1) or "Traceback" in text:
        return found | {"failure": text[-1500:]}
    if code == 1:
        return found | {"refused": text[-200:]} | _leftovers(disk, "out")
    return found


@contextmanager
def _small_disk():
    """Yield a folder on a disk of one megabyte, or None where that is not permitted."""
    with TemporaryDirectory() as folder:
        for user in ([], ["sudo", "-n"]):
            try:
                done = subprocess.run([*user, *_MOUNT, folder], capture_output=True, check=False)
            except FileNotFoundError:
                continue
            if done.returncode == 0:
                try:
                    yield Path(folder)
                finally:
                    subprocess.run([*user, "umount", "--lazy", folder], check=True)
                return
        yield None


def _fill(disk, rng, at_most=_SIZE):
    """Leave little free; return how many bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    left = int(rng.choice([0, 4096, rng.integers(min(at_most, free))]))
    (disk / "filling").write_bytes(bytes(max(free - left, 0)))
    return left


def _leftovers(disk, *known):
    left = {path.name for path in disk.iterdir()} - {"filling", *known}
    return {"failure": f"left behind: {sorted(left)}"} if left else {}
