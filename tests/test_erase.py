"""Erasing a visitor: the ids are gone from every file, and everything that was learned stays bit for bit."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from postgres_server import Server, server  # noqa: F401
from rankloop.cli.main import main
from rankloop.errors import RankloopError
from rankloop.eventlog import MemoryStore, SqliteStore, StoreUnavailable, export
from rankloop.eventlog.address import open_store
from rankloop.eventlog.backup import back_up
from rankloop.eventlog.erasure import exported
from rankloop.eventlog.erasure.rewriting import RewritableStore
from rankloop.eventlog.erasure.tombstones import CannotErase, erase
from rankloop.eventlog.events import DecisionMade, EventSkipped, VisitorsErased, decode_as
from rankloop.eventlog.process_lock import ProcessLock
from rankloop.hosting.change_history import change_history
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import ConflictingDecision, Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica
from rankloop.serving.verification import compare_snapshot, decide_again, last_settings
from test_ranker import Clock, config, contents, items

ERASED, OTHER = "visitor-ümlaut-4711", "visitor-who-stays"
FORMAT_2 = Path(__file__).parent / "fixtures" / "format-2.db"
Opened = Callable[[], RewritableStore]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """A function that opens the same log each time it is called."""
    stores: list[RewritableStore] = []
    memory, address = MemoryStore(), str(tmp_path / "log.db")
    if request.param == "postgres":
        running: Server = request.getfixturevalue("server")
        address = running.database()

    def one() -> RewritableStore:
        stores.append(memory if request.param == "memory" else open_store(address))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def visits(ranker: Ranker, clock: Clock, rounds: int = 24) -> None:
    """Lists of four visitors: with feedback, without, withdrawn, open, closed by their window, asked for twice."""
    start = ranker.counts()["decisions"]
    for n in range(start, start + rounds):
        visitor = (ERASED, OTHER, f"v{n}", None)[n % 4]
        context = [0.5, float(n)] if ranker.config.context else None
        asked: dict[str, Any] = {"visitor": visitor, "context": context, "order": ["item-1", "item-2", "item-0"]}
        ranking = ranker.rank(**asked, decision=f"order {n}" if n % 3 == 0 else None)
        if n % 5 == 0:
            ranker.withdraw(ranking.id)
        elif n % 7:
            ranker.feedback(ranking.id, clicked=[0] if n % 2 else [], event=f"event {n}")
        clock.now += 5.0
        ranker.tick()


def all_bytes(*paths: Path) -> bytes:
    """The content of these files, and of all that belong to them."""
    files = [one for path in paths for one in sorted(path.parent.glob(f"{path.name}*"))]
    return b"".join(file.read_bytes() for file in files)


def visitors_of(store: RewritableStore, log: str = "ranker") -> list[str | None]:
    return [decode_as(DecisionMade, one).visitor for one in store.read(log) if one.kind == DecisionMade.kind]


def verified(store: RewritableStore, log: str = "ranker") -> tuple[int, int]:
    """Lists that were decided again, of all; the snapshot must equal a replay."""
    settings = last_settings(store, log)
    assert settings is not None
    assert compare_snapshot(store, log, LoggedConfig.of(settings)).differences == []
    lists = decide_again(store, log)
    assert lists.differences == []
    return lists.equal, lists.decided


def learned(ranker: Ranker) -> dict[str, bytes]:
    """Everything that a ranker knows, but for its log position."""
    return {name: value for name, value in contents(ranker).items() if name != "at"}


# What was learned, and what is verified


@pytest.mark.parametrize(
    "settings",
    [
        config("cascade-lin-ts", traffic=0.5),
        config("gts", traffic=0.3, aggregate="sum"),
        config("cascade-ucb1", mode="shadow"),
        config("ucr", explore_daily=3, traffic=0.5),
    ],
    ids=["traffic", "sum", "shadow", "context"],
)
def test_an_erasure_changes_nothing_that_was_learned(settings: RankerConfig, opened: Opened) -> None:
    clock, store = Clock(), opened()
    ranker = Ranker(settings, store=store, clock=clock)
    ranker.put_items(items(6))
    ranker.add_challenger(Replica(config("gts", context=settings.context)))
    visits(ranker, clock)
    ranker.snapshot()
    last = ranker.rank(visitor=ERASED, context=[1.0, 2.0] if settings.context else None)
    before = learned(ranker)
    assert ranker._replica.open_decisions, "some decisions are open at the time of the erasure"
    ranker.close()
    store = opened()
    checked, lists = verified(store)
    assert checked == lists > 0
    positions = [(one.position, one.kind, one.key, one.subject, one.time) for one in store.read("ranker")]

    done = erase(store, [ERASED], 5000.0)

    assert (done.decisions, done.visitors, done.renamed) == (7, {ERASED}, 0)
    assert verified(store) == (checked, lists)
    *kept, event = store.read("ranker")
    assert [(one.position, one.kind, one.key, one.subject, one.time) for one in kept] == positions
    assert decode_as(VisitorsErased, event).decisions == 7
    assert ERASED not in visitors_of(store)
    assert visitors_of(store).count(OTHER) == 6
    again = Ranker(settings, store=store, clock=clock)
    assert learned(again) == before
    assert again.feedback(last.id, clicked=[0], final=True).status in ("learned", "ignored"), "as without an erasure"
    again.close()
    assert erase(opened(), [ERASED], 6000.0).decisions == 0, "a second erasure finds nothing"


def test_the_group_of_an_erased_visitor_is_the_logged_one(tmp_path: Path) -> None:
    """Without the visitor, the group cannot be computed; that of others still is."""
    store = SqliteStore(tmp_path / "log.db")
    ranker = Ranker(config("gts", traffic=0.5), store=store)
    ranker.put_items(items(6))
    groups = {n: ranker.rank(visitor=f"v{n}").group for n in range(40)}
    ranker.flush()
    assert set(groups.values()) == {"treatment", "control"}
    erase(store, [f"v{n}" for n in range(0, 40, 2)], 0.0)
    lists = decide_again(store, "ranker")
    treated = [n for n, group in groups.items() if group == "treatment"]
    assert (lists.equal, lists.decided, lists.control) == (len(treated), len(treated), 40 - len(treated))
    assert lists.erased == sum(n % 2 == 0 for n in treated)
    store.close()


def test_an_erased_decision_says_so(opened: Opened) -> None:
    store = opened()
    ranker = Ranker(config("gts"), store=store)
    ranker.put_items(items(6))
    made = ranker.rank(visitor=ERASED, decision="order 7")
    assert ranker.rank(visitor=ERASED, decision="order 7").repeated
    ranker.feedback(made.id, clicked=[0])
    ranker.close()
    store = opened()
    erase(store, [ERASED], 0.0)
    again = Ranker(config("gts"), store=store)
    history = again.history("order 7")
    assert (history.visitor, history.erased) == (None, True)
    assert "Its visitor was erased." in history.summary
    with pytest.raises(ConflictingDecision):  # the fingerprint of its request, a hash of the visitor, is gone
        again.rank(visitor=ERASED, decision="order 7")
    assert again.find_decision("order 7").asked is None
    again.close()


def test_ids_that_contain_the_visitors_id_are_replaced_wherever_they_occur(opened: Opened) -> None:
    clock, store = Clock(), opened()
    ranker = Ranker(config("gts", aggregate="sum", window=60.0), store=store, clock=clock)
    ranker.put_items(items(6))
    for n in range(4):
        ranker.rank(visitor=ERASED, decision=f"{ERASED}/{n}")
    ranker.rank(visitor=OTHER, decision="another")
    ranker.feedback(f"{ERASED}/0", clicked=[0], event=f"{ERASED} clicked")
    ranker.feedback(f"{ERASED}/1", clicked=[1], event="click", final=True)
    ranker.withdraw(f"{ERASED}/2")
    ranker.snapshot()
    clock.now += 61.0
    ranker.tick()
    expected = {name: value for name, value in learned(ranker).items() if "waiting" not in name}
    ranker.close()
    store = opened()
    assert erase(store, [ERASED], 0.0).renamed == 5
    verified(store)
    again = Ranker(config("gts"), store=store, clock=clock)
    assert {name: value for name, value in learned(again).items() if "waiting" not in name} == expected
    again.close()
    store = opened()
    stored = "\n".join(f"{one.key} {one.subject} {one.body!r}" for one in store.read("ranker"))
    assert ERASED not in stored
    assert repr(ERASED.encode())[2:-1] not in stored
    assert len({one.key for one in store.read("ranker") if one.kind == "decision"}) == 5
    assert store.find("ranker", "feedback", "click") is not None
    assert store.find("ranker", "decision", "another") is not None


def test_a_decision_that_a_ranker_named_keeps_its_id(opened: Opened) -> None:
    """Such an id starts with the time, here with zeros, and may contain a short visitor's id by chance."""
    store = opened()
    ranker = Ranker(config("gts"), store=store, clock=Clock())
    ranker.put_items(items(6))
    ids = [ranker.rank(visitor="0").id for _ in range(20)]
    ranker.close()
    store = opened()
    assert all("0" in id for id in ids)
    assert erase(store, ["0"], 0.0).renamed == 0
    assert [one.key for one in store.read("ranker") if one.kind == "decision"] == ids


def test_a_log_of_format_2_is_erased(tmp_path: Path) -> None:
    store = SqliteStore(shutil.copy(FORMAT_2, tmp_path / "log.db"))
    before = decide_again(store, "shop")
    named = {visitor for visitor in visitors_of(store, "shop") if visitor is not None}
    assert named
    assert erase(store, named, 0.0).visitors == named
    assert set(visitors_of(store, "shop")) == {None}
    after = decide_again(store, "shop")
    assert after.differences == []
    assert (after.decided, after.equal, after.close, after.control) == (
        before.decided,
        before.equal,
        before.close,
        before.control,
    )
    store.close()


# What is left on disk


def filled(path: Path) -> None:
    """A log with the visitor in entries, in a snapshot, and in free pages of older snapshots."""
    clock, store = Clock(), SqliteStore(path)
    store._writer.execute("PRAGMA secure_delete = OFF")  # the default, unless SQLite was built differently
    ranker = Ranker(config("gts", traffic=0.6, aggregate="sum"), store=store, clock=clock)
    ranker.put_items(items(6))
    for _ in range(4):
        visits(ranker, clock, 8)
        ranker.snapshot()
    ranker.close()


def test_nothing_is_left_in_the_files_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, backup, older = tmp_path / "log.db", tmp_path / "backup.db", tmp_path / "older.parquet"
    filled(log)
    back_up(log, backup)
    assert main(["log", "export", str(log), str(older)]) == 0
    assert ERASED.encode() in all_bytes(log)
    assert ERASED.encode() in all_bytes(backup)
    archives = ["--archive", str(backup), "--archive", str(older)]
    assert main(["log", "erase", str(log), "--visitor", ERASED, *archives]) == 0
    told = capsys.readouterr().out
    assert told.count("8 decisions of 1 visitor erased.") == 3
    for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
        assert ERASED.encode(encoding) not in all_bytes(log, backup, older)
    assert OTHER.encode() in all_bytes(log)
    assert ERASED not in pq.read_table(older)["visitor"].to_pylist()
    for path in (log, backup):
        assert main(["log", "verify", str(path)]) == 0
    assert "lists are of erased visitors" in capsys.readouterr().out


def test_a_log_that_is_still_open_leaves_nothing_in_its_write_ahead_log(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    filled(log)
    with closing(SqliteStore(log)) as store:
        store.append([("other", one._replace(position=0)) for one in store.read("ranker")])
        assert ERASED.encode() in all_bytes(tmp_path / "log.db-wal")
        assert erase(store, [ERASED], 0.0).decisions == 16
        assert ERASED.encode() not in all_bytes(log)


@pytest.mark.slow
def test_nothing_is_left_in_the_tables_of_a_database(server: Server) -> None:  # noqa: F811
    clock, address = Clock(), server.database()
    store = open_store(address)
    ranker = Ranker(config("gts", aggregate="sum"), store=store, clock=clock)
    ranker.put_items(items(6))
    visits(ranker, clock)
    ranker.snapshot()
    ranker.close()
    store = open_store(address)

    def tables() -> bytes:
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            rows = connection.execute(
                "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relnamespace = 'public'::regnamespace OR oid IN"
                " (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
            ).fetchall()
        return b"".join((server.folder / "data" / str(file)).read_bytes() for (file,) in rows)

    assert ERASED.encode() in tables()
    erase(store, [ERASED], 0.0)
    assert ERASED.encode() not in tables()
    assert OTHER.encode() in tables()
    store.close()


@pytest.mark.slow
def test_a_database_user_who_cannot_remove_old_rows_is_told(server: Server) -> None:  # noqa: F811
    """VACUUM only warns if it skips a table of another owner."""
    import psycopg

    address = server.database()
    ranker = Ranker(config("gts"), store=open_store(address))
    ranker.put_items(items(6))
    ranker.rank(visitor=ERASED)
    ranker.close()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
        connection.execute("GRANT CREATE ON SCHEMA public TO guest")
    refused = pytest.raises(StoreUnavailable, match="only the owner of its tables can remove it")
    with closing(open_store(address.replace("//tests@", "//guest@"))) as store, refused:
        erase(store, [ERASED], 0.0)
    with closing(open_store(address)) as store:
        assert visitors_of(store) == [None]
        erase(store, [ERASED], 0.0)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY guest")
        connection.execute("DROP ROLE guest")


def test_a_snapshot_without_the_visitor_stays(tmp_path: Path) -> None:
    clock = Clock()
    with closing(SqliteStore(tmp_path / "log.db")) as store:
        ranker = Ranker(config("gts"), store=store, clock=clock)
        ranker.put_items(items(6))
        ranker.feedback(ranker.rank(visitor=ERASED).id, clicked=[0])
        position = ranker.snapshot()
        assert erase(store, [ERASED], 0.0).snapshots == 0
        snapshot = store.load_snapshot("ranker")
        assert snapshot is not None
        assert snapshot.position == position
        verified(store)


# Failures


class _Crash(Exception):
    pass


def _crash(*_: object) -> None:
    raise _Crash


def test_an_erasure_that_fails_in_the_middle_changes_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Clock(), opened()
    ranker = Ranker(config("gts", aggregate="sum"), store=store, clock=clock)
    ranker.put_items(items(6))
    visits(ranker, clock)
    ranker.snapshot()
    ranker.close()
    store = opened()
    before, snapshot = list(store.read("ranker")), store.load_snapshot("ranker")
    with monkeypatch.context() as patched:
        patched.setattr(VisitorsErased, "entry", _crash)
        with pytest.raises(_Crash):
            erase(store, [ERASED], 0.0)
    assert list(store.read("ranker")) == before
    assert store.load_snapshot("ranker") == snapshot
    assert erase(store, [ERASED], 0.0).decisions == 6
    verified(store)


def test_an_erasure_that_ended_before_the_disk_space_was_released_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.db"
    filled(log)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "purge", _crash)
        with closing(SqliteStore(log)) as store:
            store._writer.execute("PRAGMA secure_delete = OFF")
            with pytest.raises(_Crash):
                erase(store, [ERASED], 0.0)
    assert ERASED.encode() in all_bytes(log), "in pages that are free now"
    assert main(["log", "verify", str(log)]) == 0
    assert main(["log", "erase", str(log), "--visitor", ERASED]) == 0
    assert ERASED.encode() not in all_bytes(log)
    with closing(SqliteStore(log)) as store:
        assert [one.kind for one in store.read("ranker")].count(VisitorsErased.kind) == 1


def test_a_reader_that_keeps_the_old_content_alive_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    filled(log)
    with closing(SqliteStore(log)) as store, closing(sqlite3.connect(log, isolation_level=None)) as reader:
        store._writer.execute("PRAGMA busy_timeout = 0")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        with pytest.raises(StoreUnavailable, match="another process reads the log"):
            erase(store, [ERASED], 0.0)
        reader.execute("ROLLBACK")
        erase(store, [ERASED], 0.0)
        assert ERASED.encode() not in all_bytes(log)


def test_a_decision_that_cannot_be_read_is_erased_once_it_is_excluded(opened: Opened) -> None:
    store = opened()
    ranker = Ranker(config("gts"), store=store)
    ranker.put_items(items(6))
    id, other = ranker.rank(visitor=ERASED).id, ranker.rank(visitor=OTHER).id
    ranker.close()
    store = opened()
    entries = {one.key: one for one in store.read("ranker")}
    with store.rewriting() as rewriting:
        for one in (entries[id], entries[other]):
            rewriting.replace(one._replace(body=one.body[20:]))
    position = entries[id].position
    with pytest.raises(CannotErase, match=f"position {position} of ranker"):
        erase(store, [ERASED], 0.0)
    store.append([("ranker", EventSkipped(0.0, position, "damaged").entry())])
    store.append([("ranker", EventSkipped(0.0, entries[other].position, "damaged").entry())])
    assert erase(store, [ERASED], 0.0).visitors == {ERASED}
    assert all(ERASED.encode() not in one.body for one in store.read("ranker"))
    assert any(OTHER.encode() in one.body for one in store.read("ranker"))
    Ranker(config("gts"), store=store).close()


def test_ids_are_replaced_also_where_an_entry_cannot_be_read(opened: Opened) -> None:
    """The id of a damaged decision may have the visitor's id although its body has not, and other entries repeat it."""
    store, clock = opened(), Clock()
    ranker = Ranker(config("gts", window=10.0, aggregate="sum"), store=store, clock=clock)
    ranker.put_items(items(6))
    for id, event in ((f"{ERASED}/1", f"{ERASED}/event"), (f"{ERASED}/2", "event-2"), ("other", f"{ERASED}-not-his")):
        ranker.rank(decision=id, visitor=OTHER if id == "other" else ERASED)
        ranker.feedback(id, clicked=[0], event=event)
    clock.now += 10.0
    assert ranker.tick() == 3
    ranker.close()
    store = opened()
    before = list(store.read("ranker"))
    first = next(one for one in before if one.key == f"{ERASED}/1")
    closed = next(one for one in before if one.kind == "window-closed")
    with store.rewriting() as rewriting:
        rewriting.replace(first._replace(body=b"damaged"))
        rewriting.replace(closed._replace(body=closed.body[5:]))
    for damaged, what in ((first, "decision"), (closed, "event that closed feedback windows")):
        with pytest.raises(CannotErase, match=f"the {what} at position {damaged.position} of ranker cannot be read"):
            erase(store, [ERASED], 0.0)
        store.append([("ranker", EventSkipped(0.0, damaged.position, "damaged").entry())])
    done = erase(store, [ERASED], 0.0)
    assert (done.decisions, done.visitors, done.renamed) == (2, {ERASED}, 3)
    after = {one.position: one for one in store.read("ranker")}
    assert [one for one in after.values() if ERASED.encode() in one.body or ERASED in one.subject] == []
    assert [one.key for one in after.values() if ERASED in one.key] == [f"{ERASED}-not-his"]
    for one in before:
        if one.kind == "feedback":
            (decision,) = [made.position for made in before if made.kind == "decision" and made.key == one.subject]
            assert after[one.position].subject == after[decision].key
    assert erase(store, [ERASED], 0.0).decisions == 0
    Ranker(config("gts", window=10.0, aggregate="sum"), store=store, clock=clock).close()


# The command


def test_a_log_that_is_being_served_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.db"
    filled(log)
    before = log.read_bytes()
    with ProcessLock(log):
        assert main(["log", "erase", str(log), "--visitor", ERASED]) == 2
    assert "is being served by another process; stop that process" in capsys.readouterr().err
    assert log.read_bytes() == before


@pytest.mark.slow
def test_the_log_of_a_database_is_erased_unless_it_is_being_served(
    server: Server,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = server.database()
    ranker = Ranker(config("gts", traffic=0.5), store=open_store(address, exclusive=True))
    ranker.put_items(items(6))
    for n in range(10):
        ranker.rank(visitor=(ERASED, OTHER)[n % 2])
    ranker.flush()
    assert main(["log", "erase", address, "--visitor", ERASED]) == 2
    assert "is being served by another process" in capsys.readouterr().err
    ranker.close()
    assert main(["log", "erase", address, "--visitor", ERASED]) == 0
    assert capsys.readouterr().out == "the log: 5 decisions of 1 visitor erased.\n"
    with closing(open_store(address)) as store:
        assert visitors_of(store) == [None, OTHER] * 5
        verified(store)


def test_many_visitors_of_a_file_are_erased_in_all_rankers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, file = tmp_path / "rankloop.db", tmp_path / "visitors.txt"
    registry = RankerRegistry.open(ServiceSettings(log=str(log)))
    for name in ("one", "two"):
        registry.put(name, {"policy": "cascade-lin-ts", "slots": 3, "dim": 3})
        ranker = registry.ranker(name)
        ranker.put_items(items(6))
        for n in range(6):
            ranker.rank(visitor=f"v {n}")
    registry.close()
    file.write_text("v 1\nv 2\n\nv 3\r\nnobody\n", encoding="utf-8")
    command = ["log", "erase", str(log), "--visitors-file", str(file)]
    assert main([*command, "--visitor", "v 4"]) == 0
    assert "8 decisions of 4 visitors erased." in capsys.readouterr().out
    assert main(command) == 0
    assert "no decision of these visitors." in capsys.readouterr().out
    with closing(SqliteStore(log)) as store:
        for name in ("one", "two"):
            assert visitors_of(store, name) == ["v 0", None, None, None, None, "v 5"]
            (change,) = (one for one in change_history(store, name).events if one.kind == "erasure")
            assert change.decisions == 4
    again = RankerRegistry.open(ServiceSettings(log=str(log)))
    assert again.ranker("one").rank(visitor="v 1").event.number == 7
    again.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--visitor is missing; accepted: an id"),
        (["--visitor", ""], "--visitor is ''; accepted: a printable text"),
        (["--visitors-file", "absent.txt"], "--visitors-file is 'absent.txt'; accepted: a readable text file"),
        (["--visitors-file", "latin-1.txt"], "a text file in UTF-8"),
        (["--visitors-file", "control.txt"], "--visitors-file, line 2 is"),
        (["--visitor", "v", "--archive", "absent.db"], "--archive is 'absent.db'; accepted: a readable file"),
        (["--visitor", "v", "--archive", "control.txt"], "`rankloop log backup` or `rankloop log export` wrote"),
        (["absent.db", "--visitor", "v"], "log is 'absent.db'; accepted: an existing log"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_erased(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "rankloop.db")
    (tmp_path / "latin-1.txt").write_bytes("v\né".encode("latin-1"))
    (tmp_path / "control.txt").write_text("v\na\tb\n", encoding="utf-8")
    before = (tmp_path / "rankloop.db").read_bytes()
    assert main(["log", "erase", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert (tmp_path / "rankloop.db").read_bytes() == before


def test_the_log_of_a_service_in_this_folder_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "rankloop.db")
    assert main(["log", "erase", "--visitor", ERASED]) == 0
    assert "rankloop.db: 8 decisions of 1 visitor erased." in capsys.readouterr().out


# Exported files


def test_an_exported_file_differs_in_the_visitor_only(tmp_path: Path) -> None:
    log, file = tmp_path / "log.db", tmp_path / "log.parquet"
    filled(log)
    with closing(SqliteStore(log)) as store:
        export.export(store, "ranker", config("gts", aggregate="sum"), file)
    file.chmod(0o600)
    before = pq.read_table(file)
    assert exported.erase(file, {ERASED}).decisions == 8
    after = pq.read_table(file)
    assert after.drop(["visitor"]).equals(before.drop(["visitor"]))
    expected = [None if one == ERASED else one for one in before["visitor"].to_pylist()]
    assert after["visitor"].to_pylist() == expected
    assert file.stat().st_mode & 0o777 == 0o600
    imported = MemoryStore()
    assert export.import_(file, imported, "again") == 32
    unchanged = file.read_bytes()
    assert exported.erase(file, {ERASED}).decisions == 0
    assert file.read_bytes() == unchanged


def test_an_exported_decision_whose_id_contains_the_visitors_id_gets_another_id(tmp_path: Path) -> None:
    store, file = MemoryStore(), tmp_path / "log.parquet"
    ranker = Ranker(config("gts"), store=store)
    ranker.put_items(items(6))
    for n in range(3):
        ranker.rank(visitor=ERASED, decision=f"{ERASED}/{n}")
    ranker.close()
    export.export(store, "ranker", config("gts"), file)
    assert exported.erase(file, {ERASED}).renamed == 3
    ids = pq.read_table(file)["decision"].to_pylist()
    assert not any(ERASED in id for id in ids)
    assert len(set(ids)) == 3
    imported = MemoryStore()
    assert export.import_(file, imported, "ranker") == 3


def test_a_parquet_file_of_another_program_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    pq.write_table(pa.table({"visitor": [ERASED]}), tmp_path / "other.parquet")
    with pytest.raises(RankloopError, match="a Parquet file that `rankloop log export` of this version wrote"):
        exported.erase(tmp_path / "other.parquet", {ERASED})
