"""Sftp: file systems over SSH, only to hosts whose key is in `known_hosts`."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from typing import Any

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem

from nbckpt.errors import RefusedError

_PORT = 22
_OF_ALL_USERS = "/etc/ssh/ssh_known_hosts"


class KnownHosts(SFTPFileSystem):  # type: ignore[misc]  # fsspec has no types
    """One connection to a host whose key the user has accepted before.

    Raises:
        RefusedError: The host is unknown or presents another key. Nothing was sent to it.
    """

    cachable = False

    def _connect(self) -> None:
        self.client = paramiko.SSHClient()
        self.client.load_system_host_keys()
        with suppress(OSError):
            self.client.load_system_host_keys(_OF_ALL_USERS)
        self.client.set_missing_host_key_policy(_Refuse())
        try:
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
        except paramiko.BadHostKeyException as error:
            self.client.close()
            port = self.ssh_kwargs.get("port", _PORT)
            name = self.host if port == _PORT else f"[{self.host}]:{port}"
            raise RefusedError(
                f"{self.host} presents another key than the one in ~/.ssh/known_hosts "
                f"({_fingerprint(error.key)}). Somebody may intercept the connection. "
                "If the owner of the host changed the key, remove the "
                f"old one: ssh-keygen -R '{name}'"
            ) from error
        except BaseException:
            self.client.close()
            raise


class _Refuse(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # nor has paramiko
    """Refuses an unknown host."""

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        """See `MissingHostKeyPolicy`."""
        del client
        host, _, port = hostname.removeprefix("[").partition("]:")
        scan = f"ssh-keyscan {f'-p {port} ' if port else ''}{host}"
        raise RefusedError(
            f"the host {hostname} is not in ~/.ssh/known_hosts, so anybody may answer for it. It presents "
            f"the key {_fingerprint(key)}. If this key is right, add it: {scan} >> ~/.ssh/known_hosts"
        )


def _fingerprint(key: Any) -> str:
    """Return the fingerprint of a key in OpenSSH's form."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"
