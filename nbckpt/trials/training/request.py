"""Request: the request to a running function for a checkpoint."""

from __future__ import annotations

from collections.abc import Callable


class Request:
    """A request, open from the moment somebody asks until the function answers, with a checkpoint or not.

    A function that polls `should_checkpoint()` answers with its first report after True. A function that
    never polls answers with its next report. Any thread may ask.

    Attributes:
        stands: Whether the request is open.
        unanswered: Whether the last answer was a report without a checkpoint.
        listen: Called before the function polls. Takes in requests from another process.
    """

    def __init__(self) -> None:
        self.stands = self.unanswered = False
        self.listen: Callable[[], object] = bool
        self._looks = self._seen = False

    def ask(self) -> None:
        """Ask for a checkpoint. Asking again while a request is open changes nothing."""
        if not self.stands:
            self._seen, self.stands = False, True

    def look(self) -> bool:
        """Return whether a checkpoint is asked for. Called by the function."""
        self._looks = True
        self.listen()
        self._seen = self.stands
        return self.stands

    def answer(self, *, given: bool) -> None:
        """Take in a report. Without a *given* checkpoint, a report before the poll is not an answer."""
        # see docs/decisions/0038
        if self.stands and (given or self._seen or not self._looks):
            self.stands, self.unanswered = False, not given
