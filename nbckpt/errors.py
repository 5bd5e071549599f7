"""The errors of nbckpt, grouped by what the one who catches them would do.

    NbckptError
    ├── UsageError       the request is wrong: change it          (also ValueError)
    ├── NotFoundError    nothing by that name: look at what is    (also KeyError, FileNotFoundError)
    ├── StoreError       the storage failed: free it, try again   (also OSError)
    │   └── RefusedError it will not, however often it is asked: change what the message says
    ├── CodecError       a value cannot be saved or loaded        (also TypeError)
    ├── CorruptError     the bytes are not those that were saved
    ├── FormatError      not ours, or from a newer nbckpt: upgrade
    ├── UntrustedError   a stranger's: look first, then trust it
    └── TrialError       a trial's own code failed: its cause says how

A message names the thing, the cause and the next step.
"""


class NbckptError(Exception):
    """Every error that nbckpt raises on purpose."""

    # KeyError prints its message in quotes and OSError prints a tuple of two; a message is a sentence.
    __str__ = Exception.__str__


class UsageError(NbckptError, ValueError):
    """The request itself is wrong; nothing was done."""


class NotFoundError(NbckptError, KeyError, FileNotFoundError):
    """Nothing is kept under the name, the reference or the key asked for."""

    __str__ = Exception.__str__


class StoreError(NbckptError, OSError):
    """The storage failed; what was kept before is untouched and trying again may help."""

    __str__ = Exception.__str__


class RefusedError(StoreError):
    """The storage will not do it: no such bucket, or no right to it. Trying again does not help."""


class CodecError(NbckptError, TypeError):
    """A value cannot be turned into bytes, or its bytes cannot become a value here."""


class CorruptError(NbckptError):
    """Stored bytes differ from those that were saved; nothing of them was used."""


class FormatError(NbckptError):
    """The thing is not nbckpt's, or was written by a newer version of it."""


class UntrustedError(NbckptError):
    """Loading would run code from someone else; it was not loaded."""


class Interrupted(KeyboardInterrupt):
    """An interrupt that was answered: what ran is at rest, and the message says how to go on."""

    def _render_traceback_(self) -> list[str]:
        """Tell IPython to show the message alone."""
        return [str(self)]


class TrialError(NbckptError):
    """The code of a trial failed, or what it ran in was lost; `__cause__` is what it raised, if it did."""
