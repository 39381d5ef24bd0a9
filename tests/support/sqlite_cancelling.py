"""Cancel a call at one of its awaits, in a chosen moment of the work behind it."""

import asyncio
import threading

MOMENTS = ("before the thread begins", "after the thread is done", "meanwhile")


class CancelledAt:
    """Awaits a coroutine, and cancels the task around it when it waits for the n-th time.

    ``is_reached`` says whether it waited so often. The thread of the connection is kept from
    beginning, or waited for, by the moment.
    """

    def __init__(self, coroutine, number, moment, store):
        self.is_reached = False
        self._coroutine = coroutine
        self._number = number
        self._moment = moment
        self._database = store._engine._database
        self._release = threading.Event()

    def __await__(self):
        number = 0
        error = None
        try:
            while True:
                here = number == self._number
                if here and self._moment == MOMENTS[0]:
                    self._database._tx.put_nowait((None, self._release.wait))
                try:
                    waited = self._resume(error)
                except StopIteration as stop:
                    return stop.value
                if here:
                    self._cancel()
                number += 1
                error = None
                try:
                    yield waited
                except asyncio.CancelledError as caught:
                    error = caught
        finally:
            self._release.set()

    def _resume(self, error):
        return self._coroutine.send(None) if error is None else self._coroutine.throw(error)

    def _cancel(self):
        self.is_reached = True
        if self._moment == MOMENTS[1]:
            idle = threading.Event()
            self._database._tx.put_nowait((None, idle.set))
            idle.wait(60)
        asyncio.current_task().cancel()


async def outcome(call):
    """Return what came of an awaitable in a task of its own, an exception included."""

    async def wait():
        return await call

    [found] = await asyncio.gather(asyncio.ensure_future(wait()), return_exceptions=True)
    return found
