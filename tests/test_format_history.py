"""Logs of older formats open, replay and verify. `fixtures/format-2.db` was written by the last version of format 2.

`fixtures/format-4.db`, by `tools/golden_log.py`, is a pruned log without snapshots: nothing can replace its base
states, so every later version must be able to use them. `fixtures/format-4-archive` has every entry of the log.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.events import DecisionMade, EventSkipped, ItemsRemoved, decode
from rankloop.eventlog.format_history import RENAMED_KINDS, upgraded_settings
from rankloop.eventlog.process_lock import ProcessLock
from rankloop.eventlog.retention.import_archive import import_archive
from rankloop.hosting.change_history import change_history
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.verification import VerifiedLists, compare_snapshot, decide_again, last_settings

FORMAT_2 = Path(__file__).parent / "fixtures" / "format-2.db"
FORMAT_4 = FORMAT_2.with_name("format-4.db")
FORMAT_4_ARCHIVE = FORMAT_2.with_name("format-4-archive")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return Path(shutil.copy(FORMAT_2, tmp_path / "log.db"))


def test_a_log_of_format_2_goes_on_where_it_ended(log: Path) -> None:
    registry = RankerRegistry.open(ServiceSettings(log=str(log)))
    ranker = registry.ranker("shop")
    counts, overview = ranker.counts(), ranker.overview(hours=0.0)
    assert (counts["decisions"], counts["items"], counts["open_decisions"]) == (56, 5, 6)
    assert (overview.groups["control"].lists, overview.groups["treatment"].lists) == (19, 37)
    assert (overview.groups["treatment"].clicked, overview.withdrawn) == (13, 6)
    assert (ranker.config.policy, ranker.config.traffic, ranker.segments()) == ("cascade-ucb1", 0.7, {"", "de"})
    assert ranker.config.guardrail is not None
    assert ranker.config.guardrail.min_lists == 5000
    assert ranker.challenger is not None
    assert ranker.challenger.policy == "gts"
    assert overview.guardrail_tripped is None
    assert [label for _, label in ranker._replica.changes][:2] == [
        "guardrail tripped: by hand for the fixture",
        "guardrail reset: the fixture goes on",
    ]
    rows, _ = ranker.estimates("").rows(sort="item")
    assert {row.item: row.shown + row.control_shown for row in rows} == dict(
        zip([f"item-{i}" for i in range(5)], (33, 34, 42, 22, 18), strict=True)
    )
    ranking = ranker.rank(visitor="after the upgrade")
    assert ranker.feedback(ranking.id, clicked=[0]).status == "learned"
    assert [event.kind for event in change_history(registry.store, "shop").events].count("config") == 3
    registry.close()


def test_every_list_of_a_log_of_format_2_is_decided_again(log: Path) -> None:
    """From another machine's numerics the lists are equal within the stated tolerance."""
    store = SqliteStore(log)
    lists = decide_again(store, "shop")
    assert lists.differences == []
    assert lists.equal + lists.close == lists.decided > 30
    store.close()


def test_no_entry_of_a_migrated_log_has_an_old_kind(log: Path) -> None:
    store = SqliteStore(log)
    assert not {entry.kind for entry in store.read("shop")} & set(RENAMED_KINDS)
    assert store.find("shop", "feedback", "e1") is not None
    store.close()


def test_a_log_of_format_2_that_is_being_served_is_not_migrated(log: Path) -> None:
    """Its process still looks entries up by their old kinds."""
    with ProcessLock(log), pytest.raises(RankloopError, match="is being served by another process"):
        SqliteStore(log)
    with closing(sqlite3.connect(log)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM log WHERE kind = 'shown'").fetchone() == (56,)
    SqliteStore(log).close()


def test_the_history_of_a_log_of_format_2_has_its_challengers(log: Path) -> None:
    store = SqliteStore(log)
    events = change_history(store, "shop").events
    assert [event.changed["policy"] for event in events if event.kind == "challenger" and event.changed] == [
        "cascade-ucb1",
        "gts",
    ]
    store.close()


def test_an_entry_with_an_old_kind_that_was_written_after_the_migration_is_still_read() -> None:
    put = ItemsRemoved(1.0, ("a",)).entry()
    skipped = EventSkipped(1.0, 7, "damaged").entry()
    assert decode(put) == ItemsRemoved(1.0, ("a",))
    assert decode(skipped._replace(kind="skip")) == EventSkipped(1.0, 7, "damaged")


def test_lists_of_format_3_with_a_bit_for_each_item_are_read_and_decided_again() -> None:
    """Naming all items of a full table as candidates decides the list that a mask of all of them decided."""
    store, older = MemoryStore(), MemoryStore()
    ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 3}), store=store)
    ids = [f"item-{i}" for i in range(16)]
    ranker.put_items([{"id": id} for id in ids])
    for _ in range(20):
        ranker.feedback(ranker.rank(candidates=ids).id, clicked=[0])
    ranker.flush()
    for entry in store.read("ranker"):
        event = decode(entry)
        if isinstance(event, DecisionMade):
            assert event.candidates is not None
            bits = np.packbits(np.isin(np.arange(16), event.candidates))
            entry = replace(event, candidates=None, allowed=bits).entry()._replace(position=entry.position)
        older.append([("ranker", entry._replace(body=entry.body.replace(b'"v":4', b'"v":3')))])
    found = decide_again(older, "ranker")
    assert (found.equal, found.decided) == (20, 20), found.differences[:2]
    again = Ranker(RankerConfig.of({"policy": "gts", "slots": 3}), store=older)
    first = next(e for entry in older.read("ranker") if isinstance(e := decode(entry), DecisionMade))
    assert again.history(first.id).candidates == ids


def test_settings_keep_all_but_the_old_names() -> None:
    assert upgraded_settings({"slots": 3}) == {"slots": 3}
    assert upgraded_settings({"slots": 3, "guard": None}) == {"slots": 3, "guardrail": None}
    old = {"guard": {"drop": 0.1, "error": 0.01, "least": 20}}
    assert upgraded_settings(old) == {"guardrail": {"drop": 0.1, "error": 0.01, "min_lists": 20}}


def decided_again(store: SqliteStore, log: str) -> VerifiedLists:
    """The lists of a log, all of which must come out again."""
    settings = last_settings(store, log)
    assert settings is not None
    finding = compare_snapshot(store, log, LoggedConfig.of(settings))
    assert (finding.differences, finding.unusable) == ([], ())
    lists = decide_again(store, log)
    assert lists.differences == []
    assert lists.equal + lists.close + lists.pruned == lists.decided
    return lists


def test_a_pruned_log_of_format_4_goes_on_from_its_base_states(tmp_path: Path) -> None:
    path = Path(shutil.copy(FORMAT_4, tmp_path / "log.db"))
    store = SqliteStore(path)
    cards, books = decided_again(store, "cards"), decided_again(store, "books")
    assert (cards.decided, cards.pruned, cards.control) == (31, 0, 9)
    assert (books.decided, books.pruned, books.control) == (15, 6, 47)
    store.close()


@pytest.mark.parametrize(
    ("name", "settings", "open_decisions", "clicked"),
    [
        (
            "cards",
            {"policy": "cascade-lin-ucb", "rounds": 1000, "window": 3600.0, "traffic": 0.7, "seed": 3, "dim": 2},
            0,
            21,
        ),
        ("books", {"window": 172800.0, "aggregate": "sum", "guardrail": {"drop": 0.5}, "traffic": 0.5}, 23, 5),
    ],
)
def test_a_pruned_ranker_of_format_4_serves(
    name: str, settings: dict[str, Any], open_decisions: int, clicked: int, tmp_path: Path
) -> None:
    path = Path(shutil.copy(FORMAT_4, tmp_path / "log.db"))
    ranker = Ranker.open(path, RankerConfig.of({"slots": 3, **settings}), name=name)
    counts, groups = ranker.counts(), ranker.overview(hours=0.0).groups
    assert (counts["items"], counts["decisions"], counts["open_decisions"]) == (8, 80, open_decisions)
    assert sum(group.lists for group in groups.values()) == 80
    assert groups["treatment"].clicked == clicked
    ranking = ranker.rank(visitor="after the upgrade")
    assert ranker.feedback(ranking.id, clicked=[0], final=True).status in ("learned", "ignored")
    ranker.close()


def test_an_archive_of_format_4_makes_the_whole_log_again(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "log.db")) as store:
        assert import_archive(FORMAT_4_ARCHIVE, store) == 335
        for log in ("cards", "books"):
            assert decided_again(store, log).pruned == 0
