"""Moto's S3 server on a free port: it prints the port, and ends with its standard input.

Moto looks at a condition first and then acts on it, many threads at once. One lock around every
request makes that one step; ``--unlocked`` leaves it out.
"""

import argparse
import logging
import sys
from functools import wraps
from threading import RLock

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

parser = argparse.ArgumentParser()
parser.add_argument("host")
parser.add_argument("--unlocked", action="store_true")
parser.add_argument("--switch-interval", type=float, help="seconds after which threads take turns")
arguments = parser.parse_args()

lock = RLock()


def one_by_one(respond):
    @wraps(respond)
    def locked(*given):
        with lock:
            return respond(*given)

    return locked


if not arguments.unlocked:
    S3Response.key_response = one_by_one(S3Response.key_response)
    S3Response.bucket_response = one_by_one(S3Response.bucket_response)
if arguments.switch_interval:
    sys.setswitchinterval(arguments.switch_interval)

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(arguments.host, port=0, verbose=False)
server.start()
sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
sys.stdout.flush()
sys.stdin.read()
