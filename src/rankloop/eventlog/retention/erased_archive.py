"""Erase visitors in an archive, as in the log that its entries make."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from rankloop.eventlog.erasure.tombstones import Erasure, erase
from rankloop.eventlog.retention.archive import archive
from rankloop.eventlog.retention.import_archive import existing_parts
from rankloop.eventlog.sqlite import SqliteStore


def erase_in_archive(folder: Path, visitors: Collection[str], time: float) -> Erasure:
    """Replace an archive by one without what identifies visitors, all of it or nothing; return what was erased.

    The entries are written to a temporary log next to the archive, which is several times as large.
    """
    former = folder.with_name(f"{folder.name}.former")
    if former.exists() and not folder.exists():
        former.rename(folder)  # an earlier run was interrupted here
    shutil.rmtree(former, ignore_errors=True)
    parts = existing_parts(folder)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent) as temporary:
        with closing(SqliteStore(Path(temporary) / "log.db")) as store:
            with store.rewriting() as rewriting:
                rewriting.insert(one for part in parts for one in part.read())
            done = erase(store, visitors, time)
            if not done.decisions:
                return done
            new = Path(temporary) / "archive"
            archive(store, new, float("inf"), until=parts[-1].about.last)
        folder.rename(former)
        new.rename(folder)
    shutil.rmtree(former)
    return done
