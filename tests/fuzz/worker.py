"""A process that runs cases."""

import multiprocessing
import os
import time
import traceback
from importlib import import_module
from pathlib import Path

import numpy as np

KINDS = {
    "kernel": "tests.fuzz.fits:kernel_fit",
    "linear": "tests.fuzz.fits:linear_fit",
    "other": "tests.fuzz.fits:other_fit",
    "containers": "tests.fuzz.containers:containers",
    "data_files": "tests.fuzz.files:data_file",
    "model_files": "tests.fuzz.files:model_file",
    "archives": "tests.fuzz.archives:archive",
    "labels": "tests.fuzz.labels:labels",
    "chunks": "tests.fuzz.chunks:chunks",
    "commands": "tests.fuzz.commands:command",
    "interrupts": "tests.fuzz.interrupts:interrupt",
    "kill_writer": "tests.fuzz.kills:kill_writer",
    "kill_store": "tests.fuzz.kills:kill_store",
    "kill_study": "tests.fuzz.kills:kill_study",
    "kill_worker": "tests.fuzz.kills:kill_worker",
    "full_disk": "tests.fuzz.disks:full_disk",
}
_SECONDS = 300  # of the processor that a case may take: others may keep it busy meanwhile
_PATIENCE = 1800  # seconds of any kind, for a case that waits for ever


class Worker:
    """A process that runs cases; replaced when it dies or hangs."""

    def __init__(self):
        self._process = None

    def run(self, kind, number):
        """Return what happened in a case."""
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self._pipe, other = spawn.Pipe()
            self._process = spawn.Process(target=_serve, args=(other,))
            self._process.start()
            other.close()  # or the end of the process would go unnoticed
        self._pipe.send((kind, number))
        end = _processor_seconds(self._process.pid) + _SECONDS
        deadline = time.monotonic() + _PATIENCE
        try:
            while _processor_seconds(self._process.pid) < end and time.monotonic() < deadline:
                if self._pipe.poll(1.0):
                    return self._pipe.recv()
            failure = f"hangs: more than {_SECONDS} s of the processor, or {_PATIENCE} s"
        except (EOFError, OSError):
            failure = "crash"
        self.stop()
        return {"case": number, "failure": failure}

    def stop(self):
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _processor_seconds(pid):
    """Return what a process has used of the processor; where that is unknown, the time."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        return time.monotonic()
    user, system = path.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _serve(pipe):
    while True:
        try:
            kind, number = pipe.recv()
        except EOFError:  # the harness has ended
            return
        module, function = KINDS[kind].split(":")
        # The kind is part of the seed: cases of two kinds are not alike.
        rng = np.random.default_rng([number, *kind.encode()])
        try:
            found = getattr(import_module(module), function)(rng)
        except Exception:  # the case is at fault, not the harness
            found = {"failure": traceback.format_exc()[-1500:]}
        pipe.send({"case": number, **found})
