"""The part of a ranker that adds, changes and removes items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import asdict

from rankloop.errors import InvalidInput, Words
from rankloop.eventlog.events import ItemsPut, ItemsRemoved
from rankloop.schema import Item, ItemFields, RankRequest
from rankloop.schema.request_bodies import ItemsAnswer
from rankloop.serving.feature_changes import SHORT_LOG
from rankloop.serving.items.item_table import check_item, check_prior, check_score, unknown_fields
from rankloop.serving.maintenance import MaintainedRanker

MAX_EVENT_ITEMS = 10_000
"""Items of one event; more are put in several events, one after the other."""


class ItemsRanker(MaintainedRanker):
    """A ranker whose items can change: every change is an event of the log."""

    def put_items(self, items: Sequence[Item | ItemFields]) -> ItemsAnswer | None:
        """Add items, or change existing ones: all of them, or none; return what had no effect, if anything."""
        made = tuple(Item.of(item, f"items[{i}]") for i, item in enumerate(items))
        for i, item in enumerate(made):
            check_item(item, f"items[{i}]", self.config)
        self._check_items(made)
        with self._lock:
            unused = unknown_fields(self._replica.items, [item.fields for item in made])
            unknown = tuple(name for name in unused if name not in (self.config.caps or ()))
        now = self._clock()
        parts = [made[start : start + MAX_EVENT_ITEMS] for start in range(0, max(1, len(made)), MAX_EVENT_ITEMS)]
        commits = [self._submit(ItemsPut(now, part), check=partial(self._check_items, part)) for part in parts]
        for commit in commits:
            commit.result()
        self.follow_features(SHORT_LOG)
        return ItemsAnswer(unknown) if unknown else None

    def _check_items(self, made: Sequence[Item]) -> None:
        """Refuse items that do not fit to the others, to the policy or into the memory."""
        with self._lock:
            table = self._replica.items
            table.check(made)
            policy = self._replica.learners.policy
            for i, item in enumerate(made):
                check_prior(f"items[{i}].prior", item, table.prior(item.id), policy)
                check_score(f"items[{i}].score", item.score, policy)
            columns, priors = table.columns_with(item.id for item in made), table.prior_scores_with(made)
            self._require_room("items", f"{columns} items in all, with which the ranker", columns, priors=priors)
            if table.encoding is not None:
                for i, item in enumerate(made):
                    table.encoding.check_item(f"items[{i}].fields", item.fields or {})

    def open_items(self, request: RankRequest) -> None:
        """Add the items of a request that the ranker does not have, with their values in the request."""
        with self._lock:
            known = self._replica.items.column
            new = {one.id: one for one in request.given_items if one.id not in known}
        if not new:
            return
        total = self.columns_with(list(new))
        if self._limits is not None and total > self._limits.items:
            raise InvalidInput("items", Words(f"{total} items in all"), f"at most {self._limits.items}")
        items = [(i, one) for i, one in enumerate(request.given_items) if new.get(one.id) is one]
        made = []
        for i, one in items:
            values = {name: value for name, value in asdict(one).items() if value is not None}
            made.append(Item.of(values, f"items[{i}]"))
        self.put_items(made)

    def remove_items(self, ids: Sequence[str]) -> None:
        """Stop listing items; their late feedback still settles, and an id that is put again is a new item."""

        def check() -> None:
            with self._lock:
                self._replica.items.columns("ids", ids)

        check()
        self._submit(ItemsRemoved(self._clock(), tuple(ids)), check=check).result()
