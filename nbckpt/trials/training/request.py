"""Request: a checkpoint that somebody asked a running function for."""

from __future__ import annotations

from collections.abc import Callable


class Request:
    """Stands from when somebody asks until the function has answered, with a checkpoint or without one.

    A function that looks whether it is asked answers with the first report after it has seen that it
    is; one that never looks, with its next report. Any thread may ask.

    Attributes:
        stands: Whether it does.
        in_vain: Whether the last answer was a report without a checkpoint.
        listen: Called before the function looks: takes in what was asked from another process.
    """

    def __init__(self) -> None:
        self.stands = self.unanswered = False
        self.listen: Callable[[], object] = bool
        self._looks = self._seen = False

    def ask(self) -> None:
        """Ask for a checkpoint; it makes no difference where one is asked for already."""
        if not self.stands:
            self._seen, self.stands = False, True

    def look(self) -> bool:
        """Tell the function whether it is asked."""
        self._looks = True
        self.listen()
        self._seen = self.stands
        return self.stands

    def answer(self, *, given: bool) -> None:
        """Take in a report, which may have a checkpoint *given*; one that could not know is no answer."""
        # see docs/decisions/0038
        if self.stands and (given or self._seen or not self._looks):
            self.stands, self.unanswered = False, not given
