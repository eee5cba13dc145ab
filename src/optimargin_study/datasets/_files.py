"""Find the files of data sets: in a mirror, in the user's cache, or at their publishers."""

import hashlib
import json
import os
from pathlib import Path

MIRROR_VARIABLE = "OPTIMARGIN_DATA"
CACHE_VARIABLE = "OPTIMARGIN_CACHE"


class DatasetUnavailableError(OSError):
    """A data set is not available and could not be downloaded."""


class CorruptDatasetError(ValueError):
    """A file is not the expected one."""


def mirror_folder():
    """Return the mirror named by the environment variable OPTIMARGIN_DATA, or None."""
    folder = os.environ.get(MIRROR_VARIABLE)
    if not folder:
        return None
    if not (Path(folder) / "manifest.json").is_file():
        raise DatasetUnavailableError(
            f"{MIRROR_VARIABLE}={folder} holds no manifest.json: set it to the folder of a mirror, "
            "or unset it to use the cache and downloads."
        )
    return Path(folder)


def cache_folder():
    """Return the folder for downloads, which OPTIMARGIN_CACHE overrides."""
    folder = os.environ.get(CACHE_VARIABLE)
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "optimargin"


def mirror_file(name):
    """Return the checked file of a set in the mirror, or None if it has none.

    Raises
    ------
    CorruptDatasetError
        If the file does not have the checksum of the manifest.
    """
    folder = mirror_folder()
    if folder is None:
        return None
    try:
        entries = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sets"]
        entry = next(
            (e for e in entries if e["name"] == name and e.get("group", "paper") == "paper"), None
        )
        if entry is None:
            return None
        path, expected = folder / entry["file"], entry.get("sha256")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CorruptDatasetError(
            f"{folder / 'manifest.json'} cannot be read ({error}): fetch the mirror again."
        ) from error
    if not path.is_file():
        raise DatasetUnavailableError(
            f"{path} is missing, though the manifest of the mirror lists it: fetch it again."
        )
    if expected:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != expected:
            raise CorruptDatasetError(
                f"{path} is corrupt: its sha256 is {found}, the manifest says {expected}. Fetch "
                "the file again."
            )
    return path


def downloaded_files(dataset):
    """Return the originals of a set from the cache, downloading those that are missing.

    Parameters
    ----------
    dataset : PaperSet

    Returns
    -------
    paths : list of Path
    """
    if not dataset.urls:
        raise DatasetUnavailableError(unavailable(dataset, "it cannot be downloaded automatically"))
    import pooch  # imported here because loading from a mirror does not need it

    pooch.get_logger().setLevel("WARNING")  # it would print checksums for developers
    folder = cache_folder() / dataset.name
    paths = []
    for url in dataset.urls:
        try:
            path = pooch.retrieve(
                url,
                known_hash=None,
                fname=url.rsplit("/", 1)[1],
                path=folder,
                progressbar=_has_tqdm(),
            )
        except (OSError, ValueError) as error:
            raise DatasetUnavailableError(
                unavailable(dataset, f"the download failed ({_last_cause(error)})")
            ) from error
        paths.append(Path(path))
    return paths


def unavailable(dataset, reason):
    """Return a message that says what is missing and where to get it."""
    folder = mirror_folder()
    where = f"the mirror {folder}" if folder else f"a mirror ({MIRROR_VARIABLE} is not set)"
    lines = [
        f"Data set {dataset.name!r} ({dataset.instances} x {dataset.features}) is not available: "
        f"it is neither in {where} nor in the cache {cache_folder()}, and {reason}."
    ]
    if dataset.urls:
        target = cache_folder() / dataset.name
        lines.append(f"Put these files into {target}: " + ", ".join(dataset.urls))
    elif dataset.page:
        lines.append(f"Get it from {dataset.page} ({dataset.form}), and put it into a mirror.")
    lines.append(
        f"Or set {MIRROR_VARIABLE} to a folder with manifest.json and {dataset.file or 'the file'}."
    )
    return " ".join(lines)


def _has_tqdm():
    try:
        import tqdm  # noqa: F401
    except ImportError:
        return False
    return True


def _last_cause(error):
    text = str(getattr(error, "reason", None) or error)
    return text if len(text) < 200 else text[:200] + "..."
