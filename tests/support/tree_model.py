"""States, and states kept as trees, as plain values: what the stores are to agree with."""

from typing import NamedTuple

from builders import said, snapshot
from durably import StateSnapshot

__all__ = ["Kept", "KeptTree"]


def _migrated(saved: StateSnapshot) -> StateSnapshot:
    """Return what the step of the test makes of a snapshot: version 2, in capitals."""
    if saved.version == 2:
        return saved
    texts = [one.content.upper() for one in saved.messages]
    return saved.replace(version=2, messages=said(*texts), extra={"was": saved.version})


class Kept:
    """A state: the last snapshot, and when it was first and last saved."""

    def __init__(self, now):
        self.created_at = now
        self.updated_at = now
        self.saved = None

    def save(self, saved, now):
        self.saved = saved
        self.updated_at = now
        return True

    def load(self):
        return self.saved

    def migrated(self):
        return _migrated(self.saved)


class _Said(NamedTuple):
    """A message of a conversation, and the node after which another one may go on."""

    text: str
    end: int | None


class KeptTree:
    """A state kept as a tree: nodes are numbers, in the order in which they were stored."""

    def __init__(self, now):
        self.created_at = now
        self.updated_at = now
        self.nodes = []  # parent, kind, what it holds
        self.leaf = None

    def add(self, kind, what, now, *, parent):
        self.nodes.append((parent, kind, what))
        self.leaf = len(self.nodes) - 1
        self.updated_at = now

    def branch(self, node, now):
        self.leaf = node
        self.updated_at = now

    def path(self, leaf):
        found = []
        while leaf is not None:
            found.insert(0, leaf)
            leaf = self.nodes[leaf][0]
        return found

    def conversation(self, leaf):
        path = self.path(leaf)
        at = max(
            (n for n, node in enumerate(path) if self.nodes[node][1] == "compaction"), default=-1
        )
        if at < 0:
            return self._said(path)
        summary, kept = self.nodes[path[at]][2]
        begun = [summary]
        if kept is not None:
            begun += [one.text for one in self._said(path[path.index(kept) : at])]
        ends = [None] * (len(begun) - 1) + [path[at]]
        return [*map(_Said, begun, ends), *self._said(path[at + 1 :])]

    def _said(self, path):
        return [
            _Said(self.nodes[node][2], node) for node in path if self.nodes[node][1] == "message"
        ]

    def texts(self, leaf):
        return [one.text for one in self.conversation(leaf)]

    def load(self):
        """Return the conversation at the leaf, with what was saved last on its path beside it."""
        states = self._states()
        base = states[-1] if states else snapshot()
        return base.replace(messages=said(*self.texts(self.leaf)))

    def migrated(self):
        """Return it at version 2, which is that of a conversation nothing was saved beside."""
        return _migrated(self.load()) if self._states() else self.load().replace(version=2)

    def _states(self):
        states = [self.nodes[node][2] for node in self.path(self.leaf)]
        return [one for one in states if isinstance(one, StateSnapshot)]

    def save(self, saved, now):
        """Store what the path does not share with a snapshot; say whether there was anything."""
        texts = [one.content for one in saved.messages]
        rest = saved.replace(messages=())
        known = self.conversation(self.leaf)
        shared = 0
        while shared < min(len(known), len(texts)) and known[shared].text == texts[shared]:
            shared += 1
        is_there = self.leaf is not None and self.nodes[self.leaf][2] == rest
        if is_there and shared == len(known) == len(texts):
            return False
        while 0 < shared < len(known) and known[shared - 1].end is None:
            shared -= 1
        parent = self.leaf
        if shared < len(known):
            parent = known[shared - 1].end if shared else None
        for text in texts[shared:]:
            self.add("message", text, now, parent=parent)
            parent = self.leaf
        self.add("custom", rest, now, parent=parent)
        return True
