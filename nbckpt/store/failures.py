"""Failures: translates the errors of storage libraries for the user.

Errors are recognised by their class names, so none of those libraries has to be imported.
"""

from __future__ import annotations

from nbckpt.errors import RefusedError, StoreError
from nbckpt.store.masking import masked

_DENIED = {
    "AuthenticationException",
    "ClientAuthenticationError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "PermissionError",
}
_ABSENT = {"FileNotFoundError", "ResourceNotFoundError"}
_AWAY = {
    "ClientConnectorError",
    "ConnectionRefusedError",
    "ConnectTimeoutError",
    "EndpointConnectionError",
    "NoValidConnectionsError",
    "ServiceRequestError",
    "gaierror",
}


def explained(error: Exception, action: str) -> StoreError:
    """Return an error that says that *action* failed, why, and what to do."""
    names = {kind.__name__ for kind in type(error).__mro__}
    said = masked((str(error).splitlines() or [""])[0])
    cause = f"{type(error).__name__}: {said}"
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    if names & _DENIED or status in {401, 403} or "No authentication" in said:
        return RefusedError(
            f"{action}: access is denied ({cause}). Check the credentials and what they allow"
        )
    if names & _ABSENT:
        return RefusedError(f"{action}: it does not exist ({cause}). Make the bucket, or correct the URL")
    if names & _AWAY:
        return StoreError(f"{action}: it cannot be reached ({cause}). Check its address and the network")
    return StoreError(f"{action}: {cause}")
