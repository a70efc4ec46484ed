"""Random streams: every number's origin is a path from the seed, so order and processes do not matter."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

import numpy as np

_SHARED, _REPLICATION, _VISITORS, _POLICY = range(4)


def shared(seed: int) -> np.random.Generator:
    """For what all replications of a run share."""
    return _stream(seed, _SHARED)


def replication(seed: int, index: int) -> np.random.Generator:
    """For the parameters of one replication's world."""
    return _stream(seed, _REPLICATION, index)


def visitors(seed: int, chunk: int) -> np.random.Generator:
    """For the visitors of one chunk of replications: the same for every policy."""
    return _stream(seed, _VISITORS, chunk)


def policy(seed: int, chunk: int, id: str, params: Mapping[str, object]) -> np.random.Generator:
    """For a policy's own draws; it depends on what the policy is, not on its place in a list."""
    name = zlib.crc32(json.dumps([id, params], sort_keys=True, default=lambda value: type(value).__name__).encode())
    return _stream(seed, _POLICY, chunk, name)


def _stream(seed: int, *path: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=path)))
