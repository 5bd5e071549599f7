"""Trust: signs manifests with a secret of the user, as Jupyter signs notebooks.

Loading a checkpoint runs pickles, so only manifests that this user signed are loaded.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from nbckpt.core.manifest import Manifest, Signature
from nbckpt.errors import StoreError, UntrustedError
from nbckpt.settings import Settings
from nbckpt.store.files import create_file

_SECRET_SIZE = 32


@dataclass(frozen=True)
class Signer:
    """Signs manifests and verifies their signatures.

    Attributes:
        secret: The user's secret. Anybody who has it can make checkpoints that load here.
    """

    secret: bytes

    @property
    def key(self) -> str:
        """The public name of the secret: equal for equal secrets, and useless for guessing the secret."""
        return self._mac("key")[:16]

    def sign(self, manifest: str) -> Signature:
        """Return a signature of the manifest with this id."""
        return Signature(self.key, self._mac(f"manifest:{manifest}"))

    def signed(self, manifest: Manifest, *others: Signature) -> bool:
        """Tell whether this user signed the manifest, by its own signature or by one of *others*."""
        mine = self._mac(f"manifest:{manifest.id}").encode()
        theirs = (
            signature.hmac.encode("utf-8", "replace")
            for signature in (manifest.signature, *others)
            if signature
        )
        return any(hmac.compare_digest(mine, other) for other in theirs)

    def sign_bytes(self, kind: str, data: bytes) -> str:
        """Return a signature of *data*, valid only for this *kind*."""
        return self._mac(f"{kind}:{hashlib.sha256(data).hexdigest()}")

    def signed_bytes(self, kind: str, data: bytes, signature: str) -> bool:
        """Tell whether this user made *signature* with `sign_bytes`."""
        mine = self.sign_bytes(kind, data).encode()
        return hmac.compare_digest(mine, signature.encode("utf-8", "replace"))

    def _mac(self, message: str) -> str:
        return hmac.new(self.secret, f"nbckpt:{message}".encode(), hashlib.sha256).hexdigest()


def open_signer(settings: Settings | None = None) -> Signer:
    """Return the user's signer. The very first call makes the secret, which only the user can read.

    Raises:
        StoreError: The secret cannot be read or made.
    """
    file = (settings or Settings.load()).secret_file
    try:
        with suppress(FileNotFoundError):
            return Signer(_checked(file.read_bytes(), file))
        create_file(file, secrets.token_hex(_SECRET_SIZE).encode())
        return Signer(_checked(file.read_bytes(), file))
    except OSError as error:
        raise StoreError(
            f"cannot read or make the secret {file}: {error.strerror or error}. "
            "Set NBCKPT_SECRET_FILE to a file that you may write"
        ) from error


def stranger(manifest: Manifest, ref: str, maker: str) -> UntrustedError:
    """Return the error for an untrusted checkpoint: a stranger's, or perhaps the user's from a lost secret.

    Args:
        manifest: The checkpoint, which this user did not sign.
        ref: The reference that the user typed.
        maker: The public name of the secret that made the store.
    """
    label = f"checkpoint {manifest.id[:8]}"
    ref = quote(ref)
    look = f"Look at it with `%ckpt show {ref}`, then `%ckpt restore {ref} --trust` or `%ckpt trust {ref}`"
    if manifest.signature is None:
        return UntrustedError(f"{label} is not signed, so restoring it could run anything. {look}")
    if manifest.signature.key == maker:
        return UntrustedError(
            f"{label} was signed with the secret that made this store, and your secret is another one. "
            f"If someone else made the store: {look[0].lower()}{look[1:]}. If you made it (in a former home "
            "folder?): set NBCKPT_SECRET_FILE to the former secret, or `%ckpt trust --store`"
        )
    return UntrustedError(f"{label} was made by someone else, so restoring it could run anything. {look}")


def _checked(secret: bytes, file: Path) -> bytes:
    if len(secret.strip()) < _SECRET_SIZE:
        raise StoreError(f"the secret {file} is too short. Delete it, and nbckpt makes a new one")
    return secret.strip()
