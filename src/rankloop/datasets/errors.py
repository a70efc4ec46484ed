"""Errors about data files."""

from __future__ import annotations

from rankloop.errors import RankloopError


class MissingData(RankloopError):
    """A data set or one of its files is missing."""


class BadData(RankloopError):
    """A file is damaged, truncated or of another kind."""
