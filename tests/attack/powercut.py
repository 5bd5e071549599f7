"""Power cut: what of a program's files would be lost if the power went when its last call returned.

`install` notes every file and folder that is written, named, made and synced from there on, and `lost` says
what was not synced: the data of files, the names in folders, and the removals of names that were there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_CACHE = ".nbckpt-cache"
# A cache that is lost or torn is made again, and so is the folder of claims. Locks end with their process.
_NOT_PROMISED = (".lock", ".open", "/pending", "log.txt", f"{_CACHE}.json")
# What comes back there shows nothing, or is an old point, or a damaged pack beside the whole one. The next
# writer or `gc` removes it.
_HARMLESS = re.compile(
    r"\.nbckpt-tmp|/\.deleted~|"
    r"/(?:pending|refs|trash|condemned|orphans|removals|packs|damaged|points|requests)/"
)
_PACK = re.compile(r"/packs/.*\.pack$")
_MANIFEST = re.compile(r"/(?:checkpoints|cells|points)/[^/]+$")


class Disk:
    """What a disk would have after a power cut, below one folder.

    Attributes:
        lost: What a power cut would have lost at some moment.
        changes: The number of changes so far, without those of locks.
    """

    def __init__(self, top: str) -> None:
        self.top = os.path.realpath(top)
        self.lost: list[str] = []
        self.changes = 0
        self._dirty: set[str] = set()
        self._names: set[str] = set()
        self._gone: set[str] = set()
        self._renamed: set[str] = set()
        self.lock = threading.RLock()

    def opened(self, path: str) -> None:
        """Note that a file is going to be written."""
        self._dirty.add(path)
        self.made(path)

    def made(self, path: str) -> None:
        """Note that a file or a folder is going to be made, if it is not there."""
        if not os.path.lexists(path):
            self._names.add(path)
            self._gone.discard(path)

    def synced(self, path: str) -> None:
        """Note that a file's data, or the names in a folder, are on the disk."""
        self._dirty.discard(path)
        self._names, self._gone, self._renamed = (
            {name for name in names if str(Path(name).parent) != path}
            for names in (self._names, self._gone, self._renamed)
        )

    def renamed(self, source: str, target: str) -> None:
        """Note that something has another name; all of it must be on the disk by then."""
        if Path(target).name.startswith(_CACHE):
            self._dirty.discard(source)
            self._names.discard(source)
            return
        below = f"{source}/"
        for path in sorted(self._dirty | (self._names - {source})):
            if path == source or path.startswith(below):
                self.lost.append(f"{self._told(target)} was named before {self._told(path)} was synced")
        if source not in self._names:
            self._gone.add(source)
            self._renamed.add(target)
        self._dirty = {self._moved(path, source, target) for path in self._dirty}
        self._names = {self._moved(path, source, target) for path in self._names - {source}} | {target}

    def removed(self, path: str) -> None:
        """Note that a name is going to be removed, with all below it, if it is there."""
        if not os.path.lexists(path):
            return
        if path in self._renamed or any(str(parent) in self._renamed for parent in Path(path).parents):
            self.lost.append(f"{self._told(path)} was removed before its new name was synced")
        if _PACK.search(path):
            self._check_manifests(path)
        self._gone = {name for name in self._gone if not name.startswith(f"{path}/")}
        if path not in self._names:
            self._gone.add(path)
        self._dirty = {name for name in self._dirty if name != path and not name.startswith(f"{path}/")}
        self._names = {name for name in self._names if name != path and not name.startswith(f"{path}/")}

    def _check_manifests(self, pack: str) -> None:
        """Check that no checkpoint can come back whose pack is going to be removed."""
        for path in sorted(filter(_MANIFEST.search, self._gone)):
            removal = f"the removal of {self._told(path)}"
            self.lost.append(f"{self._told(pack)} was removed before {removal} was synced")

    def look(self) -> list[str]:
        """Note what is lost if the power goes now. Return what was noted so far."""
        with self.lock:
            self._look()
        self.lost = list(dict.fromkeys(self.lost))
        return self.lost

    def _look(self) -> None:
        for folder, folders, names in os.walk(self.top):
            for path in (f"{folder}/{name}" for name in (*folders, *names)):
                if path.endswith(_NOT_PROMISED) or ".nbckpt-tmp" in path:
                    continue
                if path in self._dirty:
                    self.lost.append(f"the data of {self._told(path)} was not synced")
                if path in self._names:
                    self.lost.append(f"the name {self._told(path)} was not synced")
        for path in sorted(self._gone):
            is_cache = Path(path).name.startswith(_CACHE)
            if not (is_cache or path.endswith(_NOT_PROMISED) or _HARMLESS.search(path)):
                self.lost.append(f"the removal of {self._told(path)} was not synced")

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Take in an event of `sys.addaudithook`."""
        with self.lock:
            if name == "open" and isinstance(arguments[0], (str, bytes)):
                path, _, flags = arguments
                is_nameless = flags & os.O_TMPFILE == os.O_TMPFILE
                if flags & (os.O_WRONLY | os.O_RDWR) and not is_nameless and (place := self._inside(path)):
                    self._count(place)
                    self.opened(place)
            elif name in {"os.mkdir", "os.remove", "os.rmdir"}:
                if place := self._inside(arguments[0], arguments[-1]):
                    self._count(place)
                    (self.made if name == "os.mkdir" else self.removed)(place)
            elif name in {"os.rename", "os.link"}:
                source, target = (
                    self._inside(*ends) for ends in zip(arguments[:2], arguments[2:], strict=True)
                )
                if target and source:
                    self._count(target)
                    (self.renamed if name == "os.rename" else self._linked)(source, target)

    def _count(self, path: str) -> None:
        self.changes += not path.endswith(".lock")

    def _linked(self, source: str, target: str) -> None:
        if source in self._dirty:
            self.lost.append(f"{self._told(target)} was linked before its data was synced")
        self._names.add(target)

    def _inside(self, path: Any, folder: int = -1) -> str:
        """Return a path, as seen from an open folder or here, as it is kept; "" for one that is elsewhere."""
        named = Path("." if folder == -1 else f"/proc/self/fd/{folder}", os.fsdecode(path)).absolute()
        place = str(named.parent.resolve() / named.name)
        return place if place.startswith(f"{self.top}/") else ""

    def _moved(self, path: str, source: str, target: str) -> str:
        return target + path[len(source) :] if path == source or path.startswith(f"{source}/") else path

    def _told(self, path: str) -> str:
        return os.path.relpath(path, self.top)


def install(top: str) -> Disk:
    """Return what notes each change below a folder, in this process."""
    disk, fsync = Disk(top), os.fsync

    def synced(fd: int) -> None:
        fsync(fd)
        with disk.lock:
            disk.synced(str(Path(f"/proc/self/fd/{fd}").readlink()))

    os.fsync = synced
    sys.addaudithook(disk.event)
    return disk


def lost(code: str, top: Path) -> list[str]:
    """Run a program in a process of its own, and return what a power cut at its end would lose.

    Args:
        code: The program; `top` is the folder there.
        top: The folder below which it writes.
    """
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "import json\n"
        "from attack import powercut\n"
        "from pathlib import Path\n"
        f"top = Path({str(top)!r})\n"
        "disk = powercut.install(str(top))\n"
        f"exec({code!r}, globals())\n"
        "print('LOST', json.dumps(disk.look()))\n"
    )
    env = os.environ | {"NBCKPT_SECRET_FILE": str(top / "home" / "of" / "me" / "secret"), "NBCKPT_CACHE": "0"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=top, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lost = next(line for line in done.stdout.splitlines() if line.startswith("LOST "))
    return list(json.loads(lost.removeprefix("LOST ")))
