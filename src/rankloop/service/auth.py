"""Who may do what, and how often: API keys with roles, kept as salted hashes; a rate for each."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from rankloop.schema.service_settings import ApiKey, ServiceSettings, is_loopback
from rankloop.service.problems import RequestRefused

REMEMBERED = 1000
"""Keys whose hash need not be computed again."""
NOBODY = ""
Headers = Mapping[bytes, bytes]


def hashed(salt: str, key: str) -> str:
    """What is kept of a key. It is random and long, so one round is enough."""
    return hashlib.sha256((salt + key).encode()).hexdigest()


def make_key(name: str, roles: Sequence[str]) -> tuple[str, dict[str, object]]:
    """A new key, and the settings that let it in."""
    key, salt = f"rl_{secrets.token_urlsafe(32)}", secrets.token_hex(16)
    return key, {"name": name, "roles": sorted(roles), "salt": salt, "sha256": hashed(salt, key)}


class RateLimit:
    """So many requests per second for each caller, with a second's worth at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = rate, max(1.0, rate), clock
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and when that was

    def spend(self, caller: str) -> None:
        """One request, or a refusal."""
        now = self._clock()
        left, then = self._left.get(caller, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        if left < 1.0:
            self._left[caller] = (left, now)
            raise RequestRefused(
                429, f"accepted: {self._rate:g} requests per second of one key.", headers={"Retry-After": "1"}
            )
        self._left[caller] = (left - 1.0, now)


class AccessControl:
    """Lets requests in."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._keys, self._open = settings.keys, settings.is_open
        self._rate = RateLimit(settings.limits.rate)
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, ApiKey] = {}

    def admit(self, headers: Headers, role: str) -> str | None:
        """The name of the caller's key, if keys are needed; 401, 403 without the role, 429 when it asks too often."""
        if self._open:
            self._rate.spend(NOBODY)
            _same_machine(headers)
            return None
        key = self._find(headers.get(b"authorization"))
        self._rate.spend(NOBODY if key is None else key.name)
        if key is None:
            told = "an API key is needed: send the header 'Authorization: Bearer KEY' with a key of this service."
            raise RequestRefused(401, told, headers={"WWW-Authenticate": "Bearer"})
        if role not in key.roles and "admin" not in key.roles:
            raise RequestRefused(403, f"this key may not do that: the role {role} is needed.")
        return key.name

    def _find(self, header: bytes | None) -> ApiKey | None:
        scheme, _, given = (header or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not 0 < len(given) <= 1000:
            return None
        print_ = hashlib.blake2b(given, key=self._secret).digest()
        if print_ in self._known:
            return self._known[print_]
        text, found = given.strip().decode("latin-1"), None
        for key in self._keys:  # all of them, so that the time tells nothing
            if hmac.compare_digest(hashed(key.salt, text), key.sha256.lower()):
                found = key
        if found is not None and len(self._known) < REMEMBERED:
            self._known[print_] = found
        return found


def _same_machine(headers: Headers) -> None:
    """Without keys, a page in a browser must not reach the service under a name that it made point here."""
    if not _names_this_machine(headers.get(b"host", b"localhost")):
        raise RequestRefused(403, "without API keys the service answers to localhost only.")


@lru_cache(maxsize=100)
def _names_this_machine(header: bytes) -> bool:
    host = header.decode("latin-1")
    return is_loopback(host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0])
