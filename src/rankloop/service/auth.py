"""Access control: API keys with roles, stored as salted hashes, and a rate limit for each key."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from rankloop.schema.service_settings import ApiKey, ServiceSettings, is_loopback
from rankloop.service.problems import RETRY, RequestRefused

MAX_CACHED_KEYS = 1000
"""Number of keys whose hash is not computed again."""
ANONYMOUS = ""
"""Name under which requests without a valid key are counted for the rate limit."""
Headers = Mapping[bytes, bytes]


def key_hash(salt: str, key: str) -> str:
    """Return the hash of a key that is stored. A key is random and long, so one round is enough."""
    return hashlib.sha256((salt + key).encode()).hexdigest()


def make_key(name: str, roles: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return a new key, and its entry for the settings."""
    key, salt = f"rl_{secrets.token_urlsafe(32)}", secrets.token_hex(16)
    return key, {"name": name, "roles": sorted(roles), "salt": salt, "sha256": key_hash(salt, key)}


class RateLimit:
    """A token bucket for each caller: `rate` requests per second, with bursts of one second's requests."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, max(1.0, rate), clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and the time at which they were counted

    def spend(self, caller: str) -> None:
        """Take one token of a caller; refuse the request with 429 if none is left."""
        now = self._clock()
        tokens, counted_at = self._buckets.get(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted_at) * self._rate)
        if tokens < 1.0:
            self._buckets[caller] = (tokens, now)
            raise RequestRefused(429, f"accepted: {self._rate:g} requests per second for each key.", headers=RETRY)
        self._buckets[caller] = (tokens - 1.0, now)


class AccessControl:
    """Admits requests by key, role and rate; without configured keys, only requests of this machine."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._keys, self._open = settings.keys, settings.is_open
        self._rate = RateLimit(settings.limits.rate)
        self._secret = secrets.token_bytes(32)
        self._cached: dict[bytes, ApiKey] = {}  # by keyed hash of the header's key

    def admit(self, headers: Headers, role: str) -> str | None:
        """Return the name of the caller's key, None if keys are not configured; refuse with 401, 403 or 429."""
        if self._open:
            self._rate.spend(ANONYMOUS)
            _require_loopback_host(headers)
            return None
        key = self._find(headers.get(b"authorization"))
        self._rate.spend(ANONYMOUS if key is None else key.name)
        if key is None:
            detail = "an API key is needed: send the header 'Authorization: Bearer KEY' with a key of this service."
            raise RequestRefused(401, detail, headers={"WWW-Authenticate": "Bearer"})
        if role not in key.roles and "admin" not in key.roles:
            raise RequestRefused(403, f"this key may not do that: the role {role} is needed.")
        return key.name

    def _find(self, header: bytes | None) -> ApiKey | None:
        scheme, _, sent = (header or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not 0 < len(sent) <= 1000:
            return None
        fingerprint = hashlib.blake2b(sent, key=self._secret).digest()
        if fingerprint in self._cached:
            return self._cached[fingerprint]
        text, match = sent.strip().decode("latin-1"), None
        for key in self._keys:  # compare with all of them, so that the duration reveals nothing
            if hmac.compare_digest(key_hash(key.salt, text), key.sha256.lower()):
                match = key
        if match is not None and len(self._cached) < MAX_CACHED_KEYS:
            self._cached[fingerprint] = match
        return match


def _require_loopback_host(headers: Headers) -> None:
    """Refuse other host names: without keys, a web page could otherwise reach the service by DNS rebinding."""
    if not _is_loopback_host(headers.get(b"host", b"localhost")):
        raise RequestRefused(403, "without API keys the service answers to localhost only.")


@lru_cache(maxsize=100)
def _is_loopback_host(header: bytes) -> bool:
    host = header.decode("latin-1")
    return is_loopback(host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0])
