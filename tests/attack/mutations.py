"""Every kind of file, mutated at random, and read by everything that reads it.

    python -m attack.mutations FOLDER FIRST LAST

tries the cases FIRST to LAST - 1 in FOLDER, and prints a line `WRONG …` for each thing that must not be: data
that is not what was saved, an exception that is not ours. Even cases change the frozen samples of format 1,
odd ones samples that this code makes first. A case is the same each time, wherever it runs, but for the times
and the random names in what this code makes. A hang or too much memory ends the process.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attack import samples
from attack.limits import begin, limit_memory
from attack.readers import IDS, MEDIA, READERS, ask_resealed, media_of
from attack.samples import V1
from nbckpt.core.algorithms import PREFERRED
from nbckpt.core.manifest_json import canonical
from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError
from nbckpt.tracker import Tracker
from nbckpt.trials.catalog import Catalog

_DEEP = "<deep>"  # becomes 3,000 lists in each other
EVIL = [
    *(0, -1, 1, 2**31, 2**62, 2**63, 2**200, 10**400, 1e308, -0.5, float("nan"), float("inf")),
    *("", "x", "../../../etc/passwd", "/etc/passwd", "\x1b[2J\x07", "\ud800", "a\0b", "9" * 5000, "é" * 300),
    *(None, True, False, [], {}, [[]], {"": {}}, [1] * 5000, {"x": 1}, "2026-13-45T99:99:99.000000Z"),
]

AREAS = {
    "store": 6,
    "two.ckpt": 4,
    "folder": 2,
    "machine/experiments": 5,
    "states": 2,
    "target": 3,
    "sync.json": 1,
    "durable": 1,
    "points": 4,
    "documented": 4,
    "listed": 3,
}
"""What is mutated, and how often it comes. The last three are not among the frozen samples."""

SWAPPED = ("store", "machine/experiments")
"""Where a file has one place only, so that another one's contents are damage."""


# Mutations of bytes.


def flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def remove(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randrange(1, 40) :]


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:]


def repeat(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[: at + rng.randrange(1, 99)] + data[at:]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    at, new = rng.randrange(len(data)), rng.choice([bytes(8), b"\xff" * 8, rng.randbytes(8)])
    return data[:at] + new + data[at + len(new) :]


def replace(data: bytes, rng: random.Random) -> bytes:
    del data
    return rng.choice(
        [b"", b"{}", b"[]", b"null", b"0", b'"x"', b"[" * 100_000, b'{"format":1}', rng.randbytes(99)]
    )


def edit(data: bytes, rng: random.Random) -> bytes:
    """Change one thing in a JSON document, or in one line of a journal."""
    lines = data.split(b"\n") if data.count(b"}\n{") else [data]
    at = rng.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except ValueError:
        return flip(data, rng)
    lines[at] = written(edited(document, rng))
    return b"\n".join(lines)


def edited(document: Any, rng: random.Random) -> Any:
    """Return a document with one node replaced, removed or taken from elsewhere in it."""
    holders = [document] if isinstance(document, (dict, list)) and document else []
    for holder in holders:
        inner = holder.values() if isinstance(holder, dict) else holder
        holders += [holder for holder in inner if isinstance(holder, (dict, list)) and holder]
    if not holders:
        return copy.deepcopy(rng.choice(EVIL))
    holder = rng.choice(holders)
    key = rng.choice(sorted(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1:
            holder[key] = _DEEP
        case 2:
            other = rng.choice(holders)
            holder[key] = json.loads(
                json.dumps(rng.choice(list(other.values() if isinstance(other, dict) else other)))
            )
        case 3 if isinstance(holder, list):
            holder *= rng.choice([2, 100])
        case _:
            holder[key] = copy.deepcopy(rng.choice(EVIL))
    return document


def written(document: Any) -> bytes:
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return text.encode().replace(json.dumps(_DEEP).encode(), b"[" * 3000 + b"]" * 3000)


BYTES = [flip, flip, cut, remove, insert, repeat, overwrite, replace, edit, edit, edit, edit]


# A case: one file mutated, asked about, and put back.


class Attack:
    """Mutates copies of the samples of *source* in a folder.

    Args:
        folder: For the copies; made here.
        source: What `samples.make` made, or the frozen samples.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        self.source = source
        folder.mkdir(parents=True)
        (folder / "outside").write_text('{"format":1,"secret":"outside"}')
        self.areas = {area: often for area, often in AREAS.items() if (source / area).exists()}
        for area in self.areas:
            self._copy(area)
        self.files = {
            area: sorted(path for path in [folder / area, *(folder / area).rglob("*")] if path.is_file())
            for area in self.areas
        }
        # Of the copy, because reading writes summaries.
        self.trials = dict(trials_of(folder / "machine" / "experiments"))
        self._copy("machine/experiments")

    def _copy(self, area: str) -> None:
        name = area.split("/")[0]
        place = self.folder / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        source = self.source / name
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)

    def untouched(self) -> Iterator[str]:
        """Ask about the samples as they are, and yield what is wrong."""
        os.environ["NBCKPT_CHECKPOINT_PATH"] = str(self.folder / "states")
        for area in self.areas:
            begin(f"{self.folder.name} {area}")
            yield from (
                f"WRONG {self.folder.name} {area}: {message}" for message in READERS[area](self.folder)
            )
            self._copy(area)

    def case(self, number: int) -> Iterator[str]:
        """Try one case, and yield what is wrong."""
        os.environ["NBCKPT_CHECKPOINT_PATH"] = str(self.folder / "states")
        rng = random.Random(number)
        area = rng.choice([area for area, often in self.areas.items() for _ in range(often)])
        file = rng.choice(self.files[area])
        reseal = "checkpoints" in file.parts and area == "store" and rng.random() < 0.6
        others = ["swap", "link", "folder", "gone"] if area in SWAPPED else ["link", "folder", "gone"]
        how = "reseal" if reseal else rng.choice(["bytes"] * 12 + others)
        name = f"{file.relative_to(self.folder)} {how}"
        ask_about = ask_resealed if reseal else READERS[area]
        try:
            name += f" {self._mutate(file, how, rng)}"
            begin(f"{number} {self.folder.name} {name}")
            wrong = list(self._others_than(file)) if area == "machine/experiments" else []
            wrong += ask_about(self.folder)
            if how == "bytes" and self.source != V1:
                wrong += self._wrong_trials(area)
            yield from (f"WRONG {number} {self.folder.name} {name}: {message}" for message in wrong)
        finally:
            self._copy(area)

    def _others_than(self, file: Path) -> Iterator[str]:
        """Yield what is wrong with trials whose files were not mutated."""
        top = self.folder / "machine" / "experiments"
        damaged = file.relative_to(top).parts
        trials = dict(trials_of(top))
        for key, right in self.trials.items():
            is_damaged = key[0] == damaged[0] and (len(damaged) == 2 or key[1] == damaged[1])
            if not is_damaged and trials.get(key) != right:
                yield f"{key} is {trials.get(key)}"

    def _wrong_trials(self, area: str) -> Iterator[str]:
        """Yield trials that seem to be well, but are not as they were; of a journal the end may be torn."""
        top = {"machine/experiments": "machine/experiments", "target": "own/experiments"}.get(area)
        for key, (damage, config, results) in trials_of(self.folder / top) if top else ():
            right = self.trials.get(key, ("", config, results))
            # A whole file of format 1 in the place of another one is taken as one: it has no checksum.
            config = right[1] if is_format_1(self.folder.joinpath(top or "", *key, "params.json")) else config
            if not damage and (config != right[1] or results != right[2][: len(results)]):
                yield f"{key}: wrong data: {config} {results}"

    def _mutate(self, file: Path, how: str, rng: random.Random) -> str:
        data = file.read_bytes()
        if how == "bytes":
            mutate = rng.choice(BYTES) if data else replace
            file.write_bytes(mutate(data, rng))
            return mutate.__name__
        if how == "reseal":
            file.unlink()
            return self._reseal(data, file.parent, rng)
        if how == "swap":
            files = [other for area in SWAPPED for other in self.files[area] if other.suffix == file.suffix]
            other = rng.choice(files)
            file.write_bytes(other.read_bytes())
            return str(other.relative_to(self.folder))
        file.unlink()
        if how == "folder":
            file.mkdir()
        if how == "link":
            file.symlink_to(rng.choice([self.folder / "outside", file, file.parent, Path("nowhere")]))
        return ""

    def _reseal(self, data: bytes, folder: Path, rng: random.Random) -> str:
        """Write an edited manifest anew, with the id, the key and the signature that belong to it."""
        body = json.loads(data)["checkpoint"]
        for _ in range(rng.choice([1, 1, 2])):
            body = edited(body, rng)
        raw = written(body)
        name = PREFERRED.digest(raw).hex()
        signature = open_signer().sign(name)
        tail = canonical({"id": name, "signature": {"hmac": signature.hmac, "key": signature.key}})
        moment = str(body.get("created_at")) if isinstance(body, dict) else ""
        moment = "".join(c for c in moment if c in "0123456789TZ")[:40]
        folder.joinpath(f"{moment}-{name}.json").write_bytes(b'{"checkpoint":' + raw + b"," + tail[1:])
        return base64.b32encode(rng.randbytes(2)).decode()


def is_format_1(params: Path) -> bool:
    """Tell whether `params.json` holds a whole configuration as format 1 wrote it."""
    try:
        document = json.loads(params.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and len({"format", "config", "checksum"} & document.keys()) < 2


def trials_of(experiments: Path) -> Iterator[tuple[tuple[str, str], tuple[str, Any, Any]]]:
    """Yield what is read of each trial: what is wrong with it, its configuration and its results."""
    library = Catalog(experiments)
    for name in library.names():
        with suppress(NbckptError):
            for trial in library.open(name).trials:
                yield (name, trial.id), (trial.damage, trial.config, trial.results)


def main(folder: Path, first: int, last: int) -> None:
    made = folder / "made"
    samples.make(made)
    IDS.update(entry.id for entry in Tracker(made / "store").entries())
    MEDIA.update(media_of(made / "documented" / "experiments"))
    attacks = Attack(folder / "frozen", V1), Attack(folder / "new", made)

    def case(number: int) -> list[str]:
        return list(attacks[number % 2].case(number))

    threading.stack_size(1 << 20)  # the limit counts all of a stack
    for number in range(-4, 0):  # what is imported and made once is there before memory is limited
        case(number)
    for line in (line for attack in attacks for line in attack.untouched()):
        print(line)
    limit_memory()
    for number in range(first, last):
        for line in case(number):
            print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
