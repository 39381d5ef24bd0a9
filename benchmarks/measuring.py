"""Rounds of two things side by side, and the table of what came of them."""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

__all__ = ["Row", "compare", "print_table", "timed", "timed_async", "timed_in_all", "written"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One job: times in seconds per operation, and their ratio as it was asked for.

    ``at_most`` of a ratio ours / floor, or ``at_least`` of one floor / ours; nothing is asked of
    what only explains another row.
    """

    job: str
    ours: float
    floor: float
    ratio: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def asked(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return f">= {self.at_least:g}" if self.at_least else ""

    @property
    def is_met(self) -> bool:
        if self.at_most is not None:
            return self.ratio <= self.at_most
        return self.at_least is None or self.ratio >= self.at_least


async def compare(
    job: str,
    ours: Callable[[], Awaitable[float]],
    floor: Callable[[], float],
    *,
    rounds: int,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """Alternate rounds of both, each returning its seconds per operation."""
    pairs = [(await ours(), floor()) for _ in range(rounds)]
    ratios = [mine / bare if at_least is None else bare / mine for mine, bare in pairs]
    return Row(
        job=job,
        ours=statistics.median(mine for mine, _ in pairs),
        floor=statistics.median(bare for _, bare in pairs),
        ratio=statistics.median(ratios),
        at_most=at_most,
        at_least=at_least,
    )


def timed(work: Callable[[], object], count: int) -> float:
    """Return the median seconds of so many calls."""
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def timed_async(work: Callable[[], Awaitable[object]], count: int) -> float:
    """Return the median seconds of so many calls, one after the other."""
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def timed_in_all(work: Callable[[], object], count: int) -> float:
    """Return the mean seconds of so many calls: what they take of throughput."""
    began = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - began) / count


def written() -> int:
    """Return how many bytes this process has written so far; Linux counts them."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def print_table(rows: Sequence[Row]) -> None:
    """Print what was measured, and what was asked."""
    width = max(len(row.job) for row in rows)
    print(f"{'job':{width}}  {'ours':>10}  {'floor':>10}  {'ratio':>6}  {'asked':>7}")
    for row in rows:
        verdict = "" if row.is_met else "  missed"
        print(
            f"{row.job:{width}}  {row.ours * 1e6:7.0f} us  {row.floor * 1e6:7.0f} us"
            f"  {row.ratio:6.2f}  {row.asked:>7}{verdict}"
        )
