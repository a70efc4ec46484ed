"""Refuses requests that a browser sends for the page of another site, and requests to other host names.

A page may send some requests anywhere without asking: forms, and requests without unusual headers. So a request that
changes something needs a header that such a request cannot have, and an origin that is the service's own or allowed.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import Scope

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.problems import RequestRefused

CHANGING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
BROWSER_HEADERS = frozenset({b"origin", b"sec-fetch-site"})
"""Headers by which a browser says for whom it sends a request."""
UNUSUAL_MEDIA = ([b"application/json"], [b"application/x-ndjson"], [b"application/vnd.apache.arrow.stream"])
"""Values of Content-Type that forms cannot send."""
MARK = "X-Rankloop-Request"
"""A header that forms cannot send, for requests without a body; its value does not matter."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that answer under any host name: probes address a machine."""


class CrossSiteGuard:
    """Decides from the headers of a request whether its host and its origin are allowed."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._hosts = frozenset(host.lower().encode() for host in settings.hosts)
        self._origins = frozenset(origin.lower().encode() for origin in settings.cors_origins)
        self.checks_hosts = bool(self._hosts)

    def refusal(self, scope: Scope) -> RequestRefused | None:
        """Return the reason for which a request is refused, None if it is not."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
            return RequestRefused(400, f"accepted: exactly one Host header; the request has {len(hosts)}.")
        host = hosts[0].strip().lower() if hosts else b""
        if self._hosts and _name(host) not in self._hosts and scope["path"] not in PROBES:
            return RequestRefused(403, "the service does not answer to this host name; the setting hosts allows names.")
        if scope["method"] not in CHANGING_METHODS:
            return None
        origin, site = headers.get(b"origin", []), headers.get(b"sec-fetch-site", [])
        if not self._is_allowed([one.strip().lower() for one in origin], site, host):
            return RequestRefused(
                403,
                "a web page of another origin may not change anything here; the setting cors_origins allows origins.",
            )
        media = [one.partition(b";")[0].strip().lower() for one in headers.get(b"content-type", [])]
        if media not in UNUSUAL_MEDIA and MARK.lower().encode() not in headers:
            return RequestRefused(
                415, f"accepted: the header 'Content-Type: application/json', or '{MARK}: 1' without a body."
            )
        return None

    def _is_allowed(self, origins: Collection[bytes], sites: Collection[bytes], host: bytes) -> bool:
        """Return whether a browser sends the request for a page of this service or of an allowed origin."""
        if not origins:
            return all(site in (b"same-origin", b"none") for site in sites)
        if len(origins) > 1:
            return False
        (origin,) = origins
        scheme, _, authority = origin.partition(b"://")
        if scheme not in (b"http", b"https"):  # among them `null`, the origin of sandboxed pages and of files
            return False
        return (authority == host and host != b"") or origin in self._origins or b"*" in self._origins


def _name(host: bytes) -> bytes:
    """Return the host of a Host header, without its port."""
    return host.rpartition(b"]")[0] + b"]" if host.startswith(b"[") else host.partition(b":")[0]
