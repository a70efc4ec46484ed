"""Every list is decided again from the log alone, whoever asked for it and whatever was changed meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop.cli.main import main
from rankloop.eventlog import SqliteStore
from rankloop.eventlog.events import CannotReplay, decode
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import LogEntry, Store
from rankloop.math import numerics
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.verification import decide_again
from test_ranker import CONTEXT, DIM, IDS, config, items

THREADS, EACH = 16, 5


def crowd(ranker: Ranker) -> None:
    """Threads that rank and report at once, while items come; some lists are restricted, pinned or of a segment."""
    single = ranker._replica.learners.policy.feedback.single
    topics = ranker.config.coverage
    failed: list[BaseException] = []

    def caller(n: int) -> None:
        rng = np.random.default_rng(n)
        try:
            for m in range(EACH):
                asked: dict[str, Any] = {"k": int(rng.integers(1, 4)), "segment": ("", "de")[int(rng.integers(2))]}
                asked |= {"context": rng.standard_normal(CONTEXT).tolist()} if ranker.config.context else {}
                asked |= {"candidates": [f"item-{i}" for i in range(8) if rng.random() < 0.7]} if m == 2 else {}
                asked |= {"pin": {0: "item-3"}} if m == 3 else {}
                ranking = ranker.rank(**asked)
                clicked = [slot for slot in range(len(ranking.ids)) if rng.random() < 0.4]
                ranker.feedback(ranking.id, clicked=clicked[:1] if single else clicked)
                if n == 0:
                    more = {} if topics is None else {"coverage": rng.uniform(size=topics).tolist()}
                    x = rng.standard_normal((3, DIM)).tolist()
                    ranker.put_items([{"id": f"new-{m}-{i}", "features": x[i], **more} for i in range(3)])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def played(store: Store, id: str) -> None:
    ranker = Ranker(config(id), store=store, name=f"of-{id}")
    ranker.put_items(items(8, topics=ranker.config.coverage))
    crowd(ranker)
    ranker.flush()


@pytest.mark.parametrize("id", IDS)
def test_lists_of_sixteen_threads_come_out_again(id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "log.db")
    played(store, id)
    store.close()
    assert main(["log", "verify", str(tmp_path / "log.db")]) == 0
    assert f"of-{id}: {THREADS * EACH} of {THREADS * EACH} lists decided again, bit for bit" in capsys.readouterr().out


@pytest.mark.slow
def test_lists_of_every_policy_come_out_again_in_postgresql(
    database: str,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = PostgresStore(database)
    for id in IDS:
        played(store, id)
    store.close()
    assert main(["log", "verify", database]) == 0
    assert capsys.readouterr().out.count(f"{THREADS * EACH} of {THREADS * EACH} lists decided again") == len(IDS)


def test_lists_come_out_again_through_switches_changes_and_shadow(tmp_path: Path) -> None:
    """Which policy decided, with which settings, is found in the log."""
    store = SqliteStore(tmp_path / "log.db")
    one, other = config("cascade-lin-ts", traffic=0.6), config("gts", traffic=0.6)
    ranker = Ranker(one, store=store)
    ranker.put_items(items(6))

    def visit(lists: int) -> None:
        for n in range(lists):
            ranker.feedback(ranker.rank(visitor=f"v{n}").id, clicked=[0])

    visit(20)
    ranker.add_challenger(Replica(other))
    visit(10)
    ranker.promote()
    visit(10)
    ranker.adjust(ranker.config.adjusted_as(ranker.config.plain() | {"explore_daily": 3, "traffic": 1.0}))
    visit(10)
    ranker.adjust(ranker.config.adjusted_as(ranker.config.plain() | {"mode": "shadow"}))
    visit(10)
    ranker.promote()
    visit(5)
    ranker.flush()
    found = decide_again(store, "ranker")
    assert (found.equal, found.different, found.unknown) == (found.decided, 0, 0)
    assert found.decided + found.control == 65
    assert found.control > 0
    ranker.close()
    store.close()


def changed(store: SqliteStore, log: str, factor: float) -> None:
    """Multiply a score of the last list in the log."""
    query = "SELECT kind, key, subject, time, body, position FROM log WHERE kind = 'decision' ORDER BY position DESC"
    entry = LogEntry(*store._writer.execute(query).fetchone())
    shown: Any = decode(entry)
    scores = shown.scores.copy()
    scores[0] *= factor
    body = replace(shown, scores=scores).entry().body
    store._writer.execute("UPDATE log SET body = ? WHERE position = ?", (body, entry.position))


@pytest.mark.parametrize(("factor", "close"), [(1.0 + 1e-12, 1), (1.0 + 1e-6, 0)])
def test_lists_of_other_numerics_are_compared_within_a_tolerance(
    factor: float, close: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "log.db")
    with monkeypatch.context() as patch:
        patch.setattr(numerics, "version", lambda *, mixed=False: "elsewhere")
        played(store, "cascade-lin-ts")
    changed(store, "of-cascade-lin-ts", factor)
    found = decide_again(store, "of-cascade-lin-ts")
    store.close()
    assert (found.equal, found.close, found.different) == (found.decided - 1, close, 1 - close)
    assert main(["log", "verify", str(tmp_path / "log.db")]) == (0 if close else 2)
    out = capsys.readouterr().out
    assert "made with other numerics: elsewhere" in out
    assert numerics.version() in out


def test_with_the_same_numerics_a_last_bit_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "log.db")
    played(store, "cascade-lin-ts")
    changed(store, "of-cascade-lin-ts", 1.0 + 2.0**-52)
    store.close()
    assert main(["log", "verify", str(tmp_path / "log.db")]) == 2
    assert capsys.readouterr().out.count("differs: decision") == 1


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[str, int]:
    """A log in which one feedback cannot be read, and its position."""
    path = tmp_path / "log.db"
    ranker = Ranker.open(path, config("gts"))
    ranker.put_items(items(4))
    for _ in range(5):
        ranker.feedback(ranker.rank().id, clicked=[0])
    ranker.close()
    with sqlite3.connect(path) as connection:
        (position,) = connection.execute("SELECT position FROM log WHERE kind = 'feedback' LIMIT 1 OFFSET 2").fetchone()
        connection.execute("UPDATE log SET body = x'00' WHERE position = ?", (position,))
    connection.close()
    return str(path), position


def test_a_damaged_log_says_where_and_goes_on_without_that_event(
    damaged: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path, position = damaged
    with pytest.raises(CannotReplay, match=f"position {position}") as error:
        Ranker.open(path, config("gts"))
    assert error.value.position == position
    assert main(["log", "skip", "ranker", str(position), "--reason", "damaged", "--log", path]) == 0
    again = Ranker.open(path, config("gts"))
    assert again.counts()["decisions"] == 5
    assert again.counts()["open_decisions"] == 1, "the list whose feedback was excluded is open again"
    again.close()
    assert main(["log", "verify", path]) == 0
    assert "2 lists depend on an event that was excluded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ranker", "position", "told"),
    [
        ("nobody", "3", "ranker is 'nobody'"),
        ("ranker", "999", "the position of an event of this ranker"),
        ("ranker", "1", "restore a backup"),
        ("ranker", "2", "restore a backup"),
    ],
)
def test_what_cannot_be_excluded_is_refused(
    damaged: tuple[str, int], ranker: str, position: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = damaged
    before = SqliteStore(path)
    many = len(list(before.read("ranker")))
    before.close()
    assert main(["log", "skip", ranker, position, "--reason", "why not", "--log", path]) == 2
    assert told in capsys.readouterr().err
    after = SqliteStore(path)
    assert len(list(after.read("ranker"))) == many
    after.close()


def test_an_event_of_a_newer_format_is_not_guessed(tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", config("gts"))
    ranker.put_items(items(4))
    ranker.close()
    with sqlite3.connect(tmp_path / "log.db") as connection:
        newer = "CAST(replace(body, '\"v\":4', '\"v\":9') AS BLOB)"
        connection.execute(f"UPDATE log SET body = {newer} WHERE kind = 'items-put'")
    connection.close()
    with pytest.raises(CannotReplay, match="a newer format than 4"):
        Ranker.open(tmp_path / "log.db", config("gts"))


def test_another_shape_of_items_is_refused(tmp_path: Path) -> None:
    Ranker.open(tmp_path / "log.db", config("gts")).close()
    with pytest.raises(ValueError, match=r"ranker\.dim is None; accepted: 3, with which"):
        Ranker.open(tmp_path / "log.db", RankerConfig.of({"policy": "gts", "slots": 5}))
