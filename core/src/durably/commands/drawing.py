"""``durably tree``: which trees there are, and one of them, drawn."""

import asyncio
from typing import Annotated

import msgspec
import typer

from durably.commands.arguments import AsJson, Url, missing, open_url
from durably.commands.branches import ASIDE, LEAF, Drawn, Shape, draw, id_width, shape_of
from durably.commands.harmless import one_line
from durably.commands.listing import each
from durably.commands.output import (
    can_print,
    count,
    moment,
    print_facts,
    print_hanging,
    print_json,
    print_line,
)
from durably.commands.transcript import Said
from durably.commands.tree_nodes import FoundNode, brief, read_nodes
from durably.errors import TreeNotFound
from durably.storage import Storage
from durably.tree_values import TreeInfo, TreeParent

__all__ = ["tree"]

_ASCII = str.maketrans("├┌─│○●◉", "++-|o*@")
"""What a tree is drawn with where a terminal or file has no better."""

LEAF_WIDTH = 12


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a node."""

    id: str
    parent_id: str | None
    label: str | None
    kept: str | None
    said: Said


def tree(
    url: Url,
    tree_id: Annotated[
        str | None,
        typer.Argument(
            metavar="TREE_ID",
            help="The one to draw; put -- before one that begins with a dash.",
            show_default="all are listed",
        ),
    ] = None,
    *,
    full: Annotated[bool, typer.Option("--full", help="Whole ids, and all that was said.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a tree: who said what, where it branched, and where it goes on. Or list the trees.

    A node is a line: its mark, its id as far as it takes to know it, its label in quotes, and the
    beginning of what was said. Only a fork indents: a branch that ended stands beside the one
    that goes on, which is that of the leaf or else the largest. Nodes from a root to the leaf are
    marked ●, the leaf ◉, all others ○. What this version does not know is drawn, too.

    With --json, it is one object: tree_id, revision, name, leaf_id, labels, parent {tree_id,
    node_id}, node_count, message_count, created_at, updated_at; and nodes, each after its parent,
    [{id, parent_id, kind, stored_at, revision, label, entry, summary, first_kept_id, name, data,
    text, problem}]. text is the beginning of what was said, problem says why there is no content.
    Without a TREE_ID, each tree is such an object without nodes on a line of its own.
    """
    if tree_id is None and full:
        raise typer.BadParameter("--full goes with a TREE_ID")
    if tree_id is None:
        asyncio.run(_list(url, as_json=as_json))
    else:
        asyncio.run(_show(url, tree_id, full=full, as_json=as_json))


async def _list(url: str, *, as_json: bool) -> None:
    async with open_url(url) as storage:
        if not as_json:
            heading = f"{'NODES':>9}  {'UPDATED':19}  {'LEAF':{LEAF_WIDTH}}  ID  NAME"
            print_line(heading, style="bold")
        async for info in each(storage.trees):
            if as_json:
                print_json(msgspec.to_builtins(info))
            else:
                print_line(_row(info))


def _row(info: TreeInfo) -> str:
    leaf = one_line(info.leaf_id or "-")[:LEAF_WIDTH]
    name = "" if info.name is None else f'  "{info.name}"'
    updated = moment(info.updated_at)
    return f"{info.node_count:>9}  {updated:19}  {leaf:{LEAF_WIDTH}}  {info.tree_id}{name}"


async def _show(url: str, tree_id: str, *, full: bool, as_json: bool) -> None:
    async with open_url(url) as storage:
        info = await _info(storage, tree_id)
        found = read_nodes(storage.tree(tree_id))
        if as_json:
            nodes = [_as_json(one) async for one in found]
            print_json({**msgspec.to_builtins(info), "nodes": nodes})
            return
        lines = [_line(one, full=full) async for one in found]
    shape = shape_of([one.id for one in lines], [one.parent_id for one in lines], info.leaf_id)
    print_line(f"tree {tree_id}", style="bold")
    print_facts(_facts(info, shape))
    print_line("")
    width = None if full else id_width([one.id for one in lines])
    for drawn in draw(shape):
        _print(lines[drawn.number], drawn, width)


async def _info(storage: Storage, tree_id: str) -> TreeInfo:
    try:
        return await storage.tree(tree_id).info()
    except TreeNotFound:
        raise await missing(storage, "tree", tree_id, has_kind_option=False) from None


def _as_json(found: FoundNode) -> dict[str, object]:
    said = found.in_brief()
    problem = None if found.problem is None else str(found.problem)
    text = f"{said.heading}: {said.text}" if said.text else said.heading
    return {**msgspec.to_builtins(found.node), "text": text, "problem": problem}


def _line(found: FoundNode, *, full: bool) -> _Line:
    """Return what is to be shown of a node; no more of it is kept."""
    node = found.node
    return _Line(
        id=node.id,
        parent_id=node.parent_id,
        label=node.label if node.label is None or full else brief(node.label),
        kept=node.first_kept_id,
        said=found.said() if full else found.in_brief(),
    )


def _facts(info: TreeInfo, shape: Shape) -> dict[str, str]:
    counts = (
        count(info.node_count, "node", "nodes"),
        count(info.message_count, "message", "messages"),
        count(shape.branch_count, "branch", "branches"),
    )
    return {
        **({} if info.name is None else {"name": info.name}),
        "holds": ", ".join(counts),
        "leaf": "before the first node" if info.leaf_id is None else info.leaf_id,
        **({} if info.parent is None else {"parent tree": _origin(info.parent)}),
        "updated": moment(info.updated_at),
    }


def _origin(parent: TreeParent) -> str:
    at = "before its first node" if parent.node_id is None else f"at its node {parent.node_id}"
    return f"{parent.tree_id}, {at}"


def _print(line: _Line, drawn: Drawn, width: int | None) -> None:
    """Print a node; what was said comes last, so that it cannot pose as what stands before it."""
    first, rest = drawn.first, drawn.rest
    if not can_print(first + rest):
        first, rest = first.translate(_ASCII), rest.translate(_ASCII)
    head = one_line(_head(line, width, is_leaf=drawn.first.endswith(LEAF)))
    style = "" if drawn.first.endswith(ASIDE) else "bold"
    cut = width is not None
    said = f" {line.said.text}" if cut and line.said.text else ""
    print_hanging(head + said, first=f"{first} ", rest=f"{rest} ", style=style, cut=cut)
    if line.said.text and not cut:
        print_hanging(line.said.text, first=f"{rest}   ", rest=f"{rest}   ")


def _head(line: _Line, width: int | None, *, is_leaf: bool) -> str:
    leaf = " [leaf]" if is_leaf else ""
    label = "" if line.label is None else f' "{line.label}"'
    kept = "" if line.kept is None else f", keeps from {_cut(line.kept, width)}"
    colon = ":" if line.said.text else ""
    return f"{_cut(line.id, width)}{leaf}{label} {line.said.heading}{kept}{colon}"


def _cut(id_: str, width: int | None) -> str:
    return id_ if width is None or len(id_) <= width else f"{id_[:width]}…"
