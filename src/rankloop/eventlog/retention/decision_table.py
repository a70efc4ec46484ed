"""Parquet files of decisions and their outcomes, with the columns of an exported log."""

from __future__ import annotations

from pathlib import Path

from rankloop.eventlog import export
from rankloop.eventlog.settled_decisions import SettledDecision


class DecisionWriter:
    """Writes decisions with the columns of an exported log, without the item changes that an import needs.

    Args:
        path: the file to write.
    """

    def __init__(self, path: Path) -> None:
        self._pa, pq = export.arrow()
        self._writer = pq.ParquetWriter(path, export.schema(self._pa), compression="zstd")
        self._waiting: list[SettledDecision] = []

    def add(self, decision: SettledDecision) -> None:
        """Add a decision."""
        self._waiting.append(decision)
        if len(self._waiting) == export.CHUNK_DECISIONS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(export.table(self._pa, self._waiting))
            self._waiting.clear()

    def close(self) -> None:
        """Write the rest and complete the file; a second call does nothing."""
        self._write()
        self._writer.close()
