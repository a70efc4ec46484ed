"""Vocabularies: which column of a dense row, or which coefficient of a sparse one, a category or tag has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rankloop.features.hashing import text_hash

CACHED_TEXTS = 2**16
"""Texts of a field whose hash is kept; when there are more, the cache starts again."""


class Vocabulary(Protocol):
    """Where a text goes; None, the missing value, goes to -1, nowhere, until some value is known."""

    def __getitem__(self, text: str | None) -> int:
        """Return the column or coefficient of a text; any text has one."""

    def learn(self, texts: Iterable[str]) -> None:
        """Note texts that are new, in their order."""

    def know_missing(self) -> None:
        """Let missing values have their own column or coefficient from now on."""

    @property
    def size(self) -> int:
        """Number of texts with a column of their own."""

    def learned(self) -> list[str]:
        """Return the texts with a column of their own, in its order."""


class OwnColumns(dict[str | None, int]):
    """The first `own` texts have columns of their own; others share `shared` columns; then one for missing values."""

    def __init__(self, field: str, own: int, shared: int) -> None:
        super().__init__({None: -1})
        self._field, self._own, self._shared = field, own, shared
        self._cache: dict[str | None, int] = {}

    def __missing__(self, text: str) -> int:
        found = self._cache.get(text)
        return (
            _cached(self._cache, text, self._own + text_hash(self._field, text) % self._shared)
            if found is None
            else found
        )

    def learn(self, texts: Iterable[str]) -> None:
        """Give new texts the next columns, while there are any."""
        for text in texts:
            if len(self) > self._own:  # None is one of the keys
                return
            if text not in self:
                self[text] = len(self) - 1

    def know_missing(self) -> None:
        """Give missing values the last column."""
        self[None] = self._own + self._shared

    @property
    def size(self) -> int:
        """Number of texts with a column of their own."""
        return len(self) - 1

    def learned(self) -> list[str]:
        """Return the texts with a column of their own, in its order."""
        return [text for text in self if text is not None]


class HashedColumns(dict[str | None, int]):
    """Every text has the coefficient of its hash."""

    def __init__(self, field: str, missing: int, coefficients: int) -> None:
        super().__init__({None: -1})
        self._field, self._missing, self._mask = field, missing, coefficients - 1

    def __missing__(self, text: str) -> int:
        if len(self) > CACHED_TEXTS:
            missing = self[None]
            self.clear()
            self[None] = missing
        at = self[text] = text_hash(self._field, "is", text) & self._mask
        return at

    def learn(self, texts: Iterable[str]) -> None:
        """Do nothing: a hash is never learned."""

    def know_missing(self) -> None:
        """Give missing values their coefficient."""
        self[None] = self._missing

    @property
    def size(self) -> int:
        """No text has a column of its own."""
        return 0

    def learned(self) -> list[str]:
        """Return no text."""
        return []


def _cached(cache: dict[str | None, int], text: str, at: int) -> int:
    if len(cache) >= CACHED_TEXTS:
        cache.clear()
    cache[text] = at
    return at
