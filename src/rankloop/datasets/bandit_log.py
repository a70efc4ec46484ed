"""Open Bandit Dataset: logged impressions and clicks of two policies in three slots of a shop."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop import validate
from rankloop.datasets.errors import BadData
from rankloop.datasets.text_files import opened, text_lines
from rankloop.types import BoolArray, FloatArray, IntArray

BEHAVIOURS = ("random", "bts")
CAMPAIGNS = ("all", "men", "women")
SLOTS = 3
LOG = ("item_id", "position", "click", "propensity_score")
USER = tuple(f"user_feature_{i}" for i in range(4))
ITEM = tuple(f"item_feature_{i}" for i in range(4))


@dataclass(frozen=True)
class BanditLog:
    """n logged impressions, each of one item in one slot."""

    item: IntArray  # [n]
    position: IntArray  # [n], 1 to 3
    click: BoolArray  # [n]
    propensity: FloatArray  # [n], probability that the logging policy showed this item in this slot
    user: FloatArray  # [n, d_user], one-hot
    user_columns: tuple[str, ...]  # [d_user], feature=category; only categories that occur in this log
    item_features: FloatArray  # [items, d_item], one numeric column, then one-hot
    item_columns: tuple[str, ...]  # [d_item]

    def users(self, columns: Sequence[str]) -> FloatArray:
        """Return one-hot users in the columns of another log, [n, len(columns)]; 0 where this log lacks a column."""
        at = {name: column for column, name in enumerate(self.user_columns)}
        users = np.zeros((len(self.item), len(columns)))
        for column, name in enumerate(columns):
            if name in at:
                users[:, column] = self.user[:, at[name]]
        return users


def read_log(folder: str | Path, behaviour: str = "random", campaign: str = "all") -> BanditLog:
    """Return a policy's log of a campaign, from `behaviour/campaign/campaign.csv` and `item_context.csv`, gz or not."""
    validate.choice("behaviour", behaviour, BEHAVIOURS)
    validate.choice("campaign", campaign, CAMPAIGNS)
    location = Path(folder) / behaviour / campaign
    item_features, item_columns = _items(location)
    numbers, kinds = array("d"), [array("i") for _ in USER]
    codes: list[dict[str, int]] = [{} for _ in USER]
    for row in rows(location, f"{campaign}.csv", (*LOG, *USER)):
        numbers.extend(map(float, row[: len(LOG)]))
        for kind, code, word in zip(kinds, codes, row[len(LOG) :], strict=True):
            kind.append(code.setdefault(word, len(code)))
    item, position, click, propensity = np.asarray(numbers).reshape(-1, len(LOG)).T
    good = (np.isin(item, np.arange(len(item_features))) & np.isin(position, np.arange(1, SLOTS + 1))).all()
    if (
        not len(item)
        or not good
        or not np.isin(click, (0, 1)).all()
        or not ((propensity > 0) & (propensity <= 1)).all()
    ):
        raise BadData(
            f"{campaign}.csv of {location} has no rows, an item not in item_context.csv, a position outside 1 to 3, "
            "a click other than 0 or 1, or a propensity outside (0, 1]: the file is damaged or of another kind."
        )
    user, user_columns = _one_hot(USER, [np.asarray(kind) for kind in kinds], codes)
    return BanditLog(
        item.astype(np.int64),
        position.astype(np.int64),
        click == 1,
        propensity.copy(),
        user,
        user_columns,
        item_features,
        item_columns,
    )


def rows(location: Path, name: str, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield some columns of a csv, row by row; the columns of LOG and `item_feature_0` must be numbers."""
    with opened(location, name) as stream:
        table = csv.reader(text_lines(stream))
        head = next(table, [])
        if any(column not in head for column in columns):
            raise BadData(f"{name} of {location} lacks a column of {', '.join(columns)}: it is a file of another kind.")
        at = [head.index(column) for column in columns]
        numeric = [i for i, column in enumerate(columns) if column in (*LOG, ITEM[0])]
        for line, row in enumerate(table, 2):
            found = [row[i] for i in at] if len(row) == len(head) else []
            if not found or not all(_is_number(found[i]) for i in numeric):
                raise BadData(f"{name} of {location} is damaged or truncated at line {line}; download it again.")
            yield found


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _items(location: Path) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of the items 0, 1, … and their column names."""
    table = sorted(rows(location, "item_context.csv", ("item_id", *ITEM)), key=lambda row: float(row[0]))
    if [float(row[0]) for row in table] != list(range(len(table))) or not table:
        raise BadData(f"item_context.csv of {location} does not list the items 0, 1, ... once each; download it again.")
    codes: list[dict[str, int]] = [{} for _ in ITEM[1:]]
    kinds = [np.array([code.setdefault(row[i], len(code)) for row in table]) for i, code in enumerate(codes, 2)]
    hot, names = _one_hot(ITEM[1:], kinds, codes)
    return np.column_stack([[float(row[1]) for row in table], hot]), (ITEM[0], *names)


def _one_hot(
    features: Sequence[str], kinds: Sequence[IntArray], codes: Sequence[dict[str, int]]
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return one column for each category, in alphabetical order, without the empty category."""
    columns, names = [], []
    for feature, kind, code in zip(features, kinds, codes, strict=True):
        for word in sorted(code):
            if word:
                columns.append(kind == code[word])
                names.append(f"{feature}={word}")
    return np.column_stack(columns).astype(np.float64), tuple(names)
