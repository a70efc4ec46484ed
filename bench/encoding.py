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
        work: dict[str, Callable[[], object]] = {"decode": partial(decoder.decode, body)}
        for name, hashed in (("dense", None), ("sparse", 2**18)):
            encoder = RankerFeatures(msgspec.structs.replace(freeze(SETTINGS, items, []), hashed=hashed)).items
            encoder.learn(given)
            work[f"{name} rows of {encoder.width} numbers"] = partial(encoder.encode, given)
        best = _microseconds(work)
        print(f"{title}: decoding {len(body):,} bytes takes {best['decode']:.0f} µs")
        for name, spent in list(best.items())[1:]:
            print(f"  {name}: checked and encoded in {spent:.0f} µs, {spent / best['decode']:.2f} of it (target: 1)")


def _microseconds(work: dict[str, Callable[[], object]], number: int = 10, repeats: int = 200) -> dict[str, float]:
    """Return the least time of each, measured in turns."""
    spent = {name: min(timeit.repeat(one, number=number, repeat=1)) for name, one in work.items()}
    for _ in range(repeats):
        for name, one in work.items():
            spent[name] = min(spent[name], timeit.timeit(one, number=number))
    return {name: 1e6 * seconds / number for name, seconds in spent.items()}


if __name__ == "__main__":
    main()
