"""The frame of a snapshot: a magic number, the format of the state and a checksum, verified before anything is parsed.

The bytes are the magic number, the format as an unsigned 32-bit integer (little-endian), a 16-byte BLAKE2b digest and
the payload. The digest covers everything else, and the log position that is stored beside the snapshot.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

from rankloop.errors import RankloopError
from rankloop.eventlog.store import Snapshot

MAGIC = b"\x93RANKLP\n"
STATE_FORMAT = 1
"""Version of what a state means. Raise it when a number in the state of a ranker means something else than before, or
when a fix of the learning makes what was learned before wrong: every ranker then replays its log once. A change of the
arrays themselves needs no new number, since each snapshot is compared with the arrays of its policy; rounding needs
none either, see `math.numerics`. `tests/test_snapshots.py` fails where a state changes and this number does not."""
UNFRAMED = b"PK\x03\x04"
"""How snapshots without a frame begin, which earlier versions wrote."""
HEAD = struct.Struct("<8sI16s")


class UnusableSnapshot(RankloopError):
    """A snapshot cannot be used, so the whole log is replayed; `damaged` tells damage from another configuration."""

    def __init__(self, reason: str, *, damaged: bool = False) -> None:
        super().__init__(reason)
        self.damaged = damaged


def framed(position: int, payload: bytes) -> Snapshot:
    """Return a snapshot of these bytes."""
    digest = _digest(STATE_FORMAT, position, payload)
    return Snapshot(position, HEAD.pack(MAGIC, STATE_FORMAT, digest) + payload)


def payload_of(snapshot: Snapshot) -> bytes:
    """Return the bytes in the frame, or raise `UnusableSnapshot`."""
    body = bytes(snapshot.body)
    if body.startswith(UNFRAMED):
        raise UnusableSnapshot("an earlier version wrote it, without a checksum")
    if len(body) < HEAD.size:
        raise UnusableSnapshot(f"it is damaged: {len(body)} bytes are too few", damaged=True)
    magic, state_format, digest = HEAD.unpack_from(body)
    payload = body[HEAD.size :]
    if magic != MAGIC or digest != _digest(state_format, snapshot.position, payload):
        raise UnusableSnapshot("it is damaged: its checksum does not match", damaged=True)
    if state_format != STATE_FORMAT:
        raise UnusableSnapshot(f"it has state format {state_format}, and this version uses {STATE_FORMAT}")
    return payload


def _digest(state_format: int, position: int, payload: bytes) -> bytes:
    digest = blake2b(MAGIC, digest_size=16)
    digest.update(struct.pack("<Iq", state_format, position))
    digest.update(payload)
    return digest.digest()
