"""``override`` for Python 3.11, whose ``typing`` has none."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):  # noqa: ANN001, ANN202 - the checker sees the real one
        """Mark a method as one of its base class; nothing happens at run time."""
        return method


__all__ = ["override"]
