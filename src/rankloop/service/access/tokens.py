"""Short-lived signed tokens for browsers: one ranker, to rank and to report feedback, without an API key."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from rankloop.service.problems import RequestRefused

TOKEN_PREFIX = b"rlt_"
TOKEN_ROLES = frozenset({"rank", "feedback"})
"""What the bearer of a token may do, if the key that issued it may."""


class Claims(Struct, array_like=True, frozen=True):
    """What a token says: the ranker, the id of the issuing key, the expiry in seconds since 1970, and its own id."""

    ranker: str
    issuer: str
    expires_at: int
    id: str


class Token(Struct, frozen=True):
    """A new token and the time at which it expires."""

    text: str
    expires_at: int


class SignedTokens:
    """Issues and reads tokens `rlt_PAYLOAD.SIGNATURE`, signed by HMAC-SHA256.

    Args:
        secret: text that signs; None chooses a random one, and the tokens end with the process.
        clock: seconds since 1970.
    """

    def __init__(self, secret: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._secret = secrets.token_bytes(32) if secret is None else secret.encode()
        self._clock = clock
        self._decoder = msgspec.json.Decoder(Claims)

    def issue(self, ranker: str, issuer: str, seconds: int) -> Token:
        """Return a new token for a ranker."""
        expires_at = int(self._clock()) + seconds
        payload = _text(msgspec.json.encode(Claims(ranker, issuer, expires_at, secrets.token_hex(8))))
        return Token((TOKEN_PREFIX + payload + b"." + self._signature(payload)).decode(), expires_at)

    def read(self, sent: bytes) -> Claims:
        """Return what a token without its prefix says; refuse a forged or expired one with 401."""
        payload, _, signature = sent.strip().partition(b".")
        if not hmac.compare_digest(signature, self._signature(payload)):
            raise _refused("this token was not issued by this service, or before its last start; ask for a new one.")
        try:
            claims = self._decoder.decode(_bytes(payload))
        except (msgspec.DecodeError, binascii.Error):  # signed with this secret by another version
            raise _refused("this token has another format; ask for a new one.") from None
        if self._clock() >= claims.expires_at:
            raise _refused("this token has expired; ask for a new one.")
        return claims

    def _signature(self, payload: bytes) -> bytes:
        return _text(hmac.digest(self._secret, TOKEN_PREFIX + payload, "sha256"))


def _refused(detail: str) -> RequestRefused:
    return RequestRefused(401, detail, headers={"WWW-Authenticate": "Bearer"})


def _text(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def _bytes(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
