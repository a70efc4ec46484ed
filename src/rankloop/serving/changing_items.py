"""The part of a ranker that adds, changes and removes items."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.eventlog.events import ItemsPut, ItemsRemoved
from rankloop.schema import Item, ItemFields
from rankloop.schema.request_bodies import ItemsAnswer
from rankloop.serving.items.item_table import check_item, check_prior, check_score
from rankloop.serving.maintenance import MaintainedRanker


class ItemsRanker(MaintainedRanker):
    """A ranker whose items can change: every change is an event of the log."""

    def put_items(self, items: Sequence[Item | ItemFields]) -> ItemsAnswer | None:
        """Add items, or change existing ones: all of them, or none; return what had no effect, if anything."""
        made = tuple(Item.of(item, f"items[{i}]") for i, item in enumerate(items))
        for i, item in enumerate(made):
            check_item(item, f"items[{i}]", self.config)
        with self._lock:
            table = self._replica.items
            table.check(made)
            policy = self._replica.learners.policy
            for i, item in enumerate(made):
                check_prior(f"items[{i}].prior", item, table.prior(item.id), policy)
                check_score(f"items[{i}].score", item.score, policy)
            columns, priors = table.columns_with(item.id for item in made), table.prior_scores_with(made)
            self._require_room("items", f"{columns} items in all, with which the ranker", columns, priors=priors)
        unknown = tuple({name: None for item in made for name in item.fields or ()})
        self._submit(ItemsPut(self._clock(), made)).result()
        return ItemsAnswer(unknown) if unknown else None

    def remove_items(self, ids: Sequence[str]) -> None:
        """Stop listing items; their late feedback still settles, and an id that is put again is a new item."""
        with self._lock:
            self._replica.items.columns("ids", ids)
        self._submit(ItemsRemoved(self._clock(), tuple(ids))).result()
