"""`connect`: one interface to rankers in memory, in a file, in a database or behind a service."""

from __future__ import annotations

from pathlib import Path

from rankloop.connection.base import Connection

__all__ = ["Connection", "connect"]


def connect(address: str | Path = ":memory:", *, key: str | None = None, timeout: float = 10.0) -> Connection:
    """Return a connection to the rankers at an address; their state is stored when the connection is closed.

    Args:
        address: `:memory:` (not stored), the path of an SQLite file, `postgresql://…`, or `http://…` of a service.
        key: API key, if a service requires one.
        timeout: seconds to wait for a response of a service.

    >>> with connect() as shop:
    ...     teas = shop.put_ranker("teas", policy="cascade-ucb1", slots=2)
    ...     shop.put_items("teas", [{"id": "green"}, {"id": "black"}, {"id": "white"}])
    ...     ranking = shop.rank("teas", k=2)
    ...     shop.feedback("teas", ranking.id, clicked=[0]).status
    'learned'
    """
    if str(address).startswith(("http://", "https://")):
        from rankloop.client import Client

        return Client(str(address), key, timeout=timeout)
    from rankloop.connection.local import LocalConnection

    return LocalConnection(str(address))
