"""Accepted inputs that once broke a ranker, and damage that once spread: each is refused, or stays where it is."""

from __future__ import annotations

import copy
import dataclasses
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rankloop import catalogue
from rankloop.belief import Gaussian, GaussianState
from rankloop.catalogue import registry
from rankloop.cli.main import main
from rankloop.design import PerItem
from rankloop.errors import InvalidInput, Quarantined, RankloopError, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.events import ItemsPut
from rankloop.explore import Thompson
from rankloop.feedback import Cascade
from rankloop.hosting.change_history import change_history
from rankloop.hosting.registry import RankerRegistry
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.schema import Item, Prior, Quarantine
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker, RankerConfig, UnknownDecision
from rankloop.serving.replica import Replica
from rankloop.types import Decision, Evidence, Setting
from served import until
from test_ranker import config, items

GTS: dict[str, Any] = {"policy": "gts", "slots": 2, "commit": "all"}


@contextmanager
def opened(log: Path) -> Iterator[RankerRegistry]:
    """The rankers of a log, as a service opens them."""
    rankers = RankerRegistry.open(ServiceSettings(log=str(log)))
    try:
        yield rankers
    finally:
        rankers.close()


def visit(ranker: Ranker, lists: int = 3, **asked: Any) -> str:
    """Lists and clicks on them; the id of the last list."""
    for _ in range(lists):
        ranking = ranker.rank(**asked)
        ranker.feedback(ranking.id, clicked=[0] if ranking.ids else [], final=True)
    return ranking.id


def damage(log: Path, change: str, *values: Any) -> None:
    with closing(sqlite3.connect(log)) as connection, connection:
        assert connection.execute(change, values).rowcount > 0


# Starting anew


def test_a_reset_drops_priors_of_other_units_and_keeps_the_items(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", GTS | {"objective": "amount", "params": {"feedback": "semi-bandit"}})
        rankers.put_items("r", [{"id": "a", "prior": {"score": 500.0, "strength": 3}}, {"id": "b"}])
        rankers.patch("r", {"objective": "any-click", "reset": True})
        visit(rankers.find("r").ranker)
    with opened(tmp_path / "log.db") as rankers:
        again = rankers.find("r").ranker
        assert [(item.id, item.prior) for item in again.items()] == [("a", None), ("b", None)]
        assert again.counts()["decisions"] == 3
        assert again.config.objective == "any-click"


def test_a_reset_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The items cannot be put into the new log: the old ranker goes on, also after a restart."""
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", GTS)
        rankers.put_items("r", [{"id": "a"}, {"id": "b"}])
        with monkeypatch.context() as patch:
            patch.setattr(Ranker, "put_items", _fails)
            with pytest.raises(MemoryError):
                rankers.patch("r", {"slots": 3, "reset": True})
        visit(rankers.find("r").ranker)
        assert [event.kind for event in change_history(rankers.store, "r").events] == ["config"]
    with opened(tmp_path / "log.db") as rankers:
        again = rankers.find("r").ranker
        assert (again.config.slots, len(again.items()), again.counts()["decisions"]) == (2, 2, 3)


def test_a_registry_that_cannot_be_opened_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidInput):
        RankerRegistry(ServiceSettings(rankers={"a": GTS | {"slots": 0}}), MemoryStore())
    assert not [one for one in set(threading.enumerate()) - before if one.name == "rankloop-writer"]


def test_the_rebuild_of_a_quarantined_ranker_is_stopped_with_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    rankers = RankerRegistry(ServiceSettings(), MemoryStore())
    rankers.put("a", GTS)
    stopped = threading.Event()

    def endless(*given: Any) -> None:
        while True:
            given[-1]()  # the pause of a rebuild, which raises once it is stopped

    monkeypatch.setattr("rankloop.hosting.challenger_rebuild.compare", endless)
    hosted = rankers.put_challenger("a", GTS)
    assert hosted.rebuild is not None
    stop = hosted.rebuild.stop

    def stop_and_note() -> None:
        stop()
        stopped.set()

    monkeypatch.setattr(hosted.rebuild, "stop", stop_and_note)
    hosted.ranker.quarantine = Quarantine(1, "of a fault")
    rankers.close()
    assert stopped.is_set()


def _fails(*given: Any, **options: Any) -> None:
    raise MemoryError


def test_visitors_keep_their_group_and_history_its_order_through_a_reset(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", GTS | {"traffic": 0.5})
        rankers.put_items("r", [{"id": "a"}, {"id": "b"}])

        def groups() -> list[str]:
            return [rankers.find("r").ranker.rank(visitor=f"v{n}").group for n in range(40)]

        before = groups()
        rankers.patch("r", {"slots": 1, "reset": True})
        assert groups() == before
        rankers.delete("r")
        rankers.put("r", GTS)
        events = change_history(rankers.store, "r").events
        assert [(event.kind, event.reset) for event in events] == [
            ("config", False),
            ("config", True),
            ("deleted", False),
            ("config", False),
        ]


def test_a_log_without_a_ranker_does_not_block_a_name(tmp_path: Path) -> None:
    """The process ended after the new log began and before anybody knew of it."""
    store = SqliteStore(tmp_path / "log.db")
    Ranker(RankerConfig.of(GTS), name="r", store=store).close()
    store.close()
    with opened(tmp_path / "log.db") as rankers:
        assert rankers.put("r", GTS | {"slots": 3})
        assert rankers.find("r").ranker.config.slots == 3


def test_a_log_that_was_written_in_process_goes_on_in_a_service(tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", RankerConfig.of(GTS), name="shop")
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    visit(ranker)
    ranker.close()
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("shop", GTS | {"traffic": 0.5})
        assert rankers.find("shop").ranker.counts()["decisions"] == 3
        assert rankers.find("shop").ranker.config.traffic == 0.5


# Priors


def test_a_prior_in_amounts_means_nothing_to_a_challenger_of_clicks() -> None:
    ranker = Ranker(RankerConfig.of(GTS | {"objective": "amount", "params": {"feedback": "semi-bandit"}}))
    ranker.put_items([{"id": "a", "prior": {"score": 5.0, "strength": 10}}, {"id": "b"}])
    ranker.add_challenger(Replica(RankerConfig.of({"policy": "ts-beta", "slots": 2, "prior": [1, 1], "commit": "all"})))
    ranker.put_items([{"id": "a", "prior": {"score": 7.0, "strength": 10}}])
    ranker.promote()
    assert len(ranker.rank().ids) == 2


def test_priors_are_taken_back_with_their_items_and_whatever_rounding_says() -> None:
    linear = Ranker(RankerConfig.of({"policy": "cascade-lin-ucb", "slots": 1, "dim": 2, "rounds": 100}))
    item = {"id": "a", "features": [1.0, 0.0], "prior": {"score": 0.5, "strength": 10}}
    linear.put_items([item])
    fresh: Any = linear._replica.learners.fresh
    once = fresh.belief.F.copy()
    for _ in range(3):
        linear.remove_items(["a"])
        linear.put_items([item])
    fresh = linear._replica.learners.fresh
    np.testing.assert_allclose(fresh.belief.F, once, rtol=1e-9)
    beta = Ranker(RankerConfig.of({"policy": "ts-beta", "slots": 1, "prior": [1e-12, 1e-12]}))
    for strength in (1e6, 0.0, 3.0, 0.0):
        beta.put_items([{"id": "a", "prior": {"score": 0.3, "strength": strength}}])
    assert beta.rank().ids == ("a",)


def test_a_prior_that_would_drown_what_is_learned_is_refused() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-lin-ts", "slots": 1, "dim": 2}))
    with pytest.raises(InvalidInput, match=r"items\[0\].prior.strength is 1000000.0; accepted: at most 100,"):
        ranker.put_items([{"id": "a", "features": [100.0, 0.0], "prior": {"score": 0.5, "strength": 1e6}}])
    ranker.put_items([{"id": "a", "features": [1.0, 0.0], "prior": {"score": 0.5, "strength": 1e6}}])
    with pytest.raises(InvalidInput, match=r"prior\.strength"):
        ranker.put_items([{"id": "a", "features": [1e3, 0.0]}])


@dataclass(frozen=True)
class Fading(Gaussian):
    """Forgets, its prior too."""

    def update(self, state: GaussianState, decision: Decision, evidence: Evidence) -> None:
        state.precision *= 0.9
        super().update(state, decision, evidence)


def test_a_belief_with_an_update_of_its_own_takes_no_pseudo_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    def fading(setting: Setting) -> Policy[GaussianState]:
        """Forgets."""
        return Policy(PerItem(), Fading(setting.items), Thompson(), TopK(), Cascade())

    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.policy("fades", paper="baseline")(fading)
    ranker = Ranker(RankerConfig.of({"policy": "fades", "slots": 1}))
    with pytest.raises(InvalidInput, match="takes no scores of another ranker"):
        ranker.put_items([{"id": "a", "prior": {"score": 0.5, "strength": 10}}])


def test_an_item_can_be_put_as_it_was_read_also_after_a_switch() -> None:
    ranker = Ranker(RankerConfig.of(GTS))
    ranker.put_items([{"id": "a", "prior": {"score": 0.5, "strength": 10}}, {"id": "b"}])
    ranker.add_challenger(Replica(RankerConfig.of(GTS | {"policy": "toprank", "rounds": 100})))
    ranker.promote()
    ranker.put_items(ranker.items())
    with pytest.raises(InvalidInput, match="prior"):
        ranker.put_items([{"id": "a", "prior": {"score": 0.6, "strength": 10}}])


# Numbers


@pytest.mark.parametrize(
    ("config", "features"),
    [
        ({"policy": "lin-ts-ltr", "discount": 0.5}, [1e6, 1e6]),
        ({"policy": "cascade-lin-ts", "discount": 0.9}, [1e6, 1e6]),
        ({"policy": "gl-cdcm", "params": {"lam": 1e-6}}, [1e6, 1e6]),
        ({"policy": "gl-cdcm", "params": {"lam": 1e-12}}, [1.0, 1.0]),
        ({"policy": "log-ts-ltr"}, [1e6, 1e6]),
    ],
)
def test_large_features_and_small_ridges_are_learned_from(config: dict[str, Any], features: list[float]) -> None:
    store = MemoryStore()
    given = RankerConfig.of({"slots": 2, "dim": 2, "commit": "all"} | config)
    ranker = Ranker(given, store=store)
    ranker.put_items([{"id": "a", "features": features}, {"id": "b", "features": features}])
    visit(ranker, 30)
    assert ranker.quarantine is None
    again = Ranker(given, store=copy.deepcopy(store))  # a log has one writer
    assert again.rank().ids == ranker.rank().ids


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"policy": "gts", "params": {"sigma": 1e-200}}, "ranker.params.sigma"),
        ({"policy": "gts", "params": {"sigma": 1e155}}, "ranker.params.sigma"),
        ({"policy": "cascade-lin-ts", "dim": 1, "params": {"sigma": 1e-160}}, "ranker.params.sigma"),
        ({"policy": "cascade-lin-ucb", "dim": 1, "rounds": 9, "params": {"sigma": 1e-300}}, "ranker.params.sigma"),
        ({"policy": "ucr", "context": 2, "params": {"xi": 1.7e308}}, "ranker.params.xi"),
        ({"policy": "bayes-ucb", "prior": [1e-12, 1e300]}, "ranker.prior"),
        ({"policy": "ts-beta", "prior": [1e-300, 1.0]}, "ranker.prior"),
    ],
)
def test_parameters_that_cannot_be_computed_with_are_refused_at_once(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        RankerConfig.of({"slots": 2} | given)
    assert error.value.field.startswith(field)


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize("id", [entry.id for entry in catalogue.entries()])
def test_the_smallest_and_largest_parameters_can_be_served(id: str, size: float) -> None:
    """Each parameter at the ends of what is accepted: lists are made of items that are there, and learned from."""
    for param in catalogue.find(id).params:
        try:
            given = config(id, params={param.name: size})
        except RankloopError:
            continue
        ranker = Ranker(replace(given, commit="all"))
        ranker.put_items(items(5, topics=given.coverage))
        asked = {"context": [0.5, 1.0]} if given.context else {}
        visit(ranker, 4, **asked)
        ranker.put_items(items(20, topics=given.coverage))
        visit(ranker, 4, **asked)
        assert ranker.quarantine is None


@pytest.mark.parametrize("id", [".", ".."])
def test_steps_of_a_path_are_no_ids(id: str) -> None:
    """A client would ask for the folder above: for the ranker itself."""
    ranker = Ranker(RankerConfig.of(GTS))
    with pytest.raises(InvalidInput, match=r"items\[0\].id"):
        ranker.put_items([{"id": id}])
    ranker.put_items([{"id": "a"}])
    with pytest.raises(InvalidInput, match="decision"):
        ranker.rank(decision=id)


def test_lists_made_before_a_switch_are_checked_by_the_policy_that_made_them() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "ts-beta", "slots": 2, "prior": [1, 1], "commit": "all"}))
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    early = ranker.rank().id
    ranker.add_challenger(Replica(RankerConfig.of(GTS)))
    ranker.promote()
    late = ranker.rank().id
    with pytest.raises(Unsupported, match="learns from clicks"):
        ranker.feedback(early, values=[7.0, 0.0])
    assert ranker.feedback(late, values=[7.0, 0.0]).status == "learned"


def test_settings_that_nobody_would_use_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", GTS)
        with pytest.raises(
            InvalidInput, match=r"ranker.window is 5; accepted: 3600.0, the ranker's setting for either policy"
        ):
            rankers.put_challenger("r", GTS | {"policy": "ts-cascade", "window": 5})
        with pytest.raises(InvalidInput, match=r"ranker\.nonsense"):
            rankers.patch("r", {"nonsense": None})


# Damage


def served_log(tmp_path: Path) -> tuple[Path, str]:
    """Two rankers with a snapshot each, one of them with a challenger; and a decision of the first."""
    log = tmp_path / "log.db"
    with opened(log) as rankers:
        for name in ("one", "two"):
            rankers.put(name, GTS)
            rankers.put_items(name, [{"id": "a"}, {"id": "b"}, {"id": "c"}])
            decision = visit(rankers.find(name).ranker)
            if name == "one":
                first = decision
        rankers.put_challenger("one", {"policy": "ts-cascade", "slots": 2})
        until(lambda: rankers.challenger_status("one").state == "ready", "the challenger is there")
    return log, first


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE snapshot SET body = x''",
        "UPDATE snapshot SET body = x'' WHERE ranker = 'one~challenger'",
        "UPDATE snapshot SET body = substr(body, 1, length(body) / 2)",
        "UPDATE snapshot SET body = CAST(replace(body, 'counters.total', 'counters.total2') AS BLOB)",
    ],
)
def test_a_damaged_snapshot_costs_a_replay_and_nothing_else(change: str, tmp_path: Path) -> None:
    log, _ = served_log(tmp_path)
    damage(log, change)
    with opened(log) as rankers:
        assert rankers.quarantined == {}
        assert rankers.challenger_status("one").state == "ready"
        for name in ("one", "two"):
            visit(rankers.find(name).ranker)
    assert main(["log", "verify", str(log)]) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE log SET body = x'00' WHERE kind = 'ranker-put' AND subject = 'one'", "its entry cannot be read"),
        (
            "UPDATE log SET body = '{\"log\": 1}' WHERE kind = 'ranker-put' AND subject = 'one'",
            "its entry cannot be read",
        ),
        ("UPDATE log SET body = x'00' WHERE kind = 'config-changed' AND ranker = 'one'", "config-changed event"),
        ("UPDATE log SET body = x'00' WHERE kind = 'items-put' AND ranker = 'one'", "items-put event"),
    ],
)
def test_damage_stays_with_its_ranker(
    change: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = served_log(tmp_path)
    damage(log, "DELETE FROM snapshot")
    damage(log, change)
    with opened(log) as rankers:
        assert list(rankers.quarantined) == ["one"]
        assert said in rankers.quarantined["one"].reason
        assert rankers.quarantined["one"].position > 0
        visit(rankers.find("two").ranker)
        assert "damaged" in {event.kind for event in change_history(rankers.store, "one").events} or "items-put" in said
        rankers.patch("one", {"policy": "gts", "slots": 2, "reset": True})
        assert rankers.quarantined == {}
    main(["log", "verify", str(log)])
    assert "two: 6 of 6 lists decided again, bit for bit" in capsys.readouterr().out


def test_an_excluded_decision_is_unknown_and_a_challenger_can_be_rebuilt(tmp_path: Path) -> None:
    log, decision = served_log(tmp_path)
    damage(log, "DELETE FROM snapshot")
    damage(log, "UPDATE log SET body = x'00' WHERE kind = 'decision' AND key = ?", decision)
    with opened(log) as rankers:
        position = rankers.quarantined["one"].position
    assert main(["log", "skip", "one", str(position), "--reason", "damaged", "--log", str(log)]) == 0
    with opened(log) as rankers:
        ranker = rankers.find("one").ranker
        with pytest.raises(UnknownDecision):
            ranker.history(decision)
        with pytest.raises(UnknownDecision):
            ranker.feedback(decision, clicked=[0])
        with pytest.raises(UnknownDecision):
            ranker.rank(decision=decision)
        rankers.put_challenger("one", {"policy": "cascade-ucb1", "slots": 2})
        until(lambda: rankers.challenger_status("one").state != "rebuilding", "the challenger is there")
        assert rankers.challenger_status("one").state == "ready"
        visit(ranker)
    assert main(["log", "export", str(log), str(tmp_path / "out.parquet"), "--ranker", "one"]) == 0


def test_a_policy_that_fails_sets_its_ranker_aside_where_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ranker = Ranker(RankerConfig.of(GTS), store=store)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    decision = visit(ranker)
    waiting = ranker.rank().id
    with monkeypatch.context() as patch:
        patch.setattr(Policy, "update", _fails)
        with pytest.raises(Quarantined) as error:
            ranker.feedback(waiting, clicked=[0])
    (at,) = [entry.position for entry in store.about("ranker", waiting) if entry.kind == "feedback"]
    assert ranker.quarantine is not None
    assert ranker.quarantine.position == at
    assert f"position {at}" in str(error.value)
    for refused in (ranker.rank, ranker.snapshot, lambda: ranker.feedback(decision, clicked=[0])):
        with pytest.raises(Quarantined):
            refused()


def test_verify_goes_on_after_a_damaged_log_and_counts_what_it_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = served_log(tmp_path)
    damage(log, "UPDATE log SET body = x'00' WHERE kind = 'feedback' AND ranker = 'one'")
    assert main(["log", "verify", str(log)]) == 2
    out = capsys.readouterr()
    assert "one: the log cannot be replayed at position" in out.out
    assert "two: 3 of 3 lists decided again" in out.out
    assert "verification failed for one" in out.err
    control = Ranker.open(tmp_path / "control.db", RankerConfig.of(GTS | {"traffic": 0.0}))
    control.put_items([{"id": "a"}])
    visit(control)
    control.close()
    assert main(["log", "verify", str(tmp_path / "control.db")]) == 2
    assert "nothing was verified" in capsys.readouterr().err


# Priors, settings and policies as an attacker sends them


SEGMENTED = {"score": 0.9, "strength": 5.0, "segments": {"night": {"score": 0.1, "strength": 5.0}}}


def test_priors_of_many_segments_cost_what_they_say() -> None:
    """One item with a thousand of them does not make a thousand items as large."""
    ranker = Ranker(RankerConfig.of(GTS))
    segments = {f"segment-{i}": {"score": 0.1, "strength": 1.0} for i in range(1000)}
    ranker.put_items([{"id": "a", "prior": {"score": 0.5, "strength": 1.0, "segments": segments}}])
    ranker.put_items([{"id": f"item-{i}", "prior": {"score": 0.5, "strength": 1.0}} for i in range(1000)])
    assert sum(array.nbytes for array in ranker._replica.items.arrays().values()) < 1_000_000
    more = segments | {"one-more": {"score": 0.1, "strength": 1.0}}
    with pytest.raises(InvalidInput, match="segments"):
        ranker.put_items([{"id": "a", "prior": {"score": 0.5, "strength": 1.0, "segments": more}}])
    for name in ("a\u0000", "\n", "."):
        given = {"score": 0.5, "strength": 1.0, "segments": {name: {"score": 0.1, "strength": 1.0}}}
        with pytest.raises(InvalidInput, match="segments"):
            ranker.put_items([{"id": "b", "prior": given}])


@pytest.mark.parametrize("again", [{"score": 0.05, "strength": 50.0}, SEGMENTED])
def test_a_challenger_that_cannot_replace_priors_is_given_up(again: dict[str, Any]) -> None:
    """It would go on with the first prior, or with two of them, and might be promoted."""
    linear = {"policy": "lin-ts-ltr", "slots": 1, "dim": 2}
    ranker = Ranker(RankerConfig.of(linear))
    ranker.put_items([{"id": "a", "features": [1, 0], "prior": {"score": 0.9, "strength": 50.0}}])
    ranker.add_challenger(Replica(RankerConfig.of(linear | {"policy": "log-ts-newton"})))
    ranker.put_items([{"id": "a", "features": [1, 0], "prior": again}])
    assert ranker.challenger is None
    with pytest.raises(RankloopError, match="prior"):
        ranker.add_challenger(Replica(RankerConfig.of(linear | {"policy": "log-ts-newton"})))
    assert ranker.quarantine is None


def test_a_reset_drops_priors_that_the_new_policy_cannot_take(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", {"policy": "lin-ts-ltr", "slots": 1, "dim": 2})
        rankers.put_items("r", [{"id": "a", "features": [1, 0], "prior": SEGMENTED}])
        rankers.patch("r", {"policy": "log-ts-newton", "reset": True})
        assert [item.prior for item in rankers.find("r").ranker.items()] == [None]


def test_a_reset_must_use_what_it_newly_says(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", GTS)
        rankers.put_items("r", [{"id": "a"}])
        with pytest.raises(Unsupported, match=r"gts does not use ranker\.dim"):
            rankers.patch("r", {"dim": 7, "reset": True})
        assert [item.id for item in rankers.find("r").ranker.items()] == ["a"]


def test_settings_of_a_promoted_challenger_may_stand_in_the_settings_file(tmp_path: Path) -> None:
    """The service's own answer is accepted again, though its policy does not read the features that items have."""
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", {"policy": "lin-ts-ltr", "slots": 2, "dim": 2})
        rankers.put_items("r", [{"id": "a", "features": [1, 0]}])
        rankers.put_challenger("r", {"policy": "gts", "slots": 2})
        until(lambda: rankers.challenger_status("r").state == "ready", "the challenger follows")
        rankers.promote("r")
        now = rankers.find("r").ranker.config.plain()
    assert (now["policy"], now["dim"]) == ("gts", 2)
    again = RankerRegistry.open(ServiceSettings(log=str(tmp_path / "log.db"), rankers={"r": now}))
    try:
        assert again.find("r").ranker.config.policy == "gts"
        assert again.put("r", now) is False
    finally:
        again.close()


def test_a_link_to_a_log_is_the_same_log(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db"):
        (tmp_path / "link.db").symlink_to(tmp_path / "log.db")
        with pytest.raises(RankloopError, match="served by another process"):
            RankerRegistry.open(ServiceSettings(log=str(tmp_path / "link.db")))


def test_a_policy_of_ones_own_that_raises_is_refused_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    def boom(setting: Setting) -> Any:
        raise KeyError("boom")

    registry._ENTRIES["boom"] = dataclasses.replace(registry.find("random"), id="boom", build=boom, code="a hash")
    with pytest.raises(Unsupported, match=r"boom cannot be built \(KeyError: 'boom'\)"):
        RankerConfig(policy="boom", slots=1)
    with pytest.raises(Unsupported, match=r"ts-beta does not use ranker\.dim"):
        RankerConfig(policy="ts-beta", slots=2, prior=(1.0, 1.0), dim=3)


def test_two_first_priors_at_once_do_not_stop_a_ranker() -> None:
    """Both were accepted before either was in the log: applying refuses nothing, live and in a replay."""
    store = MemoryStore()
    given = RankerConfig.of({"policy": "log-ts-newton", "slots": 1, "dim": 2})
    ranker = Ranker(given, store=store)
    for score in (0.9, 0.1):
        item = Item(id="a", features=(1.0, 0.0), prior=Prior(score, 50.0))
        ranker._submit(ItemsPut(1.0, (item,))).result()
    assert ranker.quarantine is None
    assert ranker.rank().ids == ("a",)
    ranker.flush()
    assert Ranker(given, store=store).rank().ids == ("a",)
