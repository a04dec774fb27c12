"""Tags of the query `guests` (docs/queries.md): checksums of contents, by which a reader knows whether it has them.

The core makes them of its state, and the reader of the rows that it has read. So the tag of rows that were read while
they changed is that of no state, and they are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

NODE_FIELDS: Final = ("id", "attributes", "capacity", "occupied", "status")
TAG_BYTES: Final = 16


def tag_of_nodes(rows: Iterable[Mapping[str, Any]]) -> str:
    """A tag of the NODE_FIELDS of all rows: allocations on the nodes do not change it."""
    return _tag(sorted([row[name] for name in NODE_FIELDS] for row in rows))


def tag_of_application(asks: Iterable[tuple[str, str]], allocations: Iterable[tuple[str, str, str, bool]]) -> str:
    """`asks`: each with its key and the node to which it is bound. `allocations`: each with its UUID, its key, its node
    and whether it is being released."""
    return _tag([sorted(asks), sorted(allocations)])


def _tag(content: Any) -> str:
    return blake2b(msgspec.json.encode(content), digest_size=TAG_BYTES).hexdigest()
