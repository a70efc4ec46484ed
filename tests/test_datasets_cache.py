"""The cache: made once, made again when anything changed or broke, never half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import cut, write
from rankloop.datasets import Cache, MissingData, cache, fingerprint
from rankloop.errors import InvalidInput

KEY = {"dim": 10, "seed": 1, "scale": 0.5, "items": np.arange(3), "input": "12-ab", "nested": {"a": [1, 2]}}


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"x": np.arange(6.0).reshape(2, 3), "n": np.array(7), "names": np.array(["a", "bc"])}


@pytest.fixture
def kept(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_arrays_are_made_once(kept: Cache) -> None:
    make = Maker()
    first, second = kept.get("x", KEY, make), kept.get("x", dict(reversed(KEY.items())), make)
    assert make.times == 1
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert array.dtype == second[name].dtype
    (file,) = kept.folder.iterdir()
    assert file == kept.path("x", KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 11},
        {"seed": 2},
        {"scale": 0.25},
        {"items": np.array([0, 2, 1])},
        {"items": np.arange(3.0)},
        {"items": np.arange(3)[None]},
        {"input": "12-ac"},
        {"nested": {"a": [2, 1]}},
        {"more": None},
    ],
)
def test_any_change_of_the_key_is_another_file(kept: Cache, change: dict[str, Any]) -> None:
    assert kept.path("x", KEY) != kept.path("x", KEY | change)
    assert kept.path("x", KEY) != kept.path("y", KEY)


def test_another_version_is_another_file(kept: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept.path("x", KEY)
    monkeypatch.setattr(cache, "__version__", "99")
    assert kept.path("x", KEY) != before


def test_numpy_numbers_are_numbers(kept: Cache) -> None:
    assert kept.path("x", {"dim": np.int64(3)}) == kept.path("x", {"dim": 3})
    with pytest.raises(InvalidInput, match="key"):
        kept.path("x", {"dim": object()})


@pytest.mark.parametrize("damage", [cut, lambda path: write(path, b""), lambda path: write(path, "no zip")])
def test_a_damaged_file_is_made_again(kept: Cache, damage: Callable[[Path], Path]) -> None:
    make = Maker()
    kept.get("x", KEY, make)
    damage(kept.path("x", KEY))
    np.testing.assert_array_equal(kept.get("x", KEY, make)["x"], np.arange(6.0).reshape(2, 3))
    assert make.times == 2
    kept.get("x", KEY, make)
    assert make.times == 2


def test_a_failure_leaves_no_file(kept: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.get("x", KEY, fail)
    assert not kept.folder.exists()
    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        kept.get("x", KEY, Maker())
    assert list(kept.folder.iterdir()) == []


def test_a_fingerprint_is_of_names_and_content(tmp_path: Path) -> None:
    a, b = write(tmp_path / "d" / "a", "1"), write(tmp_path / "d" / "e" / "b", "2")
    seen = {fingerprint(a), fingerprint(b), fingerprint(a, b), fingerprint(a.parent)}
    assert fingerprint(a) == fingerprint(write(tmp_path / "copy", "1"))
    assert fingerprint(a).startswith("1-")
    write(b, "3")
    seen |= {fingerprint(b), fingerprint(a, b), fingerprint(a.parent)}
    b.rename(b.with_name("c"))
    seen |= {fingerprint(a.parent)}
    assert len(seen) == 8
    with pytest.raises(MissingData, match="does not exist"):
        fingerprint(b)
