"""Erase visitors in a Parquet file that `rankloop log export` wrote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.eventlog import export
from rankloop.eventlog.erasure.context_fields import ContextErasure
from rankloop.eventlog.erasure.tombstones import Erasure, id_without
from rankloop.files import replace_file, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa


def erase(path: Path, visitors: Collection[str]) -> Erasure:
    """Replace visitors by null, and ids of decisions that contain their visitor's id by new ones.

    The file is replaced as a whole or not at all, and stays as it is if it has no decision of the visitors.
    """
    export.check(path)
    import pyarrow.parquet as pq

    rows = _ErasedRows(frozenset(visitors))
    with pq.ParquetFile(path) as file:

        def write(temporary: Path) -> None:
            temporary.touch(mode=0o600)
            with pq.ParquetWriter(temporary, file.schema_arrow) as writer:
                for group in range(file.num_row_groups):
                    writer.write_table(rows.of(file.read_row_group(group)))
                writer.add_key_value_metadata({export.ITEMS_KEY: file.metadata.metadata[export.ITEMS_KEY]})
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            shutil.copymode(path, temporary)

        names = ("visitor", "context_fields")
        groups = (file.read_row_group(group, names) for group in range(file.num_row_groups))
        if sum(rows.note(*(table[name].to_pylist() for name in names)) for table in groups):
            replace_file(path, write)
            sync_folder(path.parent)
    return rows.done


class _ErasedRows:
    """Erases visitors in the rows of a file, one group of rows after the other."""

    def __init__(self, visitors: frozenset[str]) -> None:
        self.visitors, self.done, self._contexts = visitors, Erasure(), ContextErasure(visitors)
        self._ids: dict[str, str] = {}  # of the erased decisions, by the old id; a decision has a row for each slot

    def note(self, visitors: Sequence[str | None], contexts: Sequence[str | None]) -> int:
        """Note the contexts of a group of rows; return how many of them are to be erased."""
        for row in zip(visitors, contexts, strict=True):
            self._contexts.note(*row)
        return sum(visitor in self.visitors for visitor in visitors)

    def of(self, table: pa.Table) -> pa.Table:
        """Return the rows without the visitors."""
        import pyarrow as pa

        columns = {name: table[name].to_pylist() for name in ("visitor", "decision", "time")}
        ids = [self._id(*row) for row in zip(*columns.values(), strict=True)]
        names = [None if name in self.visitors else name for name in columns["visitor"]]
        erased = [name in self.visitors for name in columns["visitor"]]
        contexts, items = (table[name].to_pylist() for name in ("context_fields", "item_fields"))
        contexts = [self._contexts.erased(one) if gone else one for one, gone in zip(contexts, erased, strict=True)]
        items = [None if gone else one for one, gone in zip(items, erased, strict=True)]
        changed = {"visitor": names, "decision": ids, "context_fields": contexts, "item_fields": items}
        for column, values in changed.items():
            table = table.set_column(table.schema.get_field_index(column), column, pa.array(values, pa.string()))
        return table

    def _id(self, visitor: str | None, decision: str, time: float) -> str:
        if visitor is None or visitor not in self.visitors:
            return decision
        if decision not in self._ids:
            self._ids[decision] = id_without(visitor, decision, time)
            self.done.decisions += 1
            self.done.visitors.add(visitor)
            self.done.renamed += self._ids[decision] != decision
        return self._ids[decision]
