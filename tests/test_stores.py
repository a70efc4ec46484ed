"""Every store has the same behaviour; an exported log can be imported into another store."""

from __future__ import annotations

import argparse
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import rankloop.eventlog.postgres
import rankloop.eventlog.sqlite
from postgres_server import Server, database, server  # noqa: F401
from rankloop.cli import log
from rankloop.cli.log_verify import LogDiffers, NothingToVerify
from rankloop.errors import InvalidInput
from rankloop.eventlog import LogEntry, MemoryStore, SqliteStore, Store, export
from rankloop.eventlog.address import open_store
from rankloop.eventlog.store import Snapshot
from rankloop.serving import Ranker, RankerConfig
from test_ranker import Clock, config, contents, items, live

Opened = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """A function that opens the same log each time it is called."""
    stores: list[Store] = []
    memory = MemoryStore()
    address: str | Path = tmp_path / "log.db"
    if request.param == "postgres":
        running: Server = request.getfixturevalue("server")
        address = running.database()

    def one() -> Store:
        stores.append(memory if request.param == "memory" else open_store(address))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def entry(key: str = "", kind: str = "kind", subject: str = "", body: bytes = b"", time: float = 0.0) -> LogEntry:
    return LogEntry(kind, key, subject, time, body)


def read(store: Store, ranker: str = "r", after: int = 0) -> list[tuple[int, str]]:
    return [(one.position, one.key) for one in store.read(ranker, after)]


def test_entries_keep_their_order_and_get_positions_without_gaps(opened: Opened) -> None:
    store = opened()
    assert store.append([("r", entry("b")), ("other", entry("x")), ("r", entry("a"))]) == [1, 2, 3]
    assert store.append([]) == []
    assert store.append([("r", entry()), ("r", entry())]) == [4, 5]
    assert read(store) == [(1, "b"), (3, "a"), (4, ""), (5, "")]
    assert read(store, after=3) == [(4, ""), (5, "")]
    assert read(store, "other") == [(2, "x")]
    assert read(store, "unknown") == []


def test_an_entry_is_read_as_it_was_written(opened: Opened) -> None:
    store = opened()
    body = bytes(range(256)) * 300
    given = LogEntry("Ärger", "ключ ' \" \\", "∑", 1234567.1234567891, body)
    store.append([("r 'x' 😀", given)])
    (stored,) = store.read("r 'x' 😀")
    assert stored == LogEntry(given.kind, given.key, given.subject, given.time, body, 1)
    assert type(stored.body) is bytes
    assert store.find("r 'x' 😀", given.kind, given.key) == stored


def test_a_key_is_stored_once_in_a_batch_and_across_batches(opened: Opened) -> None:
    store = opened()
    first, second = entry("k", body=b"first"), entry("k", body=b"second")
    assert store.append([("r", first), ("r", second), ("r", entry("l"))]) == [1, None, 2]
    assert store.append([("r", second), ("r", entry("m")), ("r", second)]) == [None, 3, None]
    assert store.append([("r", second)]) == [None]
    assert store.append([("s", second), ("r", entry("k", kind="other"))]) == [4, 5]
    found = store.find("r", "kind", "k")
    assert found is not None
    assert found.body == b"first"
    assert read(store) == [(1, "k"), (2, "l"), (3, "m"), (5, "k")]


def test_entries_are_found_by_key_and_by_subject(opened: Opened) -> None:
    store = opened()
    store.append([("r", entry("a", subject="d")), ("r", entry("", kind="x", subject="d")), ("s", entry("a"))])
    store.append([("r", entry("b", subject="e")), ("r", entry("c", subject="d"))])
    assert [one.position for one in store.about("r", "d")] == [1, 2, 5]
    assert store.about("r", "nothing") == []
    assert store.find("r", "kind", "nothing") is None
    assert store.find("unknown", "kind", "a") is None
    found = store.find("s", "kind", "a")
    assert found is not None
    assert found.position == 3


def test_many_entries_are_found_by_their_keys(opened: Opened) -> None:
    store = opened()
    keys = [f"key-{i}" for i in range(1100)]
    store.append([("r", entry(key, body=key.encode())) for key in keys])
    store.append([("s", entry("key-1")), ("r", entry("key-2", kind="x")), ("r", entry(""))])
    asked = [*keys[::2], "nothing", "", "a\0"]
    found = store.find_all("r", "kind", asked)
    assert sorted(found) == sorted(one for key in keys[::2] if (one := store.find("r", "kind", key)) is not None)
    assert store.find_all("r", "kind", []) == store.find_all("unknown", "kind", keys) == []


def test_a_store_lists_the_rankers_that_have_entries(opened: Opened) -> None:
    store = opened()
    assert store.rankers() == []
    store.save_snapshot("only a snapshot", Snapshot(1, b""))
    assert store.rankers() == []
    store.append([("s", entry(str(i))) for i in range(50)])
    assert store.rankers() == ["s"]
    names = ["", "S", "a b", "s", "ä", "shop", "😀", "\uffff", "Z"]
    store.append([(name, entry()) for name in names for _ in range(3)])
    assert store.rankers() == sorted(names)


def test_a_store_lists_the_entries_of_a_kind_that_have_a_key(opened: Opened) -> None:
    store = opened()
    store.append([("r", entry(key, kind="config", body=key.encode())) for key in ("3", "1", "2")])
    store.append([("r", entry("", kind="config")), ("s", entry("4", kind="config")), ("", entry("5", kind="config"))])
    store.append([("r", entry("6", kind="other")), ("r", entry("0", kind="config", subject="d", body=b"0"))])
    found = store.of_kind("r", "config")
    assert [(one.position, one.key, one.body) for one in found] == [
        (1, "3", b"3"),
        (2, "1", b"1"),
        (3, "2", b"2"),
        (8, "0", b"0"),
    ]
    assert found == [one for one in store.read("r") if one.kind == "config" and one.key]
    assert [one.key for one in store.of_kind("", "config")] == ["5"]
    assert store.of_kind("r", "nothing") == store.of_kind("unknown", "config") == store.of_kind("r", "\0") == []


def test_sqlite_answers_by_an_index(tmp_path: Path) -> None:
    module = rankloop.eventlog.sqlite
    store = SqliteStore(tmp_path / "log.db")
    store.append([("r", entry(str(i))) for i in range(1000)])

    def plan(query: str, *values: str) -> list[str]:
        steps = [str(row[-1]) for row in store._reader.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        return [step for step in steps if re.search(r"\blog\b", step)]

    assert plan(module.RANKERS) == [
        "SEARCH log USING COVERING INDEX log_ranker",
        "SEARCH log USING COVERING INDEX log_ranker (ranker>?)",
    ]
    of_kind = f"SELECT {module.COLUMNS} FROM log WHERE {module.OF_KIND}"
    assert plan(of_kind, "r", "kind") == ["SEARCH log USING INDEX log_key (ranker=? AND kind=?)"]
    store.close()


def test_text_that_a_database_cannot_hold_is_not_found(opened: Opened) -> None:
    store = opened()
    store.append([("r", entry("a"))])
    assert store.find("r", "kind", "a\0") is None
    assert store.about("r", "\0") == []


def test_a_long_log_is_read_in_pages(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rankloop.eventlog.sqlite, rankloop.eventlog.postgres):
        monkeypatch.setattr(module, "PAGE_ENTRIES", 7)
    store = opened()
    store.append([("r" if i % 3 else "s", entry(str(i))) for i in range(1, 61)])
    expected = [(i, str(i)) for i in range(1, 61) if i % 3]
    assert read(store) == expected  # 40 entries: five full pages and a partial one
    assert read(store, after=30) == [one for one in expected if one[0] > 30]
    store.append([("t", entry(str(i))) for i in range(14)])
    assert len(read(store, "t")) == 14  # exactly two pages


def test_reading_continues_during_writes(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rankloop.eventlog.sqlite, rankloop.eventlog.postgres):
        monkeypatch.setattr(module, "PAGE_ENTRIES", 5)
    store = opened()
    store.append([("r", entry(str(i))) for i in range(20)])
    seen = []
    for one in store.read("r"):
        seen.append(one.position)
        if len(seen) == 3:
            store.append([("r", entry("later"))])
    assert seen[:20] == list(range(1, 21))
    assert seen == sorted(set(seen))


def test_entries_are_counted_by_ranker_after_a_position(opened: Opened) -> None:
    store = opened()
    assert store.count("r") == 0
    store.append([("r" if i % 3 else "s", entry(f"{i}")) for i in range(10)])
    for ranker in ("r", "s", "none"):
        for after in range(12):
            assert store.count(ranker, after) == len(read(store, ranker, after))


def test_the_newest_snapshot_is_kept_by_ranker(opened: Opened) -> None:
    store = opened()
    assert store.load_snapshot("r") is None
    store.save_snapshot("r", Snapshot(3, b"old"))
    store.save_snapshot("r", Snapshot(9, bytes(range(256)) * 1000))
    store.save_snapshot("s", Snapshot(1, b""))
    assert store.load_snapshot("r") == Snapshot(9, bytes(range(256)) * 1000)
    assert store.load_snapshot("s") == Snapshot(1, b"")


def test_reopening_changes_nothing_and_two_stores_share_one_log(opened: Opened) -> None:
    one = opened()
    one.append([("r", entry("a"))])
    two = opened()
    assert two.append([("r", entry("a")), ("r", entry("b"))]) == [None, 2]
    assert one.append([("r", entry("b")), ("r", entry("c"))]) == [None, 3]
    assert read(one) == read(two) == [(1, "a"), (2, "b"), (3, "c")]
    one.save_snapshot("r", Snapshot(3, b"s"))
    assert two.load_snapshot("r") == Snapshot(3, b"s")


@pytest.mark.parametrize("opened", ["sqlite", "postgres"], indirect=True)  # a log in memory supports one writer
def test_two_stores_write_concurrently(opened: Opened) -> None:
    stores = [opened(), opened()]
    results: list[list[int | None]] = [[], []]

    def write(n: int) -> None:
        for i in range(30):
            results[n] += stores[n].append([("r", entry(f"{n}-{i}")), ("r", entry(f"both-{i}")), ("r", entry())])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = [position for one in results for position in one if position is not None]
    assert sorted(stored) == list(range(1, 151))  # 2×30 own, 30 shared and 2×30 without keys
    assert len(read(stores[0])) == 150


@pytest.mark.parametrize("workers", [4])
def test_a_new_log_may_be_opened_concurrently(opened: Opened, workers: int) -> None:
    """The migrations run once."""
    failed: list[BaseException] = []

    def open_it() -> None:
        try:
            opened().append([("r", entry("same"))])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert read(opened()) == [(1, "same")]


def test_a_path_opens_a_file(tmp_path: Path) -> None:
    store: Any = open_store(str(tmp_path / "log.db"))
    assert isinstance(store, SqliteStore)
    store.close()


# Export, import, verify


def command(*arguments: str | Path) -> None:
    """Run `rankloop log …`."""
    parser = argparse.ArgumentParser()
    log.add_to(parser.add_subparsers())
    given = parser.parse_args(["log", *map(str, arguments)])
    given.run(given)


def settings_file(path: Path, settings: RankerConfig) -> Path:
    path.write_text(json.dumps({"rankers": {"ranker": settings.as_mapping()}}))
    return path


def ranked(address: str | Path, settings: RankerConfig, rounds: int = 40) -> Ranker:
    """A ranker with history."""
    clock = Clock()
    ranker = Ranker(settings, store=open_store(address), clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, rounds)
    return ranker


@pytest.mark.parametrize(
    ("id", "more"),
    [
        ("cascade-lin-ts", {}),
        ("gts", {"aggregate": "sum"}),
        ("ucr", {"on_close": "ignore"}),
        ("toprank", {"window": 5.0}),
    ],
)
def test_export_import_export_gives_the_same_file(id: str, more: dict[str, Any], tmp_path: Path) -> None:
    settings = config(id, **more)
    ranker = ranked(tmp_path / "log.db", settings)
    ranker.rank(k=3, segment="de", propensity=20, context=[1.0, 2.0] if settings.context else None)
    ranker.rank(k=2, pin={1: ranker.items()[0].id}, context=[1.0, 2.0] if settings.context else None)
    before = contents(ranker)
    ranker.close()
    file = settings_file(tmp_path / "config.json", settings)
    command("export", tmp_path / "log.db", tmp_path / "one.parquet", "--config", file)
    command("import", tmp_path / "one.parquet", tmp_path / "new.db")
    command("export", tmp_path / "new.db", tmp_path / "two.parquet", "--config", file)
    one, two = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    assert one.equals(two)
    assert one.num_rows > 40
    assert set(one["status"].to_pylist()) <= set(export.STATUSES)
    items_of = [pq.read_metadata(tmp_path / f"{name}.parquet").metadata[export.ITEMS_KEY] for name in ("one", "two")]
    assert items_of[0] == items_of[1]
    again = Ranker(settings, store=open_store(tmp_path / "new.db"))
    after = contents(again)
    again.close()
    # Positions differ, late feedback is not exported, and several events of a decision become one.
    differing = ("at", "counters.others", "counters.feedback_delays", "counters.feedback_delay_seconds")
    assert {name: after[name] for name in after if name not in differing} == {
        name: before[name] for name in before if name not in differing
    }


def test_rows_contain_decisions_and_outcomes(tmp_path: Path) -> None:
    clock = Clock()
    settings = config("ts-beta", dim=None, window=10.0)
    ranker = Ranker(settings, store=SqliteStore(tmp_path / "log.db"), clock=clock)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    learned = ranker.rank(k=2, propensity=50, segment="de")
    ranker.feedback(learned.id, clicked=[1])
    ranker.feedback(learned.id, clicked=[0])  # late
    ranker.withdraw(ranker.rank(k=1).id)
    ranker.rank(k=2)
    clock.now += 10
    ranker.tick()
    ranker.rank(k=3)
    ranker.rank(k=0)
    ranker.close()
    store = SqliteStore(tmp_path / "log.db")
    assert export.export(store, "ranker", settings, tmp_path / "out.parquet") == 4
    store.close()
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["slate_id"] for row in rows] == [1, 1, 2, 3, 3, 4, 4, 4]
    assert [row["position"] for row in rows] == [0, 1, 0, 0, 1, 0, 1, 2]
    assert [row["reward"] for row in rows] == [0.0, 1.0, None, 0.0, 0.0, None, None, None]
    assert [row["status"] for row in rows] == ["learned"] * 2 + ["withdrawn"] + ["nothing"] * 2 + ["open"] * 3
    assert [row["item"] for row in rows[:2]] == list(learned.ids)
    assert [row["action"] for row in rows[:2]] == [["a", "b"].index(id) for id in learned.ids]
    assert (rows[-1]["item"], rows[-1]["action"]) == (None, None)  # three slots, two items
    first, second = rows[:2]
    assert first["segment"] == "de"
    assert first["decision"] == learned.id
    assert first["pscore_kind"] == "monte-carlo"
    # With two items in two slots, the first slot determines the list: all three propensities are equal.
    assert first["pscore"] == first["pscore_cascade"] == second["pscore_cascade"] == second["pscore_item_position"]
    assert all(row["pscore"] is row["pscore_kind"] is None for row in rows[2:])


def test_an_id_that_was_removed_and_put_again_has_a_new_number(tmp_path: Path) -> None:
    store, settings = MemoryStore(), config("ts-beta", dim=None)
    ranker = Ranker(settings, store=store)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    old = ranker.rank(k=1, candidates=["a"])
    ranker.remove_items(["a"])
    ranker.put_items([{"id": "a", "default_position": 3.0}])
    new = ranker.rank(k=1, candidates=["a"])
    for ranking in (new, old):
        ranker.feedback(ranking.id, items=["a"])
    export.export(store, "ranker", settings, tmp_path / "out.parquet")
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["decision"], row["item"], row["action"]) for row in rows] == [(old.id, "a", 0), (new.id, "a", 2)]
    copy = MemoryStore()
    export.import_(tmp_path / "out.parquet", copy, "ranker")
    again = Ranker(settings, store=copy)
    assert again.items() == ranker.items()
    assert dict(again._replica.items.column) == {"b": 1, "a": 2}


def test_a_deterministic_policy_has_no_propensities(tmp_path: Path) -> None:
    store = MemoryStore()
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(5))
    ranker.rank(candidates=["item-0"], propensity=10)  # among several, ties are broken at random
    export.export(store, "ranker", config("cascade-ucb1"), tmp_path / "out.parquet")
    for row in pq.read_table(tmp_path / "out.parquet").to_pylist():
        assert row["pscore_kind"] == "deterministic"
        assert row["pscore"] is row["pscore_cascade"] is row["pscore_item_position"] is None


def test_a_log_in_a_database_is_exported_imported_and_verified(
    database: str,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = config()
    ranker = ranked(tmp_path / "log.db", settings, 20)
    ranker.close()
    file = settings_file(tmp_path / "config.json", settings)
    command("export", tmp_path / "log.db", tmp_path / "one.parquet", "--config", file)
    command("import", tmp_path / "one.parquet", database)
    command("export", database, tmp_path / "two.parquet", "--config", file)
    assert pq.read_table(tmp_path / "one.parquet").equals(pq.read_table(tmp_path / "two.parquet"))
    with pytest.raises(NothingToVerify):
        command("verify", database)
    assert "does not contain the ranker's settings" in capsys.readouterr().out


def test_verify_names_the_first_difference_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config("cascade-ucb1")
    ranker = ranked(tmp_path / "log.db", settings, 20)
    position = ranker.snapshot()
    ranker.feedback(ranker.rank().id, clicked=[0])
    end = ranker.position
    ranker.close()
    command("verify", tmp_path / "log.db")
    out = capsys.readouterr().out
    assert re.search(rf"ranker: (\d+) of \1 lists decided again, bit for bit; the log ends at position {end}\.", out)
    assert f"the snapshot at {position} and the rest of the log equal a replay of the whole log" in out
    ranker = Ranker.open(tmp_path / "log.db", config("cascade-ucb1", objective="clicks"))
    ranker.feedback(ranker.rank().id, clicked=[0])
    ranker.close()
    command("verify", tmp_path / "log.db")
    out = capsys.readouterr().out
    assert "other settings" in out
    assert re.search(r"ranker: (\d+) of \1 lists decided again, bit for bit", out)

    ranker = Ranker.open(tmp_path / "log.db", settings)
    state: Any = ranker._replica.learners.state
    state.belief.clicks[0, 2] += 1  # that did not happen
    ranker.snapshot()
    ranker.close()
    with pytest.raises(LogDiffers, match="verification failed for ranker"):
        command("verify", tmp_path / "log.db")
    out = capsys.readouterr().out
    assert "differs from a replay of the whole log in\n    learners.belief.clicks: 1 of" in out
    assert "first [0, 2]: " in out


def test_reading_creates_no_log_and_importing_a_wrong_file_creates_none(tmp_path: Path) -> None:
    file = settings_file(tmp_path / "config.json", config())
    for arguments in (("verify", "no.db"), ("export", "no.db", "out.parquet")):
        verb, *paths = arguments
        with pytest.raises(InvalidInput, match=r"^log .* an existing log"):
            command(verb, *(tmp_path / path for path in paths))
    assert not (tmp_path / "no.db").exists()
    with pytest.raises(InvalidInput, match=r"^out "):
        command("export", tmp_path / "no.db", tmp_path / "no" / "out.parquet", "--config", file)
    store = MemoryStore()
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(InvalidInput, match="that `rankloop log export` of this version wrote"):
        command("import", tmp_path / "text.parquet", tmp_path / "no.db")
    assert not (tmp_path / "no.db").exists()
    with pytest.raises(InvalidInput, match="that `rankloop log export` of this version wrote"):
        export.import_(tmp_path / "text.parquet", store, "ranker")
    pq.write_table(pq.read_table(_small(tmp_path)).drop_columns("reward"), tmp_path / "less.parquet")
    with pytest.raises(InvalidInput, match="that `rankloop log export` of this version wrote"):
        export.import_(tmp_path / "less.parquet", store, "ranker")
    with pytest.raises(InvalidInput, match="an existing file"):
        export.import_(tmp_path / "none.parquet", store, "ranker")
    assert list(store.read("ranker")) == []
    export.import_(_small(tmp_path), store, "ranker")
    with pytest.raises(InvalidInput, match="no entries in the log"):
        export.import_(_small(tmp_path), store, "ranker")


def _small(folder: Path) -> Path:
    """An exported file."""
    store = MemoryStore()
    ranker = Ranker(config(), store=store)
    ranker.put_items(items(3))
    ranker.feedback(ranker.rank().id, clicked=[0])
    export.export(store, "ranker", config(), folder / "small.parquet")
    return folder / "small.parquet"


def test_a_long_log_is_exported_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = ranked(tmp_path / "log.db", config("cascade-ucb1"), 30)
    export.export(ranker.store, "ranker", ranker.config, tmp_path / "one.parquet")
    monkeypatch.setattr(export, "CHUNK_DECISIONS", 4)
    export.export(ranker.store, "ranker", ranker.config, tmp_path / "two.parquet")
    one, two = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    assert one.equals(two)
    assert pq.read_metadata(tmp_path / "two.parquet").num_row_groups >= 7
    assert np.array_equal(np.unique(one["slate_id"]), np.arange(1, 31))
    ranker.close()


def test_a_write_ahead_log_is_moved_while_others_write_and_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankloop.eventlog.wal_space.MAX_WAL_BYTES", 200_000)
    monkeypatch.setattr("rankloop.eventlog.sqlite.INLINE_BYTES", 0)  # by the thread, as on a large disk
    store = SqliteStore(tmp_path / "log.db")
    wal, largest = tmp_path / "log.db-wal", 0
    for n in range(2000):
        store.append([("r", LogEntry("k", f"{n}", "", 0.0, bytes(4000)))])
        largest = max(largest, wal.stat().st_size)
    assert [entry.key for entry in store.read("r")] == [f"{n}" for n in range(2000)]
    store.close()
    # 8 MB were written; the thread may be late, but not by all of it.
    assert largest < 6_000_000
    assert len(list(SqliteStore(tmp_path / "log.db").read("r"))) == 2000
