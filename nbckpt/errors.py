"""The errors of nbckpt, grouped by what the caller can do.

    NbckptError
    ├── UsageError       the request is wrong: change it                    (also ValueError)
    ├── NotFoundError    the name does not exist: list the names that do    (also KeyError, FileNotFoundError)
    ├── StoreError       the storage failed: free space, try again          (also OSError)
    │   └── RefusedError the storage always refuses this: do what the message says
    ├── CodecError       a value cannot be saved or loaded                  (also TypeError)
    ├── CorruptError     the bytes are not those that were saved
    ├── FormatError      not a file of nbckpt, or from a newer nbckpt: upgrade
    ├── UntrustedError   somebody else's data: inspect it, then trust it
    └── TrialError       a trial's own code failed: its cause says how

A message names the thing, the cause and the next step.
"""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return *text* on one line, with every character that could control a terminal spelled out.

    These are all control characters, and those that change the direction of text. See docs/decisions/0050.

    >>> print(visible("a\x1b[2Jb\u202ec"), visible("two\nlines"))
    a\x1b[2Jb\u202ec two lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else repr(c)[1:-1] for c in text)


class NbckptError(Exception):
    """Every error that nbckpt raises on purpose.

    Examples:
        >>> try:
        ...     nbckpt.open_experiment("mine")
        ... except nbckpt.NbckptError as error:
        ...     print(type(error).__name__)
        NotFoundError
    """

    def __str__(self) -> str:
        """Return the message. It is one line, and nothing in it controls a terminal."""
        # Not what KeyError and OSError print, which is a message in quotes and a tuple.
        return visible(Exception.__str__(self))


class UsageError(NbckptError, ValueError):
    """The request is wrong. Nothing was done.

    Examples:
        >>> nbckpt.grid_search([])
        Traceback (most recent call last):
        nbckpt.errors.UsageError: grid_search got no values. Give at least one
    """


class NotFoundError(NbckptError, KeyError, FileNotFoundError):
    """The name, reference or key does not exist.

    Examples:
        >>> nbckpt.open_experiment("mine")
        Traceback (most recent call last):
        nbckpt.errors.NotFoundError: there is no experiment 'mine': start one with %ckpt run
    """

    __str__ = NbckptError.__str__


class StoreError(NbckptError, OSError):
    """The storage failed. Data that was stored before is untouched. Trying again may help."""

    __str__ = NbckptError.__str__


class RefusedError(StoreError):
    """The storage refuses: the bucket does not exist, or access is denied. Trying again does not help."""


class CodecError(NbckptError, TypeError):
    """A value cannot be turned into bytes, or its bytes cannot be turned into a value on this machine."""


class CorruptError(NbckptError):
    """Stored bytes differ from the bytes that were saved. None of them were used."""


class FormatError(NbckptError):
    """The data is not in nbckpt's format, or a newer nbckpt wrote it."""


class UntrustedError(NbckptError):
    """Loading would run code from somebody else. Nothing was loaded."""


class Interrupted(KeyboardInterrupt):
    """An interrupt that nbckpt handled: the running work has paused, and the message says how to continue."""

    def __str__(self) -> str:
        """Return the message, as `NbckptError` does."""
        return visible(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show only the message."""
        return [str(self)]


class TrialError(NbckptError):
    """The code of a trial failed, or its worker was lost. `__cause__` is the code's exception, if any."""
