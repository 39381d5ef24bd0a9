"""Any sequence of changes and reads gives the same on S3 as on memory: the log store."""

import itertools

import pytest

from durably_s3 import S3LogStore, Settings, _patience, _planning
from log_machine import LogStores, agree
from s3_memory import FaultyBucket, Shelf, unsure


class Repeating(FaultyBucket):
    """Sends every other PUT twice."""

    def __init__(self, shelf):
        super().__init__(shelf)
        turns = itertools.count()
        self.repeats = lambda _: next(turns) % 2


class Losing(FaultyBucket):
    """Answers no fifth request about logs, of which some are carried out."""

    def __init__(self, shelf):
        super().__init__(shelf)
        turns = itertools.count()

        def lose(request):
            if "/probe/" not in request.key and next(turns) % 5 == 0:
                unsure(request)

        self.before = self.after = lose


class OnS3(LogStores):
    server = FaultyBucket

    def open_others(self):
        if not hasattr(self, "shelf"):
            self.shelf = Shelf()
        settings = Settings(bucket="bucket", prefix="some/where")
        self.others = [S3LogStore(settings, bucket=self.server(self.shelf)) for _ in range(2)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("seal", "server"), [(0, FaultyBucket), (100, Repeating), (300, FaultyBucket), (300, Losing)]
)
def test_log_stores_agree(monkeypatch, seal, server):
    """Random batches, rewrites, deletes and reads, sent again at will, agree with memory."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", seal)
    monkeypatch.setattr(_planning, "FAN", 3)
    monkeypatch.setattr(_patience, "FIRST_PAUSE", 0)
    # Where answers are lost nobody can know whose attempt at one and the same change it was.
    fields = {"server": server, "knows_duplicates": server is not Losing}
    machine = type("OnThisServer", (OnS3,), fields)
    agree(machine, examples=60)
