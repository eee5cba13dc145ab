"""The command on damaged files: an exit code and words, never a traceback."""

import contextlib
import io
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from optimargin.cli import main
from tests.fuzz.files import damaged_model
from tests.io.mutations import SVMLIGHT, TABLE, mutate


def command(rng):
    """Run a command in this process, on a damaged data file or with a damaged model."""
    start = time.process_time()
    kind = int(rng.integers(2))
    text = (SVMLIGHT, TABLE)[kind]
    with TemporaryDirectory() as folder:
        data, model, out = (Path(folder, name) for name in ("data", "model", "out"))
        if rng.random() < 0.7:
            data.write_bytes(mutate(text, rng))
            model.write_bytes(_models()[kind])
        else:
            data.write_bytes(text)
            model.write_bytes(damaged_model(_models()[kind], rng))
        commands = [
            ("train", data, out, "--linear"),
            ("train", data, out, "--impute", "median", "--task", "regression"),
            ("predict", data, model, out, "--scores"),
            ("scale", data, out),
            ("inspect", model, "--data", data),
        ]
        arguments = commands[rng.integers(len(commands))]
        old = data.read_bytes(), model.read_bytes()
        code, printed = run_command(*arguments)
        found = {"command": arguments[0], "code": code}
        if code not in (0, 1, 2) or "Traceback" in printed:
            return found | {"failure": printed[-1500:]}
        if (data.read_bytes(), model.read_bytes()) != old:
            return found | {"failure": "an input has changed"}
        left = {path.name for path in Path(folder).iterdir()} - {"data", "model"}
        if left - {"out"} or (code != 0 and left):
            return found | {"failure": f"left behind: {sorted(left)}"}
    found["seconds"] = round(time.process_time() - start, 3)
    return found if code == 0 else found | {"refused": printed[-200:]}


def run_command(*arguments):
    """Return the exit code of a command, and all that it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return ended.code or 0, printed.getvalue()
    raise AssertionError("the command did not end")


@cache
def _models():
    """Return a model file for each text."""
    made = []
    with TemporaryDirectory() as folder:
        for text in (SVMLIGHT, TABLE):
            data, model = Path(folder, "data"), Path(folder, "model")
            data.write_bytes(text)
            code, printed = run_command("train", data, model)
            assert code == 0, printed
            made.append(model.read_bytes())
    return made
