"""Access control: API keys with roles, stored as salted hashes, tokens that keys issue, and a rate limit for each."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, get_args

from rankloop.schema.api_key import ApiKey, Role
from rankloop.schema.service_settings import ServiceSettings, is_loopback
from rankloop.service.access.tokens import TOKEN_PREFIX, TOKEN_ROLES, SignedTokens
from rankloop.service.problems import RETRY, RequestRefused

MAX_CACHED_KEYS = 1000
"""Number of keys whose hash is not computed again."""
MAX_BUCKETS = 10_000
"""Callers with a bucket of the rate limit, beyond which full buckets are discarded."""
ANONYMOUS = ""
"""Name under which requests without a valid key are counted for the rate limit."""
ALL_ROLES = frozenset(get_args(Role))
ISSUES_TOKENS = "rank and feedback"
"""Permission of the keys that have both roles: to issue tokens, which have both."""
BEARER = {"WWW-Authenticate": "Bearer"}
TOKEN_HEADER = b"bearer " + TOKEN_PREFIX
Headers = Mapping[bytes, bytes]


def key_hash(salt: str, key: str) -> str:
    """Return the hash of a key that is stored. A key is random and long, so one round is enough."""
    return hashlib.sha256((salt + key).encode()).hexdigest()


def make_key(name: str, roles: Sequence[str], expires: str | None = None) -> tuple[str, dict[str, object]]:
    """Return a new key, and its entry for the settings."""
    key, salt = f"rl_{secrets.token_urlsafe(32)}", secrets.token_hex(16)
    entry: dict[str, object] = {"name": name, "roles": sorted(roles), "salt": salt, "sha256": key_hash(salt, key)}
    return key, entry if expires is None else entry | {"expires": expires}


class RateLimit:
    """A token bucket for each caller: `rate` requests per second, with bursts of one second's requests."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic, caller: str = "key") -> None:
        self._rate, self._burst, self._clock, self._caller = rate, max(1.0, rate), clock, caller
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and the time at which they were counted
        self._discard_at = MAX_BUCKETS

    def spend(self, caller: str) -> None:
        """Take one token of a caller; refuse the request with 429 if none is left."""
        now = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= self._discard_at:
                self._discard_full(now)
            bucket = self._burst, now
        tokens = min(self._burst, bucket[0] + (now - bucket[1]) * self._rate)
        if tokens < 1.0:
            self._buckets[caller] = (tokens, now)
            accepted = f"accepted: {self._rate:g} requests per second for each {self._caller}."
            raise RequestRefused(429, accepted, headers=RETRY)
        self._buckets[caller] = (tokens - 1.0, now)

    def _discard_full(self, now: float) -> None:
        """Forget the callers whose bucket is full again: they are treated as new ones."""
        self._buckets = {
            caller: bucket
            for caller, bucket in self._buckets.items()
            if bucket[0] + (now - bucket[1]) * self._rate < self._burst
        }
        self._discard_at = max(MAX_BUCKETS, 2 * len(self._buckets))


class KnownKey(NamedTuple):
    """A configured key: its id in tokens, its name, what it may do, and the time from which on it is refused."""

    id: str
    name: str
    roles: frozenset[str]
    expires_at: float


class KnownKeys(NamedTuple):
    """The configured keys, the keys by the id that tokens have of them, and a cache of the keys that were sent."""

    stored: tuple[ApiKey, ...]
    by_id: dict[str, KnownKey]
    sent: dict[bytes, KnownKey]  # by keyed hash

    @classmethod
    def of(cls, keys: Sequence[ApiKey]) -> KnownKeys:
        """Return keys with an empty cache."""
        return cls(tuple(keys), {key.id: key for key in map(_known, keys)}, {})


class AccessControl:
    """Admits requests by key, role and rate; without configured keys, only requests of this machine."""

    def __init__(self, settings: ServiceSettings, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._open, self._clock = KnownKeys.of(settings.keys), settings.is_open, clock
        self._rate = RateLimit(settings.limits.rate)
        self._token_rate = RateLimit(settings.limits.token_rate, caller="token")
        self.tokens = SignedTokens(settings.token_secret, clock)
        self._secret = secrets.token_bytes(32)

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """The configured keys."""
        return self._keys.stored

    def use_keys(self, keys: Sequence[ApiKey]) -> None:
        """Replace the keys; a service that has had keys stays closed when the last one is revoked."""
        self._keys, self._open = KnownKeys.of(keys), self._open and not keys  # with a new cache

    def admit(self, headers: Headers, role: str, ranker: str | None = None) -> str | None:
        """Return the name of the caller's key, None if keys are not configured; refuse with 401, 403 or 429.

        Args:
            headers: of the request.
            role: that the request needs.
            ranker: name of the ranker that it is about; None admits no tokens.
        """
        if self._open:
            self._rate.spend(ANONYMOUS)
            _require_loopback_host(headers)
            return None
        header = headers.get(b"authorization")
        if header is not None and header[: len(TOKEN_HEADER)].lower() == TOKEN_HEADER:
            return self._admit_token(header, role, ranker)
        key = self._find(header)
        self._rate.spend(ANONYMOUS if key is None else key.name)
        if key is None:
            raise _no_key()
        if role not in key.roles:
            raise RequestRefused(403, f"this key may not do that: the role {role} is needed.", by=key.name)
        return key.name

    def issuer(self, headers: Headers) -> str:
        """Return the id that a token has of the key of an admitted request."""
        key = None if self._open else self._find(headers.get(b"authorization"))
        return "" if key is None else key.id

    def _admit_token(self, header: bytes, role: str, ranker: str | None) -> str:
        """Admit the requests of one ranker's visitors, for as long as the key that issued the token is valid."""
        try:
            token = self.tokens.read(header[len(TOKEN_HEADER) :])
        except RequestRefused:
            self._rate.spend(ANONYMOUS)
            raise
        key = self._keys.by_id.get(token.issuer)
        if key is None or self._clock() >= key.expires_at:
            self._rate.spend(ANONYMOUS)
            raise RequestRefused(401, "the API key that issued this token is not valid any more.", headers=BEARER)
        self._token_rate.spend(token.id)
        self._rate.spend(f"tokens of {key.name}")
        if role not in TOKEN_ROLES & key.roles:
            raise RequestRefused(403, "a token may not do that: an API key is needed.", by=key.name)
        if ranker != token.ranker:
            raise RequestRefused(403, "this token is valid for another ranker.", by=key.name)
        return key.name

    def _find(self, header: bytes | None) -> KnownKey | None:
        """Return the key of a header, None if there is none; refuse an expired one."""
        scheme, _, sent = (header or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not 0 < len(sent) <= 1000:
            return None
        keys = self._keys  # once, since another thread may replace them
        fingerprint = hashlib.blake2b(sent, key=self._secret).digest()
        match = keys.sent.get(fingerprint)
        if match is None:
            text = sent.strip().decode("latin-1")
            for key in keys.stored:  # compare with all of them, so that the duration reveals nothing
                if hmac.compare_digest(key_hash(key.salt, text), key.sha256.lower()):
                    match = keys.by_id[_known(key).id]
            if match is not None and len(keys.sent) < MAX_CACHED_KEYS:
                keys.sent[fingerprint] = match
        if match is not None and self._clock() >= match.expires_at:
            self._rate.spend(ANONYMOUS)
            raise RequestRefused(401, "this API key has expired; ask for a new one.", headers=BEARER, by=match.name)
        return match


def _no_key() -> RequestRefused:
    detail = "an API key is needed: send the header 'Authorization: Bearer KEY' with a key of this service."
    return RequestRefused(401, detail, headers=BEARER)


def _known(key: ApiKey) -> KnownKey:
    id = hashlib.sha256(f"issuer {key.salt} {key.sha256}".encode()).hexdigest()[:16]  # tokens show it to everybody
    roles = ALL_ROLES if "admin" in key.roles else frozenset[str](key.roles)
    return KnownKey(id, key.name, roles | {ISSUES_TOKENS} if roles >= TOKEN_ROLES else roles, key.expires_at)


def _require_loopback_host(headers: Headers) -> None:
    """Refuse other host names: without keys, a web page could otherwise reach the service by DNS rebinding."""
    if not _is_loopback_host(headers.get(b"host", b"localhost")):
        raise RequestRefused(403, "without API keys the service answers to localhost only.")


@lru_cache(maxsize=100)
def _is_loopback_host(header: bytes) -> bool:
    host = header.decode("latin-1")
    return is_loopback(host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0])
