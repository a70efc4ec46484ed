"""Positions of fields and categories by their hash, the same in every process and on every machine."""

from __future__ import annotations

from hashlib import blake2b


def text_hash(*parts: str) -> int:
    """Return a number from 0 to 2^64 - 1 that depends on the texts alone; ("a", "b") and ("ab",) differ."""
    hashed = blake2b(digest_size=8)
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        hashed.update(len(text).to_bytes(8, "little"))
        hashed.update(text)
    return int.from_bytes(hashed.digest(), "little")
