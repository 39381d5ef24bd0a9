"""Messages that wait for the next turn of a run under way."""

from collections import deque
from collections.abc import Sequence

from durably import Entry
from durably.codec import Codec

__all__ = ["Steering"]

_entry: Codec[Entry] = Codec(Entry)


class Steering:
    """A queue of messages; ``takes_all`` says whether one turn takes all of them, or one.

    ``is_unsaved`` says that some were taken since a snapshot was saved last.
    """

    def __init__(self, *, takes_all: bool = True) -> None:
        self._queue: deque[Sequence[Entry]] = deque()
        self._takes_all = takes_all
        self.is_unsaved = False

    def add(self, message: Sequence[Entry]) -> None:
        """Put a message at the end.

        Raises:
            NotSerializable: it is no JSON; it is not in the queue.
        """
        for index, entry in enumerate(message):
            _entry.encode(entry, f"message[{index}]")
        self._queue.append(message)

    def next(self) -> list[Sequence[Entry]]:
        """Return the messages of the next turn; they stay in the queue until they are dropped."""
        return list(self._queue) if self._takes_all else list(self._queue)[:1]

    def drop(self, messages: Sequence[Sequence[Entry]]) -> None:
        """Remove messages that were taken into the transcript."""
        for message in messages:
            self._queue.remove(message)
        self.is_unsaved = self.is_unsaved or bool(messages)

    def __bool__(self) -> bool:
        return bool(self._queue)
