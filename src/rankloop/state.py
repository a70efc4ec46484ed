"""A state is a tree of plain arrays with a leading axis of learners.

So snapshots, copies and one-learner views need no code in the beliefs.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.exceptions import AxisError

from rankloop.arrays import Array
from rankloop.errors import MISSING, InvalidInput, Unsupported, Words
from rankloop.types import IntArray, RowLayout


@dataclass
class State:
    """Base of all states. Every field is an array with leading axis B, or another State."""

    FEATURES: ClassVar[Mapping[str, int]] = {}
    """Number of trailing axes of an array that are features of a row, for the arrays that have any."""

    def _map(self, f: Callable[[Array], Array]) -> Self:
        changed = object.__new__(type(self))  # a state has nothing but its fields: four times as fast as `replace`
        for name, value in vars(self).items():
            setattr(changed, name, value._map(f) if isinstance(value, State) else f(value))
        return changed

    def view(self, learners: slice) -> Self:
        """Return the state of these learners, sharing memory: updates of the view change the whole."""
        return self._map(lambda array: array[learners])

    def of_segment(self, segment: int) -> Self:
        """Return the state for decisions and lessons of a segment, sharing memory; states without segments as it is.

        A negative number stands for a segment without observations.
        """
        changed = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(changed, name, value.of_segment(segment) if isinstance(value, State) else value)
        return changed

    def copy(self) -> Self:
        """Return an independent copy."""
        return self._map(np.copy)

    def of_models(self, models: IntArray) -> Self:
        """Return a copy that holds these models [n] alone; every array must have the models on its second axis."""
        try:
            return self._map(lambda array: array.take(models, axis=1))
        except AxisError:
            raise Unsupported(
                f"{type(self).__name__} has an array that is not by model, so that it cannot be gathered for the "
                "candidates of a request; its belief needs an `of_items` of its own."
            ) from None

    def arrays(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """Yield name and array of every leaf, names dotted: ``belief.clicks``."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, State):
                yield from value.arrays(f"{prefix}{field.name}.")
            else:
                yield prefix + field.name, value

    def grow_into(self, larger: Self, layout: Callable[[int], RowLayout | None]) -> None:
        """Copy what was learned into a state of the same structure with room for more items.

        Axes of items grow at their end. Axes of features, which a state declares in `FEATURES`, move as `layout` says,
        given their old length.
        """
        for field in fields(self):
            old, new = getattr(self, field.name), getattr(larger, field.name)
            if isinstance(old, State):
                old.grow_into(new, layout)
                continue
            axes = self.FEATURES.get(field.name, 0)
            moved = layout(old.shape[-1]) if axes else None
            corner = new[tuple(slice(0, n) for n in old.shape[: old.ndim - axes])]
            if moved is None:
                corner[(..., *(slice(0, n) for n in old.shape[old.ndim - axes :]))] = old
            else:
                corner[(..., *np.ix_(*[moved.columns] * axes))] = old

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Overwrite every leaf in place with the array of the same name and shape."""
        own = dict(self.arrays())
        for name in arrays:
            if name not in own:
                raise InvalidInput(f"state.{name}", Words("an array"), f"only {', '.join(own)}, which this policy has")
        for name, array in own.items():
            given = arrays.get(name)
            if given is None or given.shape != array.shape or not np.can_cast(given.dtype, array.dtype, "same_kind"):
                found = MISSING if given is None else Words(f"an array of {given.dtype} of shape {given.shape}")
                raise InvalidInput(f"state.{name}", found, f"an array of {array.dtype} of shape {array.shape}")
        for name, array in own.items():
            array[...] = arrays[name]


@dataclass
class NoState(State):
    """The state of a part without memory."""


def save(path: str | Path, state: State) -> None:
    """Write a state to an .npz file of exactly this name, atomically."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.part")
    with partial.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **dict(state.arrays()))
    partial.replace(target)


def load(path: str | Path, into: State) -> None:
    """Read an .npz file into a state of the same structure (``policy.init`` makes one)."""
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise _not_a_snapshot(path, error.strerror or UNREADABLE) from None
    except (EOFError, ValueError, AttributeError, zipfile.BadZipFile, zlib.error):
        raise _not_a_snapshot(path, UNREADABLE) from None
    into.assign(arrays)


UNREADABLE = "it has another format"


def _not_a_snapshot(path: str | Path, reason: str) -> InvalidInput:
    return InvalidInput("path", str(path), f"a file that `save` wrote ({reason})")
