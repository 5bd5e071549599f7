"""History: the checkpoints of a store, their names and versions, and their signatures.

    store.json                           the format and the digest of the store
    checkpoints/<moment>-<id>.json       manifests; their keys sort by time
    refs/<name>/<version>-<id>           a version of a name; the key contains everything
    signatures/<id>/<key>                signatures that `trust` added later
    trash/…                              removed checkpoints and names, until `gc`

Every key is put once and never changed, so writers never have to wait for each other.
"""

from __future__ import annotations

import difflib
import re
import secrets
import time
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import quote, unquote

from nbckpt.core.algorithms import BLAKE3, PREFERRED, Algorithms, named
from nbckpt.core.manifest import FORMAT, MOST, Manifest, Signature, canonical, decode, encode
from nbckpt.core.packs.format import pack_key
from nbckpt.core.packs.relocation import find_index
from nbckpt.core.schema import read
from nbckpt.core.trust import Signer
from nbckpt.core.uses import Uses, add_uses
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import Store

SHORT = 8
"""The number of characters of an id that people see."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
_ENTRY = re.compile(r"(checkpoints|trash)/([0-9TZ]+)-([0-9a-f]{64})\.json")
_REF = re.compile(r"(?:trash/)?refs/([^/]+)/([0-9]{8})-([0-9a-f]{64})")
_VERSION = len("00000001-") + 64
_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_ID = re.compile(r"[0-9a-f]{64}")
_PENDING = "pending/"
_CLAIM_S = 1800.0  # half as long as a collector respects a claim
_MOST_CLAIMED = 16 << 20
_NUMBER = re.compile(r"[0-9]{1,9}")
_MOST_VERSIONS = 10**8 - 1
_ABOUT = {"format": int, "digest?": str, "id?": str, "key?": str}
_MOST = 64 << 10  # the most bytes of store.json or a signature


class VanishedError(Exception):
    """Packs that a manifest was about to name are being collected. The save must start again."""

    def __init__(self, packs: Iterable[str]) -> None:
        super().__init__("packs were collected during a save")
        self.packs = set(packs)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A checkpoint in the listing: its time, its id and its key. Sorts by time, oldest first."""

    moment: str
    id: str
    key: str

    def __repr__(self) -> str:
        return f"Entry({self.id[:SHORT]}, {self.moment})"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One version of a name."""

    version: int
    id: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def __repr__(self) -> str:
        return f"Ref({str(self)!r}, {self.id[:SHORT]})"


class History:
    """The checkpoints of one store.

    Args:
        store: The store.
        signer: Returns the user's signer. Called when something is signed or verified.
    """

    def __init__(self, store: Store, signer: Callable[[], Signer]) -> None:
        self.store = store
        self._make_signer = signer
        self._algorithms: Algorithms | None = None

    @cached_property
    def signer(self) -> Signer:
        """The user's signer."""
        return self._make_signer()

    @property
    def algorithms(self) -> Algorithms:
        """The algorithms of the store, or those for a new store if it does not exist yet.

        Raises:
            FormatError: This is not a store that can be used here.
        """
        if self._algorithms is None:
            self.check_format()
        return self._algorithms or PREFERRED

    def check_format(self, *, create: bool = False, algorithms: Algorithms = PREFERRED) -> dict[str, Any]:
        """Return the contents of store.json. With *create*, make a missing store with *algorithms*.

        Raises:
            FormatError: It is not a store of nbckpt, a newer version made it, or its digest is not available
                here.
        """
        try:
            about: dict[str, Any] = read(self.store.get("store.json", 0, _MOST), _ABOUT, "store.json")
        except NotFoundError:
            if not create:
                return {}
            new = {"format": FORMAT, "id": secrets.token_hex(16), "digest": algorithms.name}
            about = new | {"key": self.signer.key}
            self.store.put("store.json", canonical(about))
        except CorruptError as error:
            raise FormatError(
                f"{self.store.url} is not an nbckpt store: its store.json is something else ({error})"
            ) from None
        if about["format"] > FORMAT:
            raise FormatError(
                f"the store {self.store.url} was written by a newer nbckpt (format {about['format']}): "
                "upgrade nbckpt to use it. Nothing was changed"
            )
        self._algorithms = named(about.get("digest", BLAKE3), f"the store {self.store.url}")
        return about

    def ensure(self, algorithms: Algorithms) -> None:
        """Make sure that the store exists and uses *algorithms*.

        Raises:
            FormatError: It uses other algorithms.
        """
        if self._algorithms is None:
            self.check_format(create=True, algorithms=algorithms)
        if self.algorithms is not algorithms:
            raise FormatError(
                f"the store {self.store.url} is hashed with {self.algorithms.name}, the checkpoint with "
                f"{algorithms.name}: one store has one digest. Keep the checkpoint in a store of its own"
            )

    # Checkpoints.

    def publish(self, manifest: Manifest, name: str = "") -> tuple[Manifest, Ref | None]:
        """Sign a checkpoint and make it visible, together with its name; see `adopt`."""
        self.ensure(manifest.algorithms)
        manifest, data = encode(manifest, self.signer.sign)
        return manifest, self._show(manifest, data, name, is_own=True)

    def adopt(self, manifest: Manifest, data: bytes, name: str = "") -> Ref | None:
        """Make a checkpoint and its name visible, both or neither. The manifest is stored as exactly *data*.

        After the return the checkpoint survives a crash of the machine.

        Raises:
            VanishedError: A pack that it names is deleted or about to be. Nothing was published.
            FormatError: The store has another digest. Nothing was published.
        """
        self.ensure(manifest.algorithms)
        return self._show(manifest, data, name, is_own=False)

    def _show(self, manifest: Manifest, data: bytes, name: str, *, is_own: bool) -> Ref | None:
        """Put a name or a note that claims the packs, check that the packs stay, then put the manifest.

        A name without a manifest is not visible. The manifest comes last and makes both visible at once. A
        process that dies before that leaves only the claim. See docs/decisions/0045.
        """
        packs, entry = sorted(manifest.packs()), _entry(manifest)
        ref = self.add_ref(name, entry, packs) if name else None
        claim = ref.key if ref else f"{_PENDING}{manifest.id}"
        began, is_put = time.time(), False
        try:
            if ref is None and packs:
                self.store.put(claim, _claim(entry, packs))
            self._guard(manifest)
            is_put = True
            self.store.put(entry.key, data)
            if time.time() - began > _CLAIM_S:  # a collector may have ignored a claim that old
                self._guard(manifest)
        except BaseException as error:
            is_broken = is_put and isinstance(error, VanishedError)
            with suppress(StoreError):  # report the first failure
                if is_own or is_broken:
                    self.store.delete(entry.key)
                self._unclaim(claim, entry, packs)
            raise
        with suppress(StoreError):  # the checkpoint is visible, and the leftovers are small
            if ref is None and packs:
                self.store.delete(claim)
            # Another import of this checkpoint has failed.
            elif ref and not (is_own or self.store.exists(claim)):
                self.store.put(claim, _claim(entry, packs))
        return ref

    def _unclaim(self, claim: str, entry: Entry, packs: list[str]) -> None:
        """Remove a claim unless its checkpoint exists: another import may have put both just now."""
        if not self.store.exists(entry.key):
            self.store.delete(claim)
            if not claim.startswith(_PENDING) and self.store.exists(entry.key):
                self.store.put(claim, _claim(entry, packs))

    def claims(self) -> list[tuple[str, str]]:
        """Return the keys of names and notes that may claim packs, each with the id of its checkpoint."""
        found = [(ref.key, ref.id) for ref in self.refs()]
        return found + [(f"{_PENDING}{target}", target) for target in self.pending()]

    def pending(self) -> list[str]:
        """Return the ids of checkpoints that are about to be put, or to be restored from the trash."""
        return [key.removeprefix(_PENDING) for key in self.store.keys(_PENDING)]

    def claimed(self, key: str) -> set[str]:
        """Return the packs that a claim names."""
        with suppress(NotFoundError):
            lines = self.store.get(key, 0, _MOST_CLAIMED).decode("ascii", "replace").split()[1:]
            return {it for it in lines if _ID.fullmatch(it)}
        return set()

    def entries(self, folder: str = "checkpoints") -> list[Entry]:
        """Return the checkpoints, newest first. Their manifests are not read."""
        found = (_ENTRY.fullmatch(key) for key in self.store.keys(f"{folder}/"))
        return sorted((_listed(it) for it in found if it), reverse=True)

    def read(self, entry: Entry) -> Manifest:
        """Return a checkpoint's manifest.

        Raises:
            CorruptError: It was truncated or edited, or it is stored under the key of another checkpoint.
        """
        return decode_entry(entry.key, self.store.get(entry.key, 0, MOST + 1))

    def raw(self, entry: Entry) -> bytes:
        """Return a manifest as it is stored."""
        return self.store.get(entry.key)

    def remove(self, entry: Entry) -> list[Ref]:
        """Move a checkpoint and its names into the trash. Return the names."""
        refs = [ref for ref in self.refs() if ref.id == entry.id]
        for key in (entry.key, *(ref.key for ref in refs)):
            self.store.copy(key, _trashed(key))
        self.store.delete(entry.key)
        self.store.settle("checkpoints")
        # From here on the names lead nowhere and are invisible. `gc` removes names that remain.
        with suppress(StoreError):
            for ref in refs:
                self.store.delete(ref.key)
        return refs

    def trash(self) -> dict[str, tuple[Entry, list[Ref]]]:
        """Return the checkpoints in the trash by id, each as the arguments of `bring_back`."""
        found: dict[str, tuple[Entry, list[Ref]]] = {}
        for entry in self.entries("trash"):
            key = f"checkpoints/{entry.key.removeprefix('trash/')}"
            found[entry.id] = replace(entry, key=key), []
        for ref in self._all_refs() if found else ():
            if ref.id in found and ref.key.startswith("trash/"):
                found[ref.id][1].append(replace(ref, key=ref.key.removeprefix("trash/")))
        return found

    def bring_back(self, entry: Entry, refs: Iterable[Ref]) -> None:
        """Undo `remove`, if `gc` has not emptied the trash. An interrupted call can be repeated.

        Raises:
            NotFoundError: `gc` has deleted the checkpoint, or is about to.
        """
        keys = [*(ref.key for ref in refs), entry.key]
        claim = f"{_PENDING}{entry.id}"
        back = []
        try:
            if not self.store.exists(entry.key):
                # The claim comes before the look at the marks: see docs/decisions/0045.
                self.store.put(claim, _claim(entry, ()))
                self._check_contents(replace(entry, key=_trashed(entry.key)))
            for key in keys:  # the checkpoint comes last and shows itself and its names at once
                if not self.store.exists(key):
                    self.store.copy(_trashed(key), key)
                    back.append(key)
        except NotFoundError:
            for key in (*reversed(back), claim):
                self.store.delete(key)
            raise NotFoundError(
                f"checkpoint {entry.id[:SHORT]} cannot be brought back: `gc` has taken it, or is about to"
            ) from None
        for key in (claim, *map(_trashed, keys)):
            self.store.delete(key)

    def _check_contents(self, entry: Entry) -> None:
        """Check that no collector has deleted, or is about to delete, a checkpoint or its data."""
        condemned, uses = self._condemned(), Uses()
        if entry.id in condemned:
            raise NotFoundError(f"checkpoint {entry.id[:SHORT]} is being collected")
        try:
            manifest = self.read(entry)
        except (CorruptError, FormatError):
            return  # it was damaged before, and its data cannot be read anyway
        add_uses(uses, manifest)
        for pack, places in uses.items():
            if pack in condemned:
                raise NotFoundError(f"pack {pack[:12]} is being collected")
            index = find_index(self.store, pack)
            blobs = (index[place] for place in places.of(len(index)))
            if any(blob is None or blob.pack in condemned for blob in blobs):
                raise NotFoundError(f"pack {pack[:12]} was collected")

    def _guard(self, manifest: Manifest) -> None:
        """Check that no collector is about to delete a pack that *manifest* names. See gc.py."""
        packs = manifest.packs()
        if not packs:
            return
        condemned = self._condemned()
        gone = {it for it in packs if it in condemned or not self.store.exists(pack_key(it))}
        if gone:
            raise VanishedError(gone)

    def _condemned(self) -> set[str]:
        """Return the packs and checkpoints that collectors are about to delete, from all their marks."""
        condemned: set[str] = set()
        for key in self.store.keys("condemned/"):
            with suppress(NotFoundError):
                condemned.update(_ID.findall(self.store.get(key, 0, MOST).decode("ascii", "replace")))
        return condemned

    # Names.

    def refs(self, name: str = "") -> list[Ref]:
        """Return the versions of *name*, or of every name, sorted.

        If two writers took one number at once, the one whose id sorts later gets the next number.
        """
        found = self._all_refs(name)
        return [ref for ref in found if not ref.key.startswith("trash/")]

    def _all_refs(self, name: str = "") -> list[Ref]:
        """Return all versions, including removed ones. A version keeps its number if another is removed."""
        below = f"refs/{encode_name(name)}/" if name else "refs/"
        keys = [*self.store.keys(f"trash/{below}"), *self.store.keys(below)]
        found = (it for it in map(_REF.fullmatch, keys) if it)
        raw = {(label, int(it[2]), it[3]): it[0] for it in found if (label := _decoded_name(it[1]))}
        refs: list[Ref] = []
        for (label, number, target), key in sorted(raw.items()):
            last = refs[-1].version if refs and refs[-1].name == label else 0
            refs.append(Ref(max(number, last + 1), target, label, key))
        return refs

    def spent_refs(self, ids: Container[str]) -> list[str]:
        """Return the keys of the removed names of these checkpoints that are no longer needed.

        The last version of a name stays, and so does every version if two writers took one number. Therefore
        no number is used again, and no version changes its number.
        """
        by_name: dict[str, list[Ref]] = {}
        for ref in self._all_refs():
            by_name.setdefault(ref.name, []).append(ref)
        keys = []
        for refs in by_name.values():
            if all(ref.key.endswith(f"/{ref.version:08d}-{ref.id}") for ref in refs):
                trashed = (ref for ref in refs[:-1] if ref.key.startswith("trash/"))
                keys += [ref.key for ref in trashed if ref.id in ids]
        return keys

    def add_ref(self, name: str, target: Entry, packs: Iterable[str] = ()) -> Ref:
        """Give a checkpoint the next version of *name*.

        The number of a removed version is not used again. Until the checkpoint is published, the key claims
        *packs*.

        Raises:
            UsageError: The name is not valid, or it has reached the last possible version.
        """
        check_name(name)
        version = self._last_version(name) + 1
        if version > _MOST_VERSIONS:
            raise UsageError(f"{name!r} has the version {version - 1} already, the last: choose another name")
        key = f"refs/{encode_name(name)}/{version:08d}-{target.id}"
        self.store.put(key, _claim(target, packs))
        return Ref(version, target.id, name, key)

    def _last_version(self, name: str) -> int:
        """Return the number of the last version of *name*, including removed versions.

        Every save calls this, so it reads only the numbers in the keys.
        """
        below = f"refs/{encode_name(name)}/"
        keys = [*self.store.keys(f"trash/{below}"), *self.store.keys(below)]
        numbers = [version[:8] for version in {key[-_VERSION:] for key in keys} if version[:8].isdecimal()]
        last = int(max(numbers, default=0))
        if len(set(numbers)) < len(numbers):  # two writers took one number: the second gets the next
            last = 0
            for number in sorted(numbers):
                last = max(int(number), last + 1)
        return last

    def resolve(self, ref: str) -> Entry:
        """Return the checkpoint that *ref* refers to.

        *ref* is `latest`, a name (its newest version), `name@3`, or at least four characters of an id. Each
        may end in `~2`, for the checkpoint two places older in the same list.

        Raises:
            NotFoundError: No checkpoint matches. The message names similar ones.
            UsageError: Several checkpoints match.
        """
        base, tilde, back = ref.partition("~")
        if tilde and not _NUMBER.fullmatch(back):
            raise UsageError(f"{ref!r}: behind '~' goes a number, as in 'latest~2'")
        if not tilde and (entry := self._newest(base)):
            return entry
        entries = self.entries()
        candidates = self._candidates(base, entries)
        if not candidates:
            raise self._unknown(base, entries)
        at = int(back or 0)
        if at >= len(candidates):
            raise NotFoundError(
                f"{ref!r} reaches too far back: {base!r} has {len(candidates)}. See `%ckpt ls`"
            )
        return candidates[at]

    def _newest(self, base: str) -> Entry | None:
        """Return the checkpoint of `latest` or a name by one listing, or None if this does not decide it."""
        # see docs/decisions/0059
        if base == "latest":
            found = (_ENTRY.fullmatch(key) for key in reversed(list(self.store.keys("checkpoints/"))))
            return next((_listed(it) for it in found if it), None)
        name, _, version = (
            base.rpartition("@") if _NUMBER.fullmatch(base.rpartition("@")[2]) else (base, "", "")
        )
        if _name_trouble(name):
            return None
        if version:
            keys = [ref.key for ref in self.refs(name) if ref.version == int(version)]
        else:
            keys = list(self.store.keys(f"refs/{encode_name(name)}/"))
        return self._named_by(keys[-1]) if keys else None

    def _named_by(self, key: str) -> Entry | None:
        """Return the checkpoint whose place a ref records, or None if it records none or it is gone."""
        ref = _REF.fullmatch(key)
        with suppress(NotFoundError):
            moment = self.store.get(key, 0, _MOST).decode("ascii", "replace").split()[1:2]
            it = _ENTRY.fullmatch(f"checkpoints/{''.join(moment)}-{ref[3]}.json") if ref else None
            if it and self.store.exists(it[0]):
                return _listed(it)
        return None

    def _candidates(self, base: str, entries: list[Entry]) -> list[Entry]:
        """Return the checkpoints that *base* can refer to, best match first."""
        if base == "latest":
            return entries
        by_id = {entry.id: entry for entry in entries}
        name, at, version = base.rpartition("@")
        if at and not _name_trouble(name) and _NUMBER.fullmatch(version):
            refs = [ref for ref in self.refs(name) if ref.id in by_id and ref.version <= int(version)]
            exact = bool(refs) and refs[-1].version == int(version)
            return [by_id[ref.id] for ref in reversed(refs)] if exact else []
        refs = [] if _name_trouble(base) else [it for it in self.refs(base) if it.id in by_id]
        if refs:
            return [by_id[ref.id] for ref in reversed(refs)]
        if not _PREFIX.fullmatch(base):
            return []
        matching = [entry for entry in entries if entry.id.startswith(base)]
        if len(matching) > 1:
            ids = ", ".join(entry.id[: SHORT + 4] for entry in matching[:4])
            raise UsageError(f"{base!r} begins more than one id ({ids}): give more characters")
        return matching and entries[entries.index(matching[0]) :]

    def _unknown(self, base: str, entries: Sequence[Entry]) -> NotFoundError:
        if not entries:
            return NotFoundError(
                f"no checkpoint {base!r}: {self.store.url} is empty. Make one in a notebook with `%ckpt save`"
            )
        ids = {entry.id for entry in entries}
        names = sorted({ref.name for ref in self.refs() if ref.id in ids})
        close = difflib.get_close_matches(base, [*names, "latest"], n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        return NotFoundError(f"no checkpoint matches {base!r}. {hint}See `%ckpt ls`")

    # Trust.

    def trusted(self, manifest: Manifest) -> bool:
        """Tell whether this user signed the manifest, when it was saved or later."""
        return self.signer.signed(manifest) or self.signer.signed(
            manifest, *self._later_signatures(manifest.id)
        )

    def trust(self, manifest: Manifest) -> None:
        """Sign a manifest that somebody else wrote."""
        signature = self.signer.sign(manifest.id)
        self.store.put(f"signatures/{manifest.id}/{signature.key}", signature.hmac.encode())

    def _later_signatures(self, target: str) -> list[Signature]:
        key = f"signatures/{target}/{self.signer.key}"
        try:
            return [Signature(self.signer.key, self.store.get(key, 0, _MOST).decode("ascii", "replace"))]
        except NotFoundError:
            return []


def _claim(target: Entry, packs: Iterable[str]) -> bytes:
    return "".join(f"{it}\n" for it in (target.id, target.moment, *packs)).encode()


def decode_entry(key: str, data: bytes) -> Manifest:
    """Return the manifest in *data* after checking that it belongs to *key*; see `History.read`."""
    file = key.rpartition("/")[2]
    what = f"checkpoint {file.partition('-')[2][:SHORT]}"
    manifest = decode(data, what)
    if file != _entry(manifest).key.rpartition("/")[2]:
        raise CorruptError(
            f"{what} is damaged: its key holds the manifest of {manifest.id[:SHORT]}, made at "
            f"{manifest.created_at or 'no time'}"
        )
    return manifest


def check_name(name: str) -> str:
    """Return *name* if it is a valid name for a checkpoint.

    Raises:
        UsageError: It is not valid. The message says why.
    """
    if trouble := _name_trouble(name):
        raise UsageError(f"{name!r} cannot be a checkpoint's name: {trouble}")
    return name


def _name_trouble(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable():
        return "it is empty, or has spaces at an end or characters that cannot be seen"
    if name == "latest" or name.startswith("-") or "@" in name or "~" in name:
        return "'latest', a '-' in front, '@' and '~' have a meaning of their own"
    return "it is too long" if len(encode_name(name)) > 200 else ""


def encode_name(name: str) -> str:
    """Return *name* as a file name that is distinct on every system.

    Everything except lower-case letters, digits, `_`, `-` and inner dots is percent-encoded. This includes
    capitals, because some systems ignore case, and the first letter of names that Windows reserves.
    """
    text = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789_-." else _percent(c) for c in name)
    if text.startswith(".") or _RESERVED.match(text):
        text = _percent(text[0]) + text[1:]
    return text[:-1] + "%2E" if text.endswith(".") else text


@lru_cache(maxsize=1024)
def _decoded_name(text: str) -> str:
    """Return the name that `encode_name` turned into *text*, or "" if there is none."""
    name = unquote(text)
    return name if encode_name(name) == text and not _name_trouble(name) else ""


def _percent(character: str) -> str:
    if character.isascii():
        return f"%{ord(character):02X}"
    return quote(character.encode("utf-8", "surrogatepass"), safe="")


def _entry(manifest: Manifest) -> Entry:
    """Return the entry of a checkpoint in the listing."""
    moment = re.sub(r"[^0-9TZ]", "", manifest.created_at)
    return Entry(moment, manifest.id, f"checkpoints/{moment}-{manifest.id}.json")


def _listed(found: re.Match[str]) -> Entry:
    return Entry(found[2], found[3], found[0])


def _trashed(key: str) -> str:
    return f"trash/{key.removeprefix('checkpoints/')}"
