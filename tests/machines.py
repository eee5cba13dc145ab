"""The tests that compare numbers, as other machines would run them.

    python -m tests.machines                      # all of MACHINES that need nothing by name
    python -m tests.machines Haswell threads-4    # these
    python -m tests.machines oldest --whole       # all tests, not only those that compare numbers

OpenBLAS has code for several kinds of processors, and rounds differently in each and with every
number of threads. So does NumPy, and so do our own loops. What a machine has here is asked of the
libraries, not taken for granted; one that this processor cannot be, or that equals another that
ran, is skipped and the reason is printed. What has passed is not run again until a file or a
package changes (``--again`` runs it nevertheless): a run that was stopped goes on where it ended.

Those that need another build or other versions get an environment in ``build/machines``.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "machines"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Variables that choose code or threads; each machine sets its own.
CHOICES = ("OPENBLAS_", "OMP_", "MKL_", "NPY_", "PYTHON")
# OpenBLAS's kinds of processors, and what Linux calls the instructions they need.
CORES = {
    "Prescott": {"pni"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


class Skip(Exception):
    """This machine cannot be had here, for the reason given."""


@dataclass(frozen=True)
class Machine:
    """A machine to be: threads, kernels of OpenBLAS, code of NumPy, our build, versions."""

    threads: int = 1
    core: str = ""  # what OpenBLAS finds where empty
    plain_numpy: bool = False  # without the instructions that NumPy looks for when it starts
    setup: str = ""  # an option of our build
    versions: str = ""  # "oldest", "prereleases", or those of .venv
    by_name: bool = False  # runs only when named

    def environment(self):
        """Return the variables of a process on this machine."""
        chosen = {k: v for k, v in os.environ.items() if not k.startswith(CHOICES)}
        threads = str(self.threads)
        chosen |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        if self.core:
            chosen["OPENBLAS_CORETYPE"] = self.core
        if self.plain_numpy:
            chosen["NPY_DISABLE_CPU_FEATURES"] = " ".join(simd_found())
        return chosen


MACHINES = {
    **{core: Machine(core=core) for core in CORES},
    **{f"threads-{n}": Machine(threads=n) for n in (1, 2, 4)},
    "plain-numpy": Machine(plain_numpy=True),
    "no-openmp": Machine(setup="-Dopenmp=disabled"),
    "no-clones": Machine(setup="-Dvector_clones=false"),
    "oldest": Machine(versions="oldest"),
    "prereleases": Machine(versions="prereleases", by_name=True),
}


def main():
    """Run machines, print what happened and return whether all went well."""
    parser = argparse.ArgumentParser(description="Tests as other machines would run them.")
    parser.add_argument("machines", nargs="*", help=f"of {', '.join(MACHINES)}")
    parser.add_argument("--whole", action="store_true", help="all tests, not only of numbers")
    parser.add_argument("--again", action="store_true", help="also what has passed before")
    arguments = parser.parse_args()
    unknown = set(arguments.machines) - set(MACHINES)
    if unknown:
        parser.error(f"unknown machines: {', '.join(sorted(unknown))}")
    names = arguments.machines or [name for name, m in MACHINES.items() if not m.by_name]
    store = Store(arguments.whole)
    lines = {}
    for name in names:
        print(f"\n== {name}", flush=True)
        try:
            done = None if arguments.again else store.passed(name)
            lines[name] = done or run(name, arguments.whole, store)
        except Skip as reason:
            lines[name] = f"skipped: {reason}"
        except subprocess.CalledProcessError as error:
            lines[name] = f"failed: {' '.join(map(str, error.cmd))}"
        print(lines[name], flush=True)
    width = max(map(len, lines))
    print("\n" + "\n".join(f"{name:{width}}  {line}" for name, line in lines.items()))
    return not any(line.startswith("failed") for line in lines.values())


def run(name, whole, store):
    """Run the tests on a machine and return a line on what happened."""
    machine = MACHINES[name]
    if lacking := CORES.get(machine.core, set()) - flags():
        raise Skip(f"the processor lacks {', '.join(sorted(lacking))}")
    python = prepare(name, machine)
    environment = machine.environment()
    environment["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    took = taken(python, environment)
    words = described(took)
    print(words, flush=True)
    if same := store.same(took, name):
        raise Skip(f"it is what {same} is: {words}")
    # Two processes of one thread for two cores; several threads have the cores for themselves.
    n_processes = 0 if machine.threads > 1 else os.cpu_count()
    command = [python, "-m", "pytest", "-n", str(n_processes), "-q", "-p", "no:cacheprovider"]
    if not whole:
        command += ["-m", "numbers and not slow"]
    if machine.versions:
        command += ["--disable-warnings"]  # packages of different age warn about each other
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        return f"failed in {seconds:.0f} s: {words}"
    line = f"passed in {seconds:.0f} s: {words}"
    store.add(name, line, took)
    return line


def flags():
    """Return what Linux says the processor can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def simd_found():
    """Return the instructions that NumPy uses on this processor beyond those it always needs."""
    return np.show_config(mode="dicts")["SIMD Extensions"]["found"]


def prepare(name, machine):
    """Return the Python of a machine, with the package and what its tests need installed."""
    if not (machine.setup or machine.versions):
        return Path(sys.executable)
    folder = FOLDER / name
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run(
            [base_python(machine), "-m", "venv", "--without-pip", folder / "venv"], check=True
        )
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}

    def install(*arguments):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        command = [*pip, "install", "--quiet", *arguments]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    build = ["--no-build-isolation", f"-Cbuild-dir={folder / 'build'}"]
    if machine.setup:
        # All but our package comes from the environment that this runs in.
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
        Path(packages, "neighbours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install("--no-deps", "--force-reinstall", *build, f"-Csetup-args={machine.setup}", ".")
        return python
    if machine.versions == "prereleases":
        install("--pre", "--upgrade", "numpy", "scipy", "scikit-learn")
        limits = []
    else:
        (folder / "oldest.txt").write_text("".join(f"{line}\n" for line in oldest()))
        limits = ["--constraint", folder / "oldest.txt"]
    tools = [Requirement(line).name for line in SETTINGS["build-system"]["requires"]]
    install(*limits, *tools, "ninja")
    install(*limits, "--force-reinstall", "--no-deps", *build, ".")
    install(*limits, *build, ".[test]")
    return python


def base_python(machine):
    """Return the Python to make an environment of: the oldest version for the oldest packages."""
    if machine.versions != "oldest":
        return sys.executable
    name = "python" + SETTINGS["project"]["requires-python"].removeprefix(">=")
    if (python := shutil.which(name)) is None:
        raise Skip(f"{name} is not here")
    return python


def oldest():
    """Return the oldest versions that pyproject.toml allows, for building, running and testing."""
    extras = SETTINGS["project"]["optional-dependencies"]
    open_lines = [*SETTINGS["build-system"]["requires"], *SETTINGS["project"]["dependencies"]]
    open_lines += extras["test"]
    found = {}
    while open_lines:
        wanted = Requirement(open_lines.pop())
        if wanted.name == "optimargin":
            open_lines += [line for extra in wanted.extras for line in extras[extra]]
            continue
        (version,) = (Version(s.version) for s in wanted.specifier if s.operator == ">=")
        found[wanted.name] = max(version, found.get(wanted.name, version))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


PROBE = """
import json, os, pathlib, sys
import numpy as np, scipy, scipy.linalg, sklearn
from threadpoolctl import ThreadpoolController
from optimargin._core import _losses, _threads

blas = ThreadpoolController().select(user_api="blas")
with blas.limit(limits=int(os.environ["OPENBLAS_NUM_THREADS"])):
    pools = sorted(blas.info(), key=lambda pool: pool["filepath"])
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):  # a processor without an instruction ends the process here
    A = rng.normal(size=(300, 300)).astype(dtype)
    scipy.linalg.eigh(A @ A.T), np.linalg.svd(A), scipy.linalg.solve(A, A[:, :3])
print(json.dumps({
    "BLAS x threads": [
        f"{p['internal_api']} {p['version']} {p.get('architecture')} x {p['num_threads']}"
        for p in pools
    ],
    "threads of our loops": _threads.max_threads(),
    "OpenMP": b"omp_get_max_threads" in pathlib.Path(_threads.__file__).read_bytes(),
    "clones": b"arch_haswell" in pathlib.Path(_losses.__file__).read_bytes(),
    "NumPy's instructions": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
    "Python": sys.version.split()[0],
    **{module.__name__: module.__version__ for module in (np, scipy, sklearn)},
}))
"""


def taken(python, environment):
    """Return what the libraries took in a process on a machine."""
    done = subprocess.run(
        [python, "-c", PROBE], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=False
    )
    if done.returncode < 0:
        raise Skip(f"it ends by signal {-done.returncode}: the processor lacks an instruction")
    done.check_returncode()
    return json.loads(done.stdout)


def described(took):
    """Return what was taken in one line."""
    words = {k: ", ".join(v) or "none" if isinstance(v, list) else v for k, v in took.items()}
    return "; ".join(f"{key} {value}" for key, value in words.items())


class Store:
    """What passed on the files as they are now, in a file that outlives the run."""

    def __init__(self, whole):
        self._path = FOLDER / ("whole.json" if whole else "numbers.json")
        self._state = state()
        stored = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._passed = stored["passed"] if stored.get("state") == self._state else {}

    def passed(self, name):
        """Return the line on a machine that has passed, or None."""
        return f"{self._passed[name]['line']} (before)" if name in self._passed else None

    def same(self, took, name):
        """Return a machine that has passed and takes the same, or None."""
        return next((k for k, v in self._passed.items() if v["took"] == took and k != name), None)

    def add(self, name, line, took):
        """Store a machine that passed."""
        self._passed[name] = {"line": line, "took": took}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"state": self._state, "passed": self._passed}, indent=1))


def state():
    """Return a word that changes with the files that tests read and the packages they use."""
    folders = ("src", "tests", "docs", "benchmarks", "examples")
    paths = [*ROOT.iterdir(), *(path for name in folders for path in (ROOT / name).rglob("*"))]
    digest = hashlib.sha256()
    for path in sorted(paths):
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("."):
            digest.update(path.as_posix().encode() + path.read_bytes())
    for package in sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions()):
        digest.update(package.encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(not main())
