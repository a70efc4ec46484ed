"""Designs with one model for each item, or for each pair of item and slot, and without features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import Design
from rankloop.types import EMPTY, IntArray, Model, Read, Request, Rows


class PerItem(Design):
    """One model for each item, without features: the classic bandit."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model i for candidate i."""
        return Rows(model=slice(None))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the models of the listed items."""
        return Rows(model=request.item_of(items))

    def list_models(self, items: IntArray) -> Model:
        """Return the items."""
        return items


class SlotOnly(Design):
    """Rows whose model is their slot: for beliefs that hold all items of a slot in one model."""

    @property
    def reads(self) -> frozenset[Read]:
        """The slot."""
        return frozenset({"slot"})

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model `slot`."""
        return Rows(model=slot)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model k for slot k."""
        return Rows(model=self.list_models(items))

    def list_models(self, items: IntArray) -> Model:
        """Return the slots, [K]."""
        return np.arange(items.shape[1])


@dataclass(frozen=True)
class PerItemSlot(Design):
    """One model for each pair of item and slot: item i in slot k feeds model i·K + k."""

    slots: int  # K

    @property
    def reads(self) -> frozenset[Read]:
        """The slot."""
        return frozenset({"slot"})

    def models_of_item(self, slots: int) -> int:
        """Return one model for each slot."""
        return slots

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the models of all candidates in this slot."""
        return Rows(model=slice(slot, None, self.slots))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the models of the listed pairs."""
        return Rows(model=self.list_models(request.item_of(items)))

    def list_models(self, items: IntArray) -> Model:
        """Return the models of the pairs, EMPTY where a slot is empty."""
        return np.where(items != EMPTY, items * self.slots + np.arange(items.shape[1]), EMPTY)

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return all models of each item, the slots of one after those of the other."""
        return np.ravel(columns[:, None] * self.slots + np.arange(self.slots))
