"""Random streams: each is derived from the seed by a path, so results do not depend on order or processes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

import numpy as np

_SHARED, _REPLICATION, _VISITORS, _POLICY = range(4)


def shared(seed: int) -> np.random.Generator:
    """Return the stream for what all replications of a run share."""
    return _stream(seed, _SHARED)


def replication(seed: int, index: int) -> np.random.Generator:
    """Return the stream for the world parameters of one replication."""
    return _stream(seed, _REPLICATION, index)


def visitors(seed: int, chunk: int) -> np.random.Generator:
    """Return the stream for the visitors of one chunk: the same for every policy (common random numbers)."""
    return _stream(seed, _VISITORS, chunk)


def policy(seed: int, chunk: int, id: str, params: Mapping[str, object]) -> np.random.Generator:
    """Return the stream of a policy, which depends on its id and parameters, not on its index in a spec."""
    name = zlib.crc32(json.dumps([id, params], sort_keys=True, default=lambda value: type(value).__name__).encode())
    return _stream(seed, _POLICY, chunk, name)


def _stream(seed: int, *path: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=path)))
