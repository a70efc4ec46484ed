"""What can be wrong with data files."""

from __future__ import annotations

from rankloop.errors import RankloopError


class MissingData(RankloopError):
    """A data set, or a file of one, is not where it was looked for."""


class BadData(RankloopError):
    """A file is damaged, cut short, or not what its name says."""
