"""Check that a ranker fits a world, and create the ranker or its items where they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct, convert

from rankloop.catalogue.setting_use import OF_POLICY, read_by
from rankloop.client import Calls, Client
from rankloop.errors import InvalidInput, NotAllowed, NotFound, RankloopError
from rankloop.objective import Amount, AnyClick
from rankloop.schema.mappings import fields_of
from rankloop.serving import Item
from rankloop.types import Setting
from rankloop.visitors.audience import Audience
from rankloop.visitors.retry import Retry
from rankloop.visitors.visit_requests import VALUES

ITEMS_PER_PAGE = 1_000
"""Items of one request."""
MAX_BODY_BYTES = 500_000
"""Limit of one request that puts items; a service accepts at least twice as much."""


@dataclass(frozen=True)
class RankerFit:
    """What `fit` did: whether it created the ranker, how many items it put, and which candidates to request."""

    created: bool
    put: int
    candidates: list[str] | None  # the world's items, where the ranker also has others
    values: frozenset[str] = VALUES  # which values of a visit the ranker takes


def fit(
    service: Client,
    ranker: str,
    audience: Audience,
    *,
    create: str | None = None,
    slots: int | None = None,
    rounds: int = 0,
    retry: Retry,
) -> RankerFit:
    """Make a ranker fit a world's visitors; raise an error and change nothing where that is impossible.

    Args:
        service: a client of the service.
        ranker: the name of the ranker.
        audience: the world's visitors.
        create: the policy of a ranker to create, where none of this name exists.
        slots: slots of a created ranker (default: the world's).
        rounds: the horizon of a created ranker, for policies that need one (0 for unknown).
        retry: how failed requests are retried.
    """
    setting = audience.setting
    if slots is not None and slots < setting.slots:
        raise InvalidInput("--slots", slots, f"at least {setting.slots}, since this world's lists are that long")
    try:
        config, created = retry.ask(service, Calls.ranker(ranker)).config, False
    except NotFound:
        if create is None:
            raise RankloopError(
                f"there is no ranker {ranker!r}; name one of `rankloop rankers list`, or give --create POLICY."
            ) from None
        config, created = settings_for(setting, create, slots or setting.slots, rounds), True
        retry.ask(service, Calls.put_ranker(ranker, config))
    sizes = check_ranker(config, ranker, setting)
    existing = _all_items(service, ranker, retry)
    missing = _missing(audience.items, existing, ranker, sizes.dim, setting)
    _put(service, ranker, missing, retry)
    others = existing.keys() - {item.id for item in audience.items}
    candidates = [item.id for item in audience.items] if others else None
    return RankerFit(created, len(missing), candidates, values_for(config))


def values_for(config: Mapping[str, object]) -> frozenset[str]:
    """Return which values of a visit a ranker with these settings takes."""
    taken = {"features"} if config.get("dim") is not None else set()
    if config.get("objective") == "revenue":
        taken.add("price")
    params = fields_of(config.get("params")) or {}
    if "rewards" in read_by(str(config.get("policy", "")), **params):
        taken.add("rewards")
    return frozenset(taken)


def settings_for(setting: Setting, policy: str, slots: int, rounds: int) -> dict[str, object]:
    """Return the settings of a new ranker for a world."""
    config: dict[str, Any] = {"policy": policy, "slots": slots}
    config |= {name: n for name in ("dim", "context") if (n := getattr(setting, name)) is not None}
    if setting.bias is not None and len(setting.bias) == slots:
        config["bias"] = np.asarray(setting.bias).tolist()
    if setting.prior is not None:
        a, b = (np.unique(shape) for shape in (setting.prior.a, setting.prior.b))
        if len(a) == len(b) == 1:  # a ranker has the same prior for all items
            config["prior"] = [float(a[0]), float(b[0])]
    if setting.objective.name != AnyClick.name:  # which is the default
        config["objective"] = setting.objective.name
    if setting.objective.name == Amount.name:  # amounts require that every slot is observed
        config["params"] = {"feedback": "semi-bandit" if "bias" not in config else "position-based"}
    read = read_by(policy, **config.get("params", {}))
    if rounds and "rounds" in read:
        config["rounds"] = rounds
    optional = OF_POLICY if setting.objective.name == Amount.name else (*OF_POLICY, "objective")
    return {name: value for name, value in config.items() if name in read or name not in optional}


class RankerSizes(Struct, frozen=True):
    """The settings of a ranker that a world must fit."""

    slots: int
    context: int | None = None
    dim: int | None = None


def check_ranker(config: Mapping[str, object], ranker: str, setting: Setting) -> RankerSizes:
    """Return the sizes of a ranker; refuse one that lacks what the world needs, or needs what the world lacks."""
    name, sizes = f"ranker {ranker!r}", convert(config, RankerSizes)
    if sizes.slots < setting.slots:
        raise RankloopError(f"{name} has {_many(sizes.slots, 'slot')}, and this world's lists have {setting.slots}.")
    if sizes.context != setting.context:
        each = (sizes.context, setting.context)
        has, needs = (f"a context of {_many(n, 'number')}" if n else "no context" for n in each)
        raise RankloopError(f"{name} takes {has}, and visitors of this world have {needs}.")
    # A ranker without features may serve items that have some; they are not sent.
    if sizes.dim is not None and sizes.dim != setting.dim:
        has = _many(setting.dim, "feature") if setting.dim else "none"
        raise RankloopError(f"{name} needs items of {_many(sizes.dim, 'feature')}, and items of this world have {has}.")
    return sizes


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _all_items(service: Client, ranker: str, retry: Retry) -> dict[str, Item]:
    found: list[Item] = []
    while True:
        page = retry.ask(service, Calls.items(ranker, limit=ITEMS_PER_PAGE, offset=len(found)))
        found += page
        if len(page) < ITEMS_PER_PAGE:
            return {item.id: item for item in found}


def _missing(
    items: tuple[Item, ...], existing: Mapping[str, Item], ranker: str, dim: int | None, setting: Setting
) -> list[Item]:
    """Return the items to put; an existing item of the same id must be equal."""
    wanted = []
    for item in items:
        features = item.features if dim is not None else None
        if item.id not in existing:
            wanted.append(Item(item.id, features=features, price=item.price))
            continue
        theirs = existing[item.id]
        same = features is None or (theirs.features is not None and np.allclose(features, theirs.features, rtol=1e-9))
        if not same or (setting.objective.prices is not None and theirs.price != item.price):
            differs = "has other features or another price than in this world"
            raise RankloopError(f"{item.id} of ranker {ranker!r} {differs}; choose another ranker, or its seed.")
    return wanted


def _put(service: Client, ranker: str, items: list[Item], retry: Retry) -> None:
    each = 100 + 25 * len(items[0].features or ()) if items else 1
    size = max(1, min(ITEMS_PER_PAGE, MAX_BODY_BYTES // each))
    for start in range(0, len(items), size):
        try:
            retry.ask(service, Calls.put_items(ranker, items[start : start + size]))
        except NotAllowed as error:
            lacks = f"ranker {ranker!r} lacks {len(items) - start} of this world's items"
            raise RankloopError(f"{lacks}, and they cannot be put: {error}") from None
