"""The state machine of the log stores, on Redis: whatever memory answers, Redis must answer too."""

import importlib.util
from pathlib import Path

import msgspec
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from redis_servers import namespace
from twins import Twins


def _model():
    """Import the machine from the test that asks the same of SQLite."""
    path = Path(__file__).parents[1] / "test_model_logs.py"
    spec = importlib.util.spec_from_file_location("model_of_logs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LogStores = _model().LogStores


class NamedTwins(Twins):
    """Twins that know revisions by their names also in structs that are encoded as arrays."""

    def agree(self, first, second, *, token=False):
        answers = []

        async def named(awaitable):
            answers.append(await awaitable)
            return answers[-1] if token else _named(answers[-1])

        if super().agree(named(first), named(second), token=token) is None:
            return None
        return tuple(answers)


def _named(value):
    """Return a value with a dict in place of every struct."""
    if isinstance(value, msgspec.Struct):
        return {name: _named(one) for name, one in msgspec.structs.asdict(value).items()}
    if isinstance(value, tuple):
        return [_named(one) for one in value]
    return value


def agree(open_store, *, examples):
    """Compare stores with memory; ``open_store(namespace)`` gives one, and what to close with it.

    The machine's name for the stores that it drives is ``sqlite``.
    """

    class RedisLogStores(LogStores):
        def _open(self):
            if not hasattr(self, "namespace"):
                self.namespace = namespace()
                self.twins.close()
                self.twins = NamedTwins()
            opened = [open_store(self.namespace) for _ in range(2)]
            self.sqlite = [store for store, _ in opened]
            self.clients = [client for _, client in opened if client is not None]

        def _close(self):
            for one in (*self.sqlite, *self.clients):
                self.twins.run(one.aclose())

    run_state_machine_as_test(
        RedisLogStores,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        ),
    )
