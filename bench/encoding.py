"""Encoding the fields of 100 candidates, beside decoding the JSON of the same request."""

from __future__ import annotations

import random
import timeit
from collections.abc import Callable
from functools import partial

import msgspec

from rankloop.features import RankerFeatures, freeze
from rankloop.schema.feature_settings import FeatureSettings

SETTINGS = FeatureSettings.of(
    {
        "items": {
            "price": {"kind": "number", "transform": "log"},
            "rating": "number",
            "stock": "number",
            "weight": "number",
            "age": "number",
            "organic": "boolean",
            "category": "category",
            "brand": "category",
            "colour": "category",
            "tags": "tags",
        }
    }
)


class _Item(msgspec.Struct):
    id: str
    fields: dict[str, float | int | bool | str | list[str | float] | None]


class _Request(msgspec.Struct):
    k: int
    items: list[_Item]


def _fields(draw: random.Random) -> dict[str, object]:
    return {
        "price": round(draw.random() * 100, 2),
        "rating": round(draw.random() * 5, 1),
        "stock": draw.randrange(100),
        "weight": draw.random(),
        "age": draw.randrange(1000),
        "organic": draw.random() < 0.5,
        "category": draw.choice(["tea", "coffee", "cups"]),
        "brand": f"brand {draw.randrange(20)}",
        "colour": draw.choice(["red", "blue", "green"]),
        "tags": draw.sample(["new", "sale", "gift", "fair"], 2),
    }


def main() -> None:
    draw = random.Random(0)
    for share, title in ((0.0, "all values given"), (0.1, "one value in ten missing")):
        items = [{name: v for name, v in _fields(draw).items() if draw.random() >= share} for _ in range(100)]
        body = msgspec.json.encode({"k": 10, "items": [{"id": f"i{i}", "fields": one} for i, one in enumerate(items)]})
        decoder = msgspec.json.Decoder(_Request)
        given = [one.fields for one in decoder.decode(body).items]
        decode = _microseconds(partial(decoder.decode, body))
        print(f"{title}: decoding {len(body):,} bytes takes {decode:.0f} µs")
        for hashed in (None, 2**18):
            encoder = RankerFeatures(msgspec.structs.replace(freeze(SETTINGS, items, []), hashed=hashed)).items
            encoder.learn(given)
            encode = _microseconds(partial(encoder.encode, given))
            name = "dense" if hashed is None else "sparse"
            print(f"  {name} rows of {encoder.width} numbers are made in {encode:.0f} µs: {encode / decode:.2f} of it")


def _microseconds(work: Callable[[], object], number: int = 100, repeats: int = 15) -> float:
    return min(timeit.repeat(work, number=number, repeat=repeats)) / number * 1e6


if __name__ == "__main__":
    main()
