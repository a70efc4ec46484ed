"""One interface to rankers, in memory, in a file, in a database or behind a service."""

from __future__ import annotations

from pathlib import Path

from rankloop.connection.base import Connection

__all__ = ["Connection", "connect"]


def connect(place: str | Path = ":memory:", *, key: str | None = None, timeout: float = 10.0) -> Connection:
    """The rankers at a place; they are there until the connection is closed, and what they learned stays.

    Args:
        place: `:memory:`, which forgets; the path of an SQLite file; `postgresql://…`; or `http://…`, a service.
        key: an API key, where a service needs one.
        timeout: seconds to wait for an answer of a service.

    >>> with connect() as shop:
    ...     made = shop.put_ranker("teas", policy="cascade-ucb1", slots=2)
    ...     shop.put_items("teas", [{"id": "green"}, {"id": "black"}, {"id": "white"}])
    ...     ranking = shop.rank("teas", k=2)
    ...     shop.feedback("teas", ranking.id, clicked=[0]).status
    'learned'
    """
    if str(place).startswith(("http://", "https://")):
        from rankloop.client import Client

        return Client(str(place), key, timeout=timeout)
    from rankloop.connection.local import Local

    return Local(str(place))
