"""Whether a ranker has what a world needs; where it may be made to fit, it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from msgspec import Struct, convert

from rankloop.catalogue.setting_use import OF_POLICY, read_by
from rankloop.client import Calls, Client
from rankloop.errors import InvalidInput, NotAllowed, NotFound, RankloopError
from rankloop.objective import AnyClick
from rankloop.serving import Item
from rankloop.types import Setting
from rankloop.visitors.audience import Audience
from rankloop.visitors.retry import Retry

PAGE = 1_000
"""Items that are asked for at once."""
BODY = 500_000
"""Bytes of items that are sent at once; a service takes at least twice as many."""


@dataclass(frozen=True)
class Fit:
    """What was found and done: whether the ranker is new, how many items were put, and whom to ask for."""

    created: bool
    put: int
    candidates: list[str] | None  # the world's items, where the ranker has others too


def fit(
    service: Client,
    ranker: str,
    audience: Audience,
    *,
    create: str | None = None,
    slots: int | None = None,
    rounds: int = 0,
    patience: Retry,
) -> Fit:
    """Make sure that a ranker can serve a world's visitors; where it cannot, say so and change nothing.

    Args:
        service: that has the ranker.
        ranker: its name.
        audience: the world's visitors.
        create: a policy; where there is no such ranker, one with this policy is created.
        slots: of a ranker that is created (default: the world's).
        rounds: how many visitors will come, for policies that need to know (0: nobody knows).
        patience: with a service that does not answer.
    """
    setting = audience.setting
    if slots is not None and slots < setting.slots:
        raise InvalidInput("--slots", slots, f"at least {setting.slots}, since this world's lists are that long")
    try:
        config, created = patience.ask(service, Calls.ranker(ranker)).config, False
    except NotFound:
        if create is None:
            raise RankloopError(
                f"there is no ranker {ranker!r}; name one of `rankloop rankers list`, or give --create POLICY."
            ) from None
        config, created = settings_for(setting, create, slots or setting.slots, rounds), True
        patience.ask(service, Calls.put_ranker(ranker, config))
    sizes = check(config, ranker, setting)
    there = _all_items(service, ranker, patience)
    missing = _missing(audience.items, there, ranker, sizes.dim, setting)
    _put(service, ranker, missing, patience)
    others = there.keys() - {item.id for item in audience.items}
    return Fit(created, len(missing), [item.id for item in audience.items] if others else None)


def settings_for(setting: Setting, policy: str, slots: int, rounds: int) -> dict[str, object]:
    """The settings of a ranker for a world, as far as a ranker can be told."""
    config: dict[str, object] = {"policy": policy, "slots": slots}
    config |= {name: n for name in ("dim", "context") if (n := getattr(setting, name)) is not None}
    if setting.bias is not None and len(setting.bias) == slots:
        config["bias"] = np.asarray(setting.bias).tolist()
    if setting.prior is not None:
        a, b = (np.unique(shape) for shape in (setting.prior.a, setting.prior.b))
        if len(a) == len(b) == 1:  # a ranker has one prior for all items
            config["prior"] = [float(a[0]), float(b[0])]
    if setting.objective.name != AnyClick.name:  # which is the default
        config["objective"] = setting.objective.name
    read = read_by(policy)
    if rounds and "rounds" in read:
        config["rounds"] = rounds
    return {name: value for name, value in config.items() if name in read or name not in (*OF_POLICY, "objective")}


class Sizes(Struct, frozen=True):
    """The settings of a ranker that a world must fit."""

    slots: int
    context: int | None = None
    dim: int | None = None


def check(config: Mapping[str, object], ranker: str, setting: Setting) -> Sizes:
    """Refuse a ranker that has not what the world needs, or needs what the world has not."""
    name, sizes = f"ranker {ranker!r}", convert(config, Sizes)
    if sizes.slots < setting.slots:
        raise RankloopError(f"{name} has {_many(sizes.slots, 'slot')}, and this world's lists have {setting.slots}.")
    if sizes.context != setting.context:
        each = (sizes.context, setting.context)
        has, needs = (f"a context of {_many(n, 'number')}" if n else "no context" for n in each)
        raise RankloopError(f"{name} takes {has}, and visitors of this world have {needs}.")
    # A ranker without features may serve items that have some; it never hears of them.
    if sizes.dim is not None and sizes.dim != setting.dim:
        has = _many(setting.dim, "feature") if setting.dim else "none"
        raise RankloopError(f"{name} needs items of {_many(sizes.dim, 'feature')}, and items of this world have {has}.")
    return sizes


def _many(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _all_items(service: Client, ranker: str, patience: Retry) -> dict[str, Item]:
    found: list[Item] = []
    while True:
        page = patience.ask(service, Calls.items(ranker, limit=PAGE, offset=len(found)))
        found += page
        if len(page) < PAGE:
            return {item.id: item for item in found}


def _missing(
    items: tuple[Item, ...], there: Mapping[str, Item], ranker: str, dim: int | None, setting: Setting
) -> list[Item]:
    """Items to put, as the ranker takes them; those of the same id must be the same."""
    wanted = []
    for item in items:
        features = item.features if dim is not None else None
        if item.id not in there:
            wanted.append(Item(item.id, features=features, price=item.price))
            continue
        theirs = there[item.id]
        same = features is None or (theirs.features is not None and np.allclose(features, theirs.features, rtol=1e-9))
        if not same or (setting.objective.prices is not None and theirs.price != item.price):
            told = "has other features or another price than in this world"
            raise RankloopError(f"{item.id} of ranker {ranker!r} {told}; choose another ranker, or the seed it is of.")
    return wanted


def _put(service: Client, ranker: str, items: list[Item], patience: Retry) -> None:
    each = 100 + 25 * len(items[0].features or ()) if items else 1
    size = max(1, min(PAGE, BODY // each))
    for start in range(0, len(items), size):
        try:
            patience.ask(service, Calls.put_items(ranker, items[start : start + size]))
        except NotAllowed as error:
            lacks = f"ranker {ranker!r} lacks {len(items) - start} of this world's items"
            raise RankloopError(f"{lacks}, and they cannot be put: {error}") from None
