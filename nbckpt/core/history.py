"""History: puts checkpoints into a store and reads them; its format and its signatures.

    store.json                           the format and the digest of the store
    signatures/<id>/<key>                signatures that `trust` added later
    pending/<id>                         a checkpoint without a name that is about to be put
    trash/…                              removed checkpoints and names, until `gc`; see trash.py

Every key is put once and never changed, so writers never have to wait for each other.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any

from nbckpt.core.algorithms import BLAKE3, PREFERRED, Algorithms, named
from nbckpt.core.catalogue import Catalogue, View
from nbckpt.core.changes import (
    is_removed,
    note_added,
    note_again,
    note_signed,
)
from nbckpt.core.manifest import Manifest, Signature
from nbckpt.core.manifest_json import FORMAT, MOST, canonical, decode, encode
from nbckpt.core.names import encode_name
from nbckpt.core.packs.format import pack_key
from nbckpt.core.references import SHORT, Entry, Kind, Ref, References
from nbckpt.core.resolving import resolve
from nbckpt.core.schema import read
from nbckpt.core.trust import Signer
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import Store

_ID = re.compile(r"[0-9a-f]{64}")
PENDING = "pending/"
_CLAIM_S = 1800.0  # half as long as a collector respects a claim
_MOST_CLAIMED = 16 << 20
_ABOUT = {"format": int, "digest?": str, "id?": str, "key?": str}
_MOST = 64 << 10  # the most bytes of store.json or a signature


class VanishedError(Exception):
    """Packs that a manifest was about to name are being collected. The save must start again."""

    def __init__(self, packs: Iterable[str]) -> None:
        super().__init__("packs were collected during a save")
        self.packs = set(packs)


class History(References):
    """The checkpoints of one store.

    Args:
        store: The store.
        signer: Returns the user's signer. Called when something is signed or verified.
    """

    def __init__(self, store: Store, signer: Callable[[], Signer]) -> None:
        super().__init__(store)
        self._make_signer = signer
        self._algorithms: Algorithms | None = None
        self._catalogue = Catalogue(store, lambda: self.algorithms)

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
                f"the store {self.store.url} was written by a newer nbckpt (format {about['format']}), "
                "and nothing was changed. To use it, upgrade nbckpt"
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
                f"the store {self.store.url} uses the digest {self.algorithms.name}, the checkpoint uses "
                f"{algorithms.name}, and one store has one digest. Save the checkpoint in another store"
            )

    # Listings. See docs/decisions/0089.

    def view(self) -> View | None:
        """Return the store as its catalogue lists it, or None if it has no catalogue."""
        return self._catalogue.view()

    def listed(self) -> History:
        """Return the history as the catalogue of the store lists it; without a catalogue, this history.

        It is for looks. A checkpoint that it lists may be gone.
        """
        view = self.view()
        return self if view is None else History(view, lambda: self.signer)

    def resolve(self, ref: str) -> Entry:
        """Return the checkpoint that *ref* refers to, as `resolving.resolve` does.

        The catalogue is asked first. If it leads to no checkpoint, all keys are listed.
        """
        listed = self.listed()
        if listed is not self:
            with suppress(NotFoundError, UsageError):
                entry = resolve(listed, ref)
                if self.store.exists(entry.key):
                    return entry
        return resolve(self, ref)

    def _taken(self, *prefixes: str) -> list[str]:
        return self._catalogue.taken(*prefixes)

    def packs_of_newest(self, name: str, view: View) -> set[str]:
        """Return the packs of the newest version of *name*, if the catalogue does not know it yet."""
        refs = list(view.keys(f"refs/{encode_name(name)}/"))
        return self.claimed(refs[-1]) if refs and refs[-1] in view.changes.added else set()

    # Checkpoints.

    def publish(
        self, manifest: Manifest, name: str = "", *, kind: Kind = "checkpoints"
    ) -> tuple[Manifest, Ref | None]:
        """Sign a checkpoint and make it visible, together with its name; see `adopt`."""
        self.ensure(manifest.algorithms)
        manifest, data = encode(manifest, self.signer.sign)
        return manifest, self._show(manifest, data, name, kind, is_own=True)

    def adopt(self, manifest: Manifest, data: bytes, name: str = "") -> Ref | None:
        """Make a checkpoint and its name visible, both or neither. The manifest is stored as exactly *data*.

        After the return the checkpoint survives a crash of the machine.

        Raises:
            VanishedError: A pack that it names is deleted or about to be. Nothing was published.
            FormatError: The store has another digest. Nothing was published.
        """
        self.ensure(manifest.algorithms)
        return self._show(manifest, data, name, "checkpoints", is_own=False)

    def _show(self, manifest: Manifest, data: bytes, name: str, kind: Kind, *, is_own: bool) -> Ref | None:
        """Put a name or a note that claims the packs, check that the packs stay, then put the manifest.

        A name without a manifest is not visible. The manifest comes last and makes both visible at once. A
        process that dies before that leaves only the claim. See docs/decisions/0045.
        """
        packs, entry = sorted(manifest.packs()), Entry.of(manifest, kind)
        ref = self.add_ref(name, entry, packs) if name else None
        note = "" if ref else note_added(self.store, entry.key)
        if not is_own and is_removed(self.store, entry.key):
            note_again(self.store, entry.key)
        claim = ref.key if ref else f"{PENDING}{manifest.id}"
        began, is_put = time.time(), False
        try:
            if ref is None and packs:
                # A collector that reads it half put its marks before, and the guard sees those.
                self.store.put_note(claim, entry.claim(packs))
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
                if note:
                    self.store.delete(note)
            raise
        with suppress(StoreError):  # the checkpoint is visible, and the leftovers are small
            if ref is None and packs:
                self.store.delete(claim)
            # Another import of this checkpoint has failed.
            elif ref and not (is_own or self.store.exists(claim)):
                self.store.put(claim, entry.claim(packs))
        return ref

    def _unclaim(self, claim: str, entry: Entry, packs: list[str]) -> None:
        """Remove a claim unless its checkpoint exists: another import may have put both just now."""
        if not self.store.exists(entry.key):
            self.store.delete(claim)
            if not claim.startswith(PENDING) and self.store.exists(entry.key):
                self.store.put(claim, entry.claim(packs))

    def claims(self) -> list[tuple[str, str]]:
        """Return the keys of names and notes that may claim packs, each with the id of its checkpoint."""
        notes = [(f"{PENDING}{target}", target) for target in self.pending()]
        return [(ref.key, ref.id) for ref in self.refs()] + notes

    def pending(self) -> list[str]:
        """Return the ids of checkpoints that are about to be put, or to be restored from the trash."""
        return [key.removeprefix(PENDING) for key in self.store.keys(PENDING)]

    def claimed(self, key: str) -> set[str]:
        """Return the packs that a claim names."""
        with suppress(NotFoundError):
            lines = self.store.get(key, 0, _MOST_CLAIMED).decode("ascii", "replace").split()[1:]
            return {line for line in lines if _ID.fullmatch(line)}
        return set()

    def read(self, entry: Entry) -> Manifest:
        """Return a checkpoint's manifest.

        Raises:
            CorruptError: It was truncated or edited, or it is stored under the key of another checkpoint.
        """
        return decode_entry(entry.key, self.store.get(entry.key, 0, MOST + 1))

    def raw(self, entry: Entry) -> bytes:
        """Return a manifest as it is stored."""
        return self.store.get(entry.key)

    def _guard(self, manifest: Manifest) -> None:
        """Check that no collector is about to delete a pack that *manifest* names. See gc.py."""
        packs = manifest.packs()
        if not packs:
            return
        condemned = self.condemned()
        gone = {pack for pack in packs if pack in condemned or not self.store.exists(pack_key(pack))}
        if gone:
            raise VanishedError(gone)

    def condemned(self) -> set[str]:
        """Return the packs and checkpoints that collectors are about to delete, from all their marks."""
        condemned: set[str] = set()
        for key in self.store.keys("condemned/"):
            with suppress(NotFoundError):
                condemned.update(_ID.findall(self.store.get(key, 0, MOST).decode("ascii", "replace")))
        return condemned

    # Trust.

    def trusted(self, manifest: Manifest) -> bool:
        """Tell whether this user signed the manifest, when it was saved or later."""
        return self.signer.signed(manifest) or self.signer.signed(
            manifest, *self._later_signatures(manifest.id)
        )

    def trust(self, manifest: Manifest) -> None:
        """Sign a manifest that somebody else wrote."""
        signature = self.signer.sign(manifest.id)
        key = f"signatures/{manifest.id}/{signature.key}"
        note_signed(self.store, key)
        self.store.put(key, signature.hmac.encode())

    def _later_signatures(self, target: str) -> list[Signature]:
        key = f"signatures/{target}/{self.signer.key}"
        try:
            return [Signature(self.signer.key, self.store.get(key, 0, _MOST).decode("ascii", "replace"))]
        except NotFoundError:
            return []


def decode_entry(key: str, data: bytes) -> Manifest:
    """Return the manifest in *data* after checking that it belongs to *key*; see `History.read`."""
    file = key.rpartition("/")[2]
    label = f"checkpoint {file.partition('-')[2][:SHORT]}"
    manifest = decode(data, label)
    if file != Entry.of(manifest).key.rpartition("/")[2]:
        raise CorruptError(
            f"{label} is damaged: its key holds the manifest of {manifest.id[:SHORT]}, whose time is "
            f"{manifest.created_at or 'not known'}"
        )
    return manifest
