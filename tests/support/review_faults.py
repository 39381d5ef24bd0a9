"""Log stores that fail at a chosen write, before it or after it."""

import os

from disturbed import Wrapper
from durably import Unavailable

EXIT = 9


class FailsAtWrite(Wrapper):
    """Fails at the n-th append to a log of a kind, once, or from there on ``for_ever``.

    With ``done`` what it asks is done first; with ``exits`` the process ends there.
    """

    def __init__(self, store, kind, number, *, done=False, exits=False, for_ever=False):
        super().__init__(store)
        self._kind = kind
        self._left = number
        self._done = done
        self._exits = exits
        self._for_ever = for_ever

    async def append(self, log, batch):
        if log.kind != self._kind:
            return await super().append(log, batch)
        self._left -= 1
        if self._left > 0 or (self._left < 0 and not self._for_ever):
            return await super().append(log, batch)
        if self._done and self._left == 0:
            await super().append(log, batch)
        if self._exits:
            os._exit(EXIT)
        raise Unavailable("the line was cut")
