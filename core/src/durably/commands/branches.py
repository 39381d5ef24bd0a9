"""The shape of a tree, drawn: what stands before each node, and in which order they come.

A branch that ends is drawn beside the one that goes on, which keeps its column. The one that goes
on is that of the leaf and, aside from it, the one with the most nodes: so a conversation of any
length stays at the left, and no tree of a million nodes is more than 20 branches deep.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

__all__ = ["ASIDE", "LEAF", "Drawn", "Shape", "draw", "id_width", "shape_of"]

LEAST = 8
"""Characters of an id that are shown, however few would do."""

LEAF, PATH, ASIDE = "◉", "●", "○"


class Shape(msgspec.Struct, frozen=True):
    """The nodes by their numbers: the children of each, and those from a root to the leaf."""

    roots: Sequence[int]
    children: Sequence[Sequence[int]]
    path: Sequence[int]

    @property
    def branch_count(self) -> int:
        """How many nodes have no child."""
        return sum(not them for them in self.children)


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """One node by its number, with what stands before it, and before its further lines."""

    number: int
    first: str
    rest: str


def shape_of(ids: Sequence[str], parents: Sequence[str | None], leaf: str | None) -> Shape:
    """Return the shape of nodes that each come after their parent; one without it is a root."""
    numbers: dict[str, int] = {}
    roots: list[int] = []
    above: list[int | None] = []
    children: list[list[int]] = [[] for _ in ids]
    for number, (id_, parent) in enumerate(zip(ids, parents, strict=True)):
        place = None if parent is None else numbers.get(parent)
        (roots if place is None else children[place]).append(number)
        above.append(place)
        numbers[id_] = number
    path: list[int] = []
    place = None if leaf is None else numbers.get(leaf)
    while place is not None:
        path.append(place)
        place = above[place]
    return Shape(roots, children, path[::-1])


def draw(shape: Shape) -> Iterator[Drawn]:
    """Yield every node, top down."""
    on_path = frozenset(shape.path)
    sizes = _sizes(shape)
    leaf = shape.path[-1] if shape.path else None
    placed = _placed(shape.roots, sizes, on_path, "")
    if len(placed) > 1:
        number, _, rest = placed[0]
        placed[0] = number, "┌─", rest
    waiting = placed[::-1]
    while waiting:
        number, first, rest = waiting.pop()
        below = _placed(shape.children[number], sizes, on_path, rest)
        waiting += reversed(below)
        mark = LEAF if number == leaf else PATH if number in on_path else ASIDE
        yield Drawn(number=number, first=first + mark, rest=rest + ("│" if below else " "))


def _sizes(shape: Shape) -> list[int]:
    """Return how many nodes there are from each on; children have higher numbers."""
    sizes = [1] * len(shape.children)
    for number in reversed(range(len(sizes))):
        sizes[number] += sum(sizes[child] for child in shape.children[number])
    return sizes


def _placed(
    siblings: Sequence[int], sizes: Sequence[int], on_path: frozenset[int], rest: str
) -> list[tuple[int, str, str]]:
    """Return siblings with what stands before their lines: the one that goes on comes last."""
    if not siblings:
        return []
    last = max(siblings, key=lambda one: (one in on_path, sizes[one], one))
    aside = [(one, f"{rest}├─", f"{rest}│ ") for one in siblings if one != last]
    return [*aside, (last, rest, rest)]


def id_width(ids: Sequence[str]) -> int:
    """Return how many first characters tell all ids apart."""
    pairs = pairwise(sorted(ids))
    return max([LEAST, *(_shared(one, other) + 1 for one, other in pairs)])


def _shared(one: str, other: str) -> int:
    """Return how many first characters two ids share."""
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other))
    )
