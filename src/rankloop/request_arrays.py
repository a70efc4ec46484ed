"""Checks of the arrays of a request: compiled loops rely on their types and shapes."""

from __future__ import annotations

import numpy as np

from rankloop.arrays import EMPTY, FloatArray, IntArray
from rankloop.errors import InvalidInput, Words


def check_columns(columns: IntArray, candidates: int) -> None:
    """Refuse candidates that are not distinct items."""
    if not isinstance(columns, np.ndarray) or columns.dtype != np.int64 or columns.shape != (candidates,):
        raise InvalidInput("request.columns", Words(shape_of(columns)), f"an array of int64 of shape ({candidates},)")
    ordered = np.sort(columns)
    if ordered[0] < 0 or (ordered[1:] == ordered[:-1]).any():
        raise InvalidInput("request.columns", columns.tolist(), "different items, each a number of at least 0")


def check_pairs(field: str, pairs: IntArray) -> None:
    """Refuse anything but pairs of columns [n, 2]."""
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInput(field, Words(shape_of(pairs)), "an array of int64 of shape (n, 2)")


def check_values(field: str, values: FloatArray, shapes: list[tuple[int, ...]], *, missing: bool = False) -> None:
    """Refuse arrays other than finite numbers of one of these shapes; NaN stands for a missing number."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise InvalidInput(field, Words(shape_of(values)), f"an array of floats of shape {wanted}")
    if np.isinf(values).any() or (not missing and np.isnan(values).any()):
        accepted = "finite numbers, NaN where there is none" if missing else "finite numbers"
        raise InvalidInput(field, Words("an array with NaN or infinity"), accepted)


def check_pins(pinned: IntArray, k: int, items: int) -> None:
    """Refuse pins other than distinct items in k slots."""
    accepted = f"{k} different items 0 to {items - 1}, -1 where a slot is free"
    if not isinstance(pinned, np.ndarray) or pinned.dtype != np.int64 or pinned.shape != (k,):
        raise InvalidInput("request.pinned", Words(shape_of(pinned)), accepted)
    held = pinned[pinned != EMPTY]
    if held.size and (held.min() < 0 or held.max() >= items or len(np.unique(held)) < held.size):
        raise InvalidInput("request.pinned", pinned.tolist(), accepted)


def check_table(field: str, table: FloatArray, learners: int, rows: int | None) -> None:
    """Refuse tables other than finite numbers of shape [rows, d] or [B, rows, d], or [B, d] where `rows` is None."""
    lead = [(learners,)] if rows is None else [(rows,), (learners, rows)]
    wanted = " or ".join(f"({', '.join(map(str, (*shape, 'd')))})" for shape in lead)
    if not isinstance(table, np.ndarray) or table.dtype != np.float64 or table.shape[:-1] not in lead:
        raise InvalidInput(field, Words(shape_of(table)), f"an array of floats of shape {wanted}")
    # The sum of finite entries is finite unless it overflows; only then is every entry checked.
    if not np.isfinite(table.sum()) and not np.isfinite(table).all():
        raise InvalidInput(field, Words("an array with NaN or infinity"), "finite numbers")


def shape_of(value: object) -> str:
    """Return type and shape of an array, as errors name them."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


def check_caps(
    groups: IntArray | None, caps: IntArray | None, counted: IntArray | None, learners: int, items: int
) -> None:
    """Refuse caps other than one whole number of at least 1 for each field, and groups without caps."""
    if groups is None and caps is None:
        return
    if not isinstance(caps, np.ndarray) or caps.dtype != np.int64 or caps.ndim != 1 or caps.min(initial=1) < 1:
        raise InvalidInput("request.caps", Words(shape_of(caps)), "an array of int64 of shape (C,), each at least 1")
    shapes = ((len(caps), items), (len(caps), learners, items))
    if not isinstance(groups, np.ndarray) or groups.dtype != np.int64 or groups.shape not in shapes:
        raise InvalidInput(
            "request.groups", Words(shape_of(groups)), f"an array of int64 of shape {shapes[0]} or {shapes[1]}"
        )
    if counted is not None and (
        not isinstance(counted, np.ndarray)
        or counted.dtype != np.int64
        or counted.ndim != 1
        or not ((counted >= 0) & (counted < items)).all()
    ):
        raise InvalidInput("request.counted", Words(shape_of(counted)), f"an array of items 0 to {items - 1}")
