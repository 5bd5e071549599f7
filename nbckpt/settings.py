"""Settings: locations and options, read from the environment once and then passed around.

This is the only module that reads environment variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbckpt.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """The settings from the environment.

    Attributes:
        store: Folder or URL of the store (`NBCKPT_STORE`, default `.nbckpt` in the working folder).
        secret_file: File with the signing secret (`NBCKPT_SECRET_FILE`, default in the user's data folder).
        templates: Folder with the user's own HTML templates (`NBCKPT_TEMPLATES`), tried first.
        mapping: Whether arrays may be restored by mapping files (`NBCKPT_MMAP=0` turns it off, for network
            file systems where a file can vanish while it is read).
        notebook: Path of the running notebook, if the front end provides it (`JPY_SESSION_NAME`).
        cache: Folder for cached reads of remote stores (`NBCKPT_CACHE`, default the user's cache folder;
            `NBCKPT_CACHE=0` turns the cache off).
    """

    store: str
    secret_file: Path
    templates: Path | None = None
    mapping: bool = True
    notebook: str | None = None
    cache: Path | None = None

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from *environ*, by default the environment of the process."""
        env = os.environ if environ is None else environ
        templates = env.get("NBCKPT_TEMPLATES")
        return cls(
            store=env.get("NBCKPT_STORE") or ".nbckpt",
            secret_file=Path(env.get("NBCKPT_SECRET_FILE") or _data_folder() / "secret"),
            templates=Path(templates) if templates else None,
            mapping=env.get("NBCKPT_MMAP", "1") != "0",
            notebook=env.get("JPY_SESSION_NAME") or None,
            cache=None if (cache := env.get("NBCKPT_CACHE")) == "0" else Path(cache or _cache_folder()),
        )


def wants_provenance() -> bool:
    """Return whether trials and saves keep what is needed to do them again (`NBCKPT_PROVENANCE=0`: not)."""
    return os.environ.get("NBCKPT_PROVENANCE", "1") != "0"


def wants_page_record() -> bool:
    """Return whether Linux's record of written pages is used (`NBCKPT_PAGE_RECORD=0`: not)."""
    return os.environ.get("NBCKPT_PAGE_RECORD", "1") != "0"


def panel_kind() -> str:
    """Return which panel is asked for (`NBCKPT_PANEL`): `core` for that of core widgets, else the best."""
    return os.environ.get("NBCKPT_PANEL", "")


def visible_gpus() -> str | None:
    """Return the GPUs that trials may use, as CUDA lists them; None for all of the machine.

    `NBCKPT_GPUS` is for trials alone and comes first; `CUDA_VISIBLE_DEVICES` is for every program.
    """
    given = os.environ.get("NBCKPT_GPUS")
    return os.environ.get("CUDA_VISIBLE_DEVICES") if given is None else given


def lock_folder() -> Path:
    """Return the folder of the locks that all processes of this user share (`NBCKPT_RUNTIME`)."""
    import platformdirs

    # Not the system's runtime folder, see docs/decisions/0109
    given = os.environ.get("NBCKPT_RUNTIME")
    return Path(given) if given else platformdirs.user_state_path("nbckpt", appauthor=False)


def threads_set(name: str) -> int | None:
    """Return the number in a variable such as `OMP_NUM_THREADS`, or None if it is not set to one."""
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def environment(**more: str) -> dict[str, str]:
    """Return the environment variables for a program that is started, with these in addition."""
    return {**os.environ, **more}


def first_set(*names: str) -> tuple[str, str]:
    """Return the first of these environment variables that is set and not empty, and its value.

    If no variable is set: the last name and "".
    """
    values = ((name, os.environ.get(name, "")) for name in names)
    return next(((name, value) for name, value in values if value), (names[-1], ""))


def sync_thresholds() -> tuple[float, float]:
    """Return how long a trial runs before it is uploaded to remote storage: in iterations, and in seconds.

    Reaching one of the two is enough. The variables are `NBCKPT_SYNC_MIN_ITERATIONS` and
    `NBCKPT_SYNC_MIN_SECONDS`, or Ray's names for them.

    Raises:
        UsageError: A variable is set to something other than a number.
    """
    return (
        _number(2, "NBCKPT_SYNC_MIN_ITERATIONS", "TUNE_NODE_SYNCING_MIN_ITER_THRESHOLD"),
        _number(10, "NBCKPT_SYNC_MIN_SECONDS", "TUNE_NODE_SYNCING_MIN_TIME_S_THRESHOLD"),
    )


def _number(default: float, *names: str) -> float:
    name, value = first_set(*names)
    try:
        return float(value) if value else default
    except ValueError:
        raise UsageError(f"{name}={value!r} is not a number: set it to a number, or unset it") from None


def _cache_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("nbckpt", appauthor=False)


def _data_folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("nbckpt", appauthor=False)
