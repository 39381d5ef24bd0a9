"""Any sequence of changes and reads gives the same on S3 as on memory: the log store."""

import pytest

from durably_s3 import S3LogStore, Settings, _planning
from log_machine import LogStores, agree
from s3_memory import FaultyBucket, Shelf


class OnS3(LogStores):
    def open_others(self):
        if not hasattr(self, "shelf"):
            self.shelf = Shelf()
        settings = Settings(bucket="bucket", prefix="some/where")
        self.others = [S3LogStore(settings, bucket=FaultyBucket(self.shelf)) for _ in range(2)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seal", [0, 100, 300])
def test_log_stores_agree(monkeypatch, seal):
    """Random batches, rewrites, deletes and reads, sent again at will, agree with memory."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", seal)
    monkeypatch.setattr(_planning, "FAN", 3)
    agree(OnS3, examples=60)
