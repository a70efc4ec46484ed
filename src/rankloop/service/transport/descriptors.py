"""How many connections the process can hold: file descriptors are shared with the log, and running out stops both."""

from __future__ import annotations

from rankloop.schema.connection_settings import ConnectionSettings

try:
    import resource
except ImportError:  # there is no such limit on Windows
    resource = None  # type: ignore[assignment]


def connection_limit(settings: ConnectionSettings, descriptors: int | None) -> int:
    """Return how many connections may be open in a process that may open so many files.

    uvloop accepts one connection in each iteration of the event loop, so that one of them is closed before the next one
    is accepted, and the reserve stays free.

    Args:
        settings: the limit of connections, and the descriptors to keep free for other files.
        descriptors: number of files that may be open, None if there is no limit.
    """
    if descriptors is None:
        return settings.total
    # A quarter is used in any case: a service that accepts no connection would be of no use.
    return min(settings.total, max(1, descriptors // 4, descriptors - settings.reserve))


def open_files() -> int | None:
    """Return how many files this process may open, None if there is no limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
