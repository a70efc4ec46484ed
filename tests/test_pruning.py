"""Pruning a log changes nothing that was learned, and removes exactly what the archive has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from postgres_server import Server, server  # noqa: F401
from rankloop.analytics import counters
from rankloop.cli.main import main
from rankloop.errors import InvalidInput
from rankloop.eventlog import SqliteStore
from rankloop.eventlog.address import open_store
from rankloop.eventlog.backup import back_up
from rankloop.eventlog.events import CannotReplay, DecisionMade, HistoryPruned
from rankloop.eventlog.retention.archive import archive
from rankloop.eventlog.retention.archive_parts import archive_parts
from rankloop.eventlog.retention.import_archive import import_archive
from rankloop.eventlog.retention.restore import restore
from rankloop.eventlog.retention.whole_log import all_entries
from rankloop.hosting.change_history import change_history
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker, RankerConfig, UnknownDecision, snapshots
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica
from rankloop.serving.retention.pruning import Pruning, prune
from rankloop.serving.verification import VerifiedLists, compare_snapshot, decide_again, last_settings
from test_ranker import Clock, config, contents, items
from test_retention import DAY, entries, killed

NOW = 100.0 * DAY
LONG_WINDOW = config("gts", aggregate="sum", window=3 * DAY)
Address = Callable[[str], str]
SETTINGS = {
    "bayes": config("cascade-lin-ts", traffic=0.7, window=7200.0),
    "sum": config("gts", aggregate="sum", window=0.5 * DAY),
    "hybrid": config("hybrid", window=7200.0, on_close="ignore"),
    "segments": config("cascade-ucb1", mode="shadow", window=7200.0),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """The address of a log by name."""
    if request.param == "sqlite":
        return lambda name: str(tmp_path / f"{name}.db")
    running: Server = request.getfixturevalue("server")
    known: dict[str, str] = {}
    return lambda name: known.setdefault(name, running.database())


class Shop:
    """A ranker over a log, with visits whose clock goes on."""

    def __init__(self, address: str, settings: RankerConfig = SETTINGS["bayes"]) -> None:
        self.store, self.clock = open_store(address, exclusive=True), Clock()
        known = [entry.time for _, entry in all_entries(self.store) if entry.kind != HistoryPruned.kind]
        self.clock.now = max(known, default=60.0)
        self.ranker = Ranker(settings, store=self.store, clock=self.clock, name="shop")
        if not self.ranker.counts()["items"]:
            self.ranker.put_items(items(6))

    def visit(self, days: float, each: int = 24) -> list[str]:
        """Some visits a day; returns the ids of their decisions."""
        ids, ranker = [], self.ranker
        for n in range(int(days * each)):
            ranking = ranker.rank(visitor=f"v{n % 7}", segment="de" if n % 3 else "")
            ids.append(ranking.id)
            if n % 9 == 0:
                ranker.withdraw(ranking.id)
            elif n % 4:
                ranker.feedback(ranking.id, clicked=[n % 3] if n % 2 else [], event=f"event {ranking.id}")
            if n % 24 == 5:
                ranker.put_items([{"id": f"new-{ranking.id}", "features": [0.1, 0.2, 0.3]}])
            self.clock.now += DAY / each
            ranker.tick()
        return ids

    def close(self, *, snapshot: bool = True) -> dict[str, bytes]:
        """Stop, and return all that is known."""
        if snapshot:
            self.ranker.snapshot()
        known = contents(self.ranker)
        self.ranker._writer.close()
        self.store.close()
        return known


def pruned(address: str, folder: Path, day: float, challengers: dict[str, object] | None = None) -> Pruning:
    """Archive everything and prune what is older than a day."""
    with closing(open_store(address, exclusive=True)) as store:
        archive(store, folder, NOW)
        settings = {log: LoggedConfig.of(one).plain() for log, one in (challengers or {}).items()}  # type: ignore[arg-type]
        return prune(store, folder, day * DAY, settings, now=(day + 1.0) * DAY)


def verified(address: str, log: str = "shop") -> VerifiedLists:
    """The lists of a log, which must come out again; its snapshot must equal a replay."""
    with closing(open_store(address)) as store:
        settings = last_settings(store, log)
        assert settings is not None
        finding = compare_snapshot(store, log, LoggedConfig.of(settings))
        assert (finding.differences, finding.unusable) == ([], ())
        lists = decide_again(store, log)
    assert lists.differences == []
    assert lists.different == 0
    return lists


def knows(one: dict[str, bytes], other: dict[str, bytes]) -> bool:
    """Whether two states are equal but for their position."""
    return {name: one[name] for name in one if name != "at"} == {name: other[name] for name in other if name != "at"}


# Laws


@pytest.mark.parametrize("policy", SETTINGS)
@pytest.mark.parametrize("has_snapshot", [True, False], ids=["snapshot", "replay"])
def test_a_pruned_log_gives_the_same_state_and_goes_on_as_before(
    policy: str, has_snapshot: bool, address: Address, tmp_path: Path
) -> None:
    """The same visits after a restart give the same state with and without pruning: bit for bit."""
    settings = SETTINGS[policy]
    shop = Shop(address("log"), settings)
    shop.visit(4)
    before = shop.close(snapshot=has_snapshot)
    back_up(address("log"), tmp_path / "unpruned.db")
    restore(tmp_path / "unpruned.db", str(tmp_path / "whole.db"))

    (done,) = pruned(address("log"), tmp_path / "archive", 2).pruned
    assert done.entries > 80

    after, whole = Shop(address("log"), settings), Shop(str(tmp_path / "whole.db"), settings)
    assert knows(contents(after.ranker), before)
    for one in (after, whole):
        rng = np.random.default_rng(1)
        for n in range(30):
            ranking = one.ranker.rank(decision=f"after {n}", visitor=f"v{n}")
            one.ranker.feedback(ranking.id, clicked=[int(rng.integers(3))])
            one.clock.now += 600.0
            one.ranker.tick()
    assert knows(after.close(), whole.close())
    lists, all_lists = verified(address("log")), verified(str(tmp_path / "whole.db"))
    assert lists.pruned == lists.decided - lists.equal
    assert 0 < lists.equal < all_lists.equal == all_lists.decided


def test_what_was_removed_is_what_was_archived(address: Address, tmp_path: Path) -> None:
    """The log that is left and the archive have each entry of the log before; the archive makes the same log again."""
    shop = Shop(address("log"))
    shop.visit(4)
    open_at_start = shop.visit(0.1)
    shop.close()
    before = entries(address("log"))
    (done,) = pruned(address("log"), tmp_path / "archive", 3).pruned
    left = entries(address("log"))
    archived = [one for part in archive_parts(tmp_path / "archive") for one in part.read()]
    removed = [one for one in before if one not in left]
    assert len(removed) == done.entries
    assert all(one in archived for one in removed)
    assert all(entry.time < 3 * DAY for _, entry in removed)
    assert set(open_at_start) <= {entry.key for _, entry in left}
    assert [one for one in left if one[1].position <= len(before)] == [one for one in before if one not in removed]
    event = left[-1][1]
    assert (event.kind, event.position) == (HistoryPruned.kind, len(before) + 1)
    with closing(open_store(address("log"))) as store:
        archive(store, tmp_path / "archive", NOW + DAY)
    with closing(open_store(address("again"), exclusive=True)) as store:
        import_archive(tmp_path / "archive", store)
    assert entries(address("again")) == [*before, left[-1]]
    assert verified(address("again")).pruned == 0, "a log that was brought back is replayed from its beginning"


def test_a_log_is_pruned_again_and_again(address: Address, tmp_path: Path) -> None:
    settings, sizes = SETTINGS["hybrid"], []
    for day in range(4):
        shop = Shop(address("log"), settings)
        shop.visit(1.5)
        before = shop.close()
        assert len(pruned(address("log"), tmp_path / "archive", 1.2 * (day + 1)).pruned) == 1
        assert not pruned(address("log"), tmp_path / "archive", 1.2 * (day + 1)).pruned
        again = Shop(address("log"), settings)
        assert knows(contents(again.ranker), before)
        again.close()
        sizes.append(sum(one.kind == DecisionMade.kind for _, one in entries(address("log"))))
        assert verified(address("log")).equal > 0
    assert max(sizes) < 4 * 1.5 * 24 / 2, "only the days after the last pruning are left"
    archived = [one for part in archive_parts(tmp_path / "archive") for one in part.read()]
    assert [entry.position for _, entry in archived] == [*range(1, len(archived) + 1)]


def test_an_open_decision_learns_after_the_entries_around_it_were_removed(address: Address, tmp_path: Path) -> None:
    shop = Shop(address("log"), LONG_WINDOW)
    shop.visit(1)
    late, settled = shop.ranker.rank(), shop.ranker.rank()
    shop.ranker.feedback(late.id, clicked=[0], event="first")
    shop.ranker.feedback(settled.id, clicked=[0], final=True)
    shop.visit(2)
    shop.close()
    pruned(address("log"), tmp_path / "archive", 2)
    shop = Shop(address("log"), LONG_WINDOW)
    assert shop.ranker.feedback(late.id, clicked=[0], event="first").status == "duplicate"
    assert shop.ranker.feedback(late.id, clicked=[1], event="second", final=True).status == "learned"
    assert len(shop.ranker.history(late.id).events) == 2
    with pytest.raises(UnknownDecision):
        shop.ranker.feedback(settled.id, clicked=[1])
    shop.close()
    verified(address("log"))


def test_a_challenger_keeps_what_it_learned_and_a_new_one_learns_from_what_is_left(tmp_path: Path) -> None:
    address, other = str(tmp_path / "log.db"), config("gts", window=7200.0)
    registry = RankerRegistry.open(
        ServiceSettings(
            log=address, rankers={"shop": {"policy": "cascade-lin-ts", "slots": 3, "dim": 3, "window": 7200.0}}
        )
    )
    clock = Clock()
    clock.now = start = time.time()  # by which the registry writes
    ranker = registry.ranker("shop")
    ranker._clock = clock
    registry.put_items("shop", items(6))
    ranker.add_challenger(Replica(other))
    for n in range(80):
        ranker.feedback(ranker.rank(visitor=f"v{n}").id, clicked=[n % 3])
        clock.now += DAY / 20
    assert ranker._challenger is not None
    expected = snapshots.take(ranker._challenger).all_arrays()
    registry.close()

    store = open_store(address, exclusive=True)
    for name in ("shop", "shop~challenger"):
        with store.rewriting() as rewriting:
            rewriting.delete_snapshot(name)
    with pytest.raises(InvalidInput, match="a time that is more than 24 hours ago"):
        prune(store, tmp_path / "archive", time.time(), {})
    archive(store, tmp_path / "archive", start + 9 * DAY)
    assert prune(store, tmp_path / "archive", start + 2 * DAY, {"shop": other.plain()}, now=start + 9 * DAY).pruned[
        0
    ].bases.keys() == {
        "shop~base-0",
        "shop~base-1",
    }
    again = snapshots.start(other, store, "shop", challenger=True)
    arrays = snapshots.take(again).all_arrays()
    assert all(arrays[name].tobytes() == expected[name].tobytes() for name in expected)
    new = snapshots.start(config("cascade-ucb1", window=7200.0), store, "shop", challenger=True)
    assert 0 < new.counters.total[0][0] < again.counters.total[0][0]
    assert (new.decided, len(new.items)) == (again.decided, len(again.items))
    assert [change.kind for change in change_history(store, "shop").events].count("pruning") == 1
    store.close()


def test_a_promoted_policy_is_verified_from_its_own_base_state(tmp_path: Path) -> None:
    address, shop = str(tmp_path / "log.db"), Shop(str(tmp_path / "log.db"))
    shop.visit(2)
    shop.ranker.add_challenger(snapshots.start(config("gts", window=7200.0), shop.store, "shop"))
    shop.visit(1)
    shop.ranker.promote()
    shop.visit(1)
    shop.close()
    total = verified(address).equal
    assert len(pruned(address, tmp_path / "archive", 2).pruned[0].bases) == 2
    lists = verified(address)
    assert lists.equal + lists.pruned == lists.decided
    assert total / 3 < lists.equal < total
    # A challenger that is rebuilt from what is left and promoted is verified from what is left.
    shop = Shop(address, config("gts", window=7200.0))
    shop.ranker.add_challenger(snapshots.start(config("cascade-ucb1", window=7200.0), shop.store, "shop"))
    shop.visit(0.5)
    shop.ranker.promote()
    shop.visit(1)
    shop.close()
    assert verified(address).equal > lists.equal + 20


# What is refused


def test_nothing_is_removed_that_the_archive_does_not_have(tmp_path: Path) -> None:
    address, folder = str(tmp_path / "log.db"), tmp_path / "archive"
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    before = entries(address)
    with closing(open_store(address, exclusive=True)) as store:
        with pytest.raises(InvalidInput, match="a folder that `rankloop log archive` wrote"):
            prune(store, folder, 2 * DAY, {}, now=NOW)
        archive(store, folder, 1 * DAY)
        with pytest.raises(InvalidInput, match=r"covers the log up to position .*; run `rankloop log archive` first"):
            prune(store, folder, 2 * DAY, {}, now=NOW)
        archive(store, folder, NOW)
        entry = next(one for _, one in before if one.kind == DecisionMade.kind)
        with store.rewriting() as rewriting:
            rewriting.replace(entry._replace(body=entry.body + b" "))
        with pytest.raises(InvalidInput, match=f"different from the log at position {entry.position}"):
            prune(store, folder, 2 * DAY, {}, now=NOW)
        with store.rewriting() as rewriting:
            rewriting.replace(entry)
    assert entries(address) == before


def test_a_log_without_settings_is_left_as_it_is(tmp_path: Path) -> None:
    """Of two rankers in one log, the imported one stays, and the other one is pruned."""
    address = str(tmp_path / "log.db")
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    with closing(open_store(address, exclusive=True)) as store:
        moved = [("imported", one) for _, one in all_entries(store) if one.kind in ("items-put", "decision")]
        store.append(moved)
    done = pruned(address, tmp_path / "archive", 2)
    assert [one.log for one in done.pruned] == ["shop"]
    assert "a log with the settings of its ranker" in done.kept["imported"]
    with closing(open_store(address)) as store:
        assert len(list(store.read("imported"))) == len(moved)


def test_a_missing_or_unusable_base_state_stops_the_ranker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = str(tmp_path / "log.db")
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    pruned(address, tmp_path / "archive", 2)
    store = SqliteStore(address)
    with store.rewriting() as rewriting:
        rewriting.delete_snapshot("shop")
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "_layout", lambda replica: {"learners": "other"})
        with pytest.raises(CannotReplay, match="log import ARCHIVE LOG"):
            snapshots.start(SETTINGS["bayes"], store, "shop")
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr("rankloop.catalogue.code_of", lambda policy: "of a later version")
        snapshots.start(SETTINGS["bayes"], store, "shop")
    assert "its base state at" in caplog.text
    with store.rewriting() as rewriting:
        rewriting.delete_snapshot("shop~base-0")
    with pytest.raises(CannotReplay, match="the base state cannot be used: it is missing"):
        snapshots.start(SETTINGS["bayes"], store, "shop")
    store.close()


def test_counts_that_a_later_version_adds_do_not_make_a_base_state_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "log.db")
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    pruned(address, tmp_path / "archive", 2)
    store = SqliteStore(address)
    with store.rewriting() as rewriting:
        rewriting.delete_snapshot("shop")
    before = snapshots.start(SETTINGS["bayes"], store, "shop")
    old = snapshots.take(before).all_arrays()
    monkeypatch.setattr(counters, "FIELDS", (*counters.FIELDS, "of a later version"))
    monkeypatch.setattr(snapshots, "FIELDS", counters.FIELDS)
    after = snapshots.start(SETTINGS["bayes"], store, "shop")
    new = snapshots.take(after).all_arrays()
    assert all(old[name].tobytes() == new[name].tobytes() for name in old if not name.startswith("counters."))
    assert new["counters.total"].shape[1] == old["counters.total"].shape[1] + 1
    assert np.array_equal(new["counters.total"][:, :-1], old["counters.total"])
    store.close()


def test_an_entry_before_the_base_state_cannot_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = str(tmp_path / "log.db")
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    (done,) = pruned(address, tmp_path / "archive", 2).pruned
    last = next(one for _, one in entries(address)[::-1] if one.kind == "feedback")
    assert main(["log", "skip", "shop", "3", "--reason", "x", "--log", address]) == 2
    assert f"a position after {done.position}" in capsys.readouterr().err
    assert main(["log", "skip", "shop", str(last.position), "--reason", "x", "--log", address]) == 0
    store = SqliteStore(address)
    snapshots.start(SETTINGS["bayes"], store, "shop")  # from the base state: the snapshot has the skipped entry
    store.close()


# The command


def test_the_command_says_what_it_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = str(tmp_path / "log.db"), str(tmp_path / "archive")
    shop = Shop(address)
    shop.visit(3)
    shop.close()
    assert main(["log", "archive", address, folder]) == 0
    size = Path(address).stat().st_size
    assert main(["log", "prune", address, "--before", "1970-01-03", "--archive", folder]) == 0
    (line,) = capsys.readouterr().out.splitlines()[-1:]
    assert line.startswith("shop: ")
    assert "entries up to position" in line
    assert line.endswith("decisions were open and stay.")
    assert Path(address).stat().st_size < size + 100_000
    assert main(["log", "prune", address, "--before", "1970-01-03", "--archive", folder]) == 0
    assert capsys.readouterr().out == "nothing to remove.\n"
    assert main(["log", "verify", address]) == 0
    assert "24 of 24 lists decided again" in capsys.readouterr().out
    served = open_store(address, exclusive=True)
    assert main(["log", "prune", address, "--before", "1970-01-03", "--archive", folder]) == 2
    assert "is being served by another process" in capsys.readouterr().err
    served.close()
    assert main(["log", "prune", address, "--before", "soon", "--archive", folder]) == 2
    assert "--before is 'soon'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_pruning_removed_all_or_nothing(address: Address, tmp_path: Path) -> None:
    shop = Shop(address("log"))
    shop.visit(20, each=60)
    before = shop.close()
    folder = tmp_path / "archive"
    with closing(open_store(address("log"))) as store:
        archive(store, folder, NOW)
    whole, ends = entries(address("log")), set[int]()
    back_up(address("log"), tmp_path / "backup.db")
    for n in range(10):
        command = ("log", "prune", address("log"), "--before", "1970-01-15", "--archive", str(folder))
        killed(tmp_path, *command, after=1.0 + 0.25 * n)
        time.sleep(0.2)  # the server ends the session of the process
        left = entries(address("log"))
        ends.add(len(left))
        assert left == whole or left[-1][1].kind == HistoryPruned.kind
        shop = Shop(address("log"))
        assert knows(contents(shop.ranker), before)
        shop.close(snapshot=False)
        verified(address("log"))
        if left != whole:
            restore(tmp_path / "backup.db", address("log"), force=True)
    assert len(ends) <= 2, "the log as it was, or pruned completely"


def test_a_backup_of_a_pruned_log_is_restored_with_its_base_state(address: Address, tmp_path: Path) -> None:
    shop = Shop(address("log"))
    shop.visit(3)
    before = shop.close()
    pruned(address("log"), tmp_path / "archive", 2)
    back_up(address("log"), tmp_path / "backup.db")
    restore(tmp_path / "backup.db", address("restored"))
    with closing(open_store(address("restored"))) as store, store.rewriting() as rewriting:
        rewriting.delete_snapshot("shop")
    again = Shop(address("restored"))
    assert knows(contents(again.ranker), before)
    again.close()
    assert verified(address("restored")).equal > 0


# Erasure


def test_visitors_are_erased_in_a_pruned_log_its_base_state_and_its_archive(address: Address, tmp_path: Path) -> None:
    shop, erased = Shop(address("log"), LONG_WINDOW), "somebody-4711"
    shop.visit(0.5)
    shop.ranker.feedback(shop.ranker.rank(visitor=erased).id, clicked=[0], final=True)
    shop.visit(0.5)
    open_id = shop.ranker.rank(visitor=erased, decision=f"order of {erased}").id
    shop.visit(2.5)
    shop.close()
    folder = tmp_path / "archive"
    pruned(address("log"), folder, 2)
    with closing(open_store(address("log"))) as store, store.rewriting() as rewriting:
        rewriting.delete_snapshot("shop")  # so that everything depends on the base state
    lists = verified(address("log"))
    with closing(open_store(address("log"))) as store:
        base = store.load_snapshot("shop~base-0")
        assert base is not None
        assert erased.encode() in base.body, "the id of the open decision"

    names = tmp_path / "names.txt"
    names.write_text(erased)
    log = tmp_path / "address"
    log.write_text(address("log"))
    assert main(["log", "erase", f"@{log}", "--visitors-file", str(names), "--archive", str(folder)]) == 0

    with closing(open_store(address("log"))) as store:
        base = store.load_snapshot("shop~base-0")
        assert base is not None
        assert erased.encode() not in base.body
        assert store.find("shop", DecisionMade.kind, open_id) is None
        assert not [one for _, one in all_entries(store) if erased.encode() in one.body or erased in one.key]
    assert verified(address("log")).equal == lists.equal
    shop = Shop(address("log"), LONG_WINDOW)
    shop.visit(0.5)
    shop.close()
    verified(address("log"))
    archived = [one for part in archive_parts(folder) for _, one in part.read()]
    assert [entry.position for entry in archived] == [*range(1, len(archived) + 1)]
    assert not [one for one in archived if erased.encode() in one.body or erased in one.key]
    assert erased.encode() not in b"".join(path.read_bytes() for path in folder.rglob("*.parquet"))
    assert sorted(path.name for path in folder.iterdir()) == ["decisions", "entries"]
    assert not list(tmp_path.glob("archive.*"))


def test_a_base_state_forgets_the_categories_that_only_erased_visitors_had() -> None:
    """The category of a context is replaced, and keeps its column; those of others stay."""
    features = {"items": {"kind": "category"}, "context": {"city": "category", "device": "category"}}
    ranker = Ranker(RankerConfig.of({"slots": 1, "features": features}))
    ranker.put_items([{"id": "a", "fields": {"kind": "tea"}}, {"id": "b", "fields": {"kind": "cup"}}])
    for city in ("Rome", "Nowhere-on-Sea", "Oslo"):
        ranker.feedback(ranker.rank(context={"city": city, "device": "phone"}).id, clicked=[0])
    before = snapshots.packed(snapshots.take(ranker._replica))

    def text_of(field: str, text: str) -> str:
        return "erased-1" if (field, text) == ("city", "Nowhere-on-Sea") else text

    after = snapshots.renamed(before, {}, text_of)
    assert b"Nowhere-on-Sea" in before.body
    assert b"Nowhere-on-Sea" not in after.body
    replica = snapshots.restored(ranker.config, (), after)
    encoder, known = replica.items.encoding, ranker._replica.items.encoding
    assert encoder is not None
    assert known is not None
    assert encoder.context is not None
    assert known.context is not None
    for old, new in (("Rome", "Rome"), ("Nowhere-on-Sea", "erased-1"), ("Oslo", "Oslo")):
        np.testing.assert_array_equal(encoder.context.rows([{"city": new}]), known.context.rows([{"city": old}]))
