"""Laws of `rankloop.features`: fields become rows, the same ones everywhere and whatever else was learned."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rankloop.errors import InvalidInput
from rankloop.features import Encoder, RankerFeatures, freeze, infer
from rankloop.schema.feature_settings import FeatureSettings

SHOP = {
    "items": {
        "price": {"kind": "number", "transform": "log"},
        "organic": "boolean",
        "category": {"kind": "category", "categories": 3},
        "tags": {"kind": "tags", "categories": 2},
        "embedding": {"kind": "vector", "size": 2},
    },
    "context": {"device": {"kind": "category", "categories": 2}, "hour": "number"},
    "cross": [["category", "device"], ["price", "category"], ["tags", "hour"]],
}
TEA = {"price": 4.5, "organic": True, "category": "tea", "tags": ["new", "sale"], "embedding": [0.5, -1.0]}
MUG = {"price": 12, "organic": False, "category": "mugs", "tags": [], "embedding": [0.1, 2]}
BARE: dict[str, object] = {"price": None}


def features(**more: object) -> RankerFeatures:
    return RankerFeatures(FeatureSettings.of({**SHOP, **more}))


def rows(encoder: Encoder, *mappings: dict[str, object]) -> dict[str, list[float]]:
    """Return the columns by name."""
    return dict(zip(encoder.names(), encoder.encode(mappings).T.tolist(), strict=True))


def test_each_kind_has_its_columns() -> None:
    encoder = features().items
    encoder.learn([TEA, MUG])
    found = rows(encoder, TEA, MUG, BARE)
    assert found["constant"] == [1.0, 1.0, 1.0]
    assert np.allclose(found["price"], [np.log1p(4.5), np.log1p(12.0), 0.0])
    assert found["price missing"] == [0.0, 0.0, 1.0]
    assert (found["organic"], found["organic missing"]) == ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert (found["category=tea"], found["category=mugs"]) == ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert (found["category #2"], found["category missing"]) == ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert np.allclose(found["tags=new"], [2**-0.5, 0.0, 0.0])
    assert (found["embedding[1]"], found["embedding missing"]) == ([-1.0, 2.0, 0.0], [0.0, 0.0, 1.0])
    assert np.allclose(found["price × category=tea"], [np.log1p(4.5), 0.0, 0.0])


def test_categories_beyond_the_limit_share_columns() -> None:
    encoder = features().items
    encoder.learn([{"category": name} for name in "abcde"])
    table = encoder.encode([{"category": name} for name in "abcdefgh"])
    names = encoder.names()
    columns = [[names[j] for j in np.flatnonzero(row) if "category" in names[j]] for row in table]
    assert columns[:3] == [["category=a"], ["category=b"], ["category=c"]]
    assert all(len(one) == 1 and one[0].startswith("category shared") for one in columns[3:])


@pytest.mark.parametrize("hashed", [None, 2**10])
def test_missing_values_are_nothing_until_a_value_is_known(hashed: int | None) -> None:
    encoder = RankerFeatures(FeatureSettings.of({"items": SHOP["items"], "hashed": hashed})).items
    P = encoder.positions
    assert np.count_nonzero(encoder.encode([BARE])[:, :P]) == 1  # the constant
    encoder.learn([BARE])
    assert np.count_nonzero(encoder.encode([BARE])[:, :P]) == 1
    encoder.learn([TEA])
    assert np.count_nonzero(encoder.encode([BARE])[:, :P]) == 1 + 5


_PROGRAM = """
import json, sys
from rankloop.features import RankerFeatures
from rankloop.schema.feature_settings import FeatureSettings
settings, mappings = json.loads(sys.stdin.read())
features = RankerFeatures(FeatureSettings.of(settings))
features.items.learn(mappings[:1])
print(features.items.encode(mappings).tobytes().hex())
"""


@pytest.mark.parametrize("hashed", [None, 2**18])
def test_rows_are_the_same_in_every_process(hashed: int | None) -> None:
    given: list[dict[str, Any]] = [TEA, MUG, BARE, {"category": "käse", "tags": ["a", "b", "c"]}]
    text = json.dumps([{**SHOP, "hashed": hashed}, given])
    found = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=text,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    encoder = features(hashed=hashed).items
    encoder.learn(given[:1])
    assert found == {encoder.encode(given).tobytes().hex() + "\n"}


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "\ud800", "é", ""])
NUMBERS = st.floats(-1e15, 1e15) | st.integers(-(10**15), 10**15)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "price": NUMBERS | st.none(),
            "organic": st.booleans() | st.none(),
            "category": NAMES | st.none(),
            "tags": st.lists(NAMES, max_size=4) | st.none(),
            "embedding": st.lists(NUMBERS, min_size=2, max_size=2) | st.none(),
            "unknown": st.integers(),
        },
    ),
    max_size=5,
)
HASHED = st.sampled_from([None, 256])


@given(ITEMS, ITEMS, HASHED, st.booleans())
def test_rows_are_finite_and_small_and_do_not_depend_on_their_neighbours(first, then, hashed, frozen) -> None:  # type: ignore[no-untyped-def]
    settings = FeatureSettings.of({**SHOP, "hashed": hashed})
    encoder = RankerFeatures(freeze(settings, first, []) if frozen else settings).items
    encoder.learn(first)
    table = encoder.encode(then, "items[{}]")
    values = table[:, : encoder.positions]
    assert table.shape == (len(then), encoder.width)
    assert np.isfinite(table).all()
    assert np.abs(values).max(initial=0.0) <= 25.0  # a product of two numbers clipped at 5
    for fields, row in zip(then, table, strict=True):
        assert (encoder.encode([fields])[0] == row).all()
    if hashed is not None:
        assert ((table[:, encoder.positions :] >= 0) & (table[:, encoder.positions :] < hashed)).all()


@given(ITEMS, ITEMS, ITEMS, HASHED)
def test_a_restored_encoder_goes_on_as_the_first(first, then, probe, hashed) -> None:  # type: ignore[no-untyped-def]
    one, other = features(hashed=hashed).items, features(hashed=hashed).items
    one.learn(first)
    other.restore({name: array.copy() for name, array in one.arrays().items()})
    for encoder in (one, other):
        encoder.learn(then)
    assert (one.encode(probe) == other.encode(probe)).all()
    assert {name: array.tolist() for name, array in one.arrays().items()} == {
        name: array.tolist() for name, array in other.arrays().items()
    }


@given(ITEMS, ITEMS)
def test_new_categories_change_no_row_of_known_ones(first, then) -> None:  # type: ignore[no-untyped-def]
    encoder = features().items
    encoder.learn([TEA, MUG, *first])
    known = set(encoder.names())
    certain: list[dict[str, Any]] = [
        one for one in first if one.get("category") is None or f"category={one['category']}" in known
    ]
    certain = [one for one in certain if all(f"tags={tag}" in known for tag in one.get("tags") or ())]
    before = encoder.encode(certain)
    encoder.learn(then)
    assert (encoder.encode(certain) == before).all()


@given(ITEMS, st.sampled_from(["weight", "zzz"]))
def test_an_added_field_leaves_the_other_columns_as_they_are(given_items, name) -> None:  # type: ignore[no-untyped-def]
    before, after = features(), features(items={**SHOP["items"], name: "number"})  # type: ignore[dict-item]
    for one in (before, after):
        one.items.learn(given_items)
    old, new = (
        dict(zip(one.items.names(), one.items.encode(given_items).T.tolist(), strict=True)) for one in (before, after)
    )
    assert {column: values for column, values in new.items() if column in old} == old
    assert all(not any(values) for column, values in new.items() if column not in old)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"price": "9.9"}, "items[1].fields.price is '9.9'; accepted: a number from -1e+15 to 1e+15, or null."),
        ({"price": 1e308}, "items[1].fields.price is 1e+308; accepted: a number"),
        ({"price": 10**400}, "items[1].fields.price is 1000"),
        ({"price": float("nan")}, "items[1].fields.price is nan; accepted: a number"),
        ({"price": True}, "items[1].fields.price is True; accepted: a number"),
        ({"organic": 1}, "items[1].fields.organic is 1; accepted: true or false, or null."),
        ({"category": 7}, "items[1].fields.category is 7; accepted: a text of at most 200 characters, or null."),
        ({"category": "x" * 201}, "items[1].fields.category is 'xxx"),
        ({"tags": "sale"}, "items[1].fields.tags is 'sale'; accepted: a list of at most 20 texts"),
        ({"tags": ["sale", 3]}, "items[1].fields.tags[1] is 3; accepted: a text of at most 200 characters"),
        ({"tags": [str(i) for i in range(21)]}, "items[1].fields.tags is a list of 21"),
        ({"embedding": [1.0]}, "items[1].fields.embedding is [1.0]; accepted: a list of 2 numbers"),
        ({"embedding": [1.0, None]}, "items[1].fields.embedding[1] is None; accepted: a number from -1e+15"),
        ({"embedding": [1.0, float("inf")]}, "items[1].fields.embedding[1] is inf; accepted: a number from -1e+15"),
        (7, "items[1].fields is 7; accepted: a mapping from names of fields to values."),
    ],
)
@pytest.mark.parametrize("hashed", [None, 256])
def test_a_bad_value_is_one_error_that_names_it(fields: object, message: str, hashed: int | None) -> None:
    encoder = features(hashed=hashed).items
    with pytest.raises(InvalidInput) as error:
        encoder.encode([TEA, fields], "items[{}].fields")  # type: ignore[list-item]
    assert str(error.value).startswith(message)
    with pytest.raises(InvalidInput) as error:
        encoder.check("items[1].fields", fields)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_numbers_of_array_libraries_are_accepted() -> None:
    encoder = features().items
    given_item = {"price": np.float64(4.5), "organic": np.bool_(True), "embedding": np.array([0.5, -1.0])}
    same = {"price": 4.5, "organic": True, "embedding": [0.5, -1.0]}
    assert (encoder.encode([given_item]) == encoder.encode([same])).all()


def test_unknown_fields_are_named() -> None:
    assert features().items.unknown({"price": 3, "colour": "red", "size": 3}) == ["colour", "size"]


def test_frozen_scales_are_robust() -> None:
    settings = FeatureSettings.of(SHOP)
    prices = [*np.random.default_rng(0).lognormal(3.0, 0.5, 999).tolist(), 1e12]
    items = [{"price": price, "embedding": [3.0, -4.0]} for price in prices]
    frozen = freeze(settings, items, [{"hour": 3}, {"hour": 3}])
    price = frozen.items["price"]
    assert price.center == pytest.approx(np.log1p(np.exp(3.0)), abs=0.1)
    assert price.scale == pytest.approx(0.48, abs=0.1)
    assert frozen.items["embedding"].scale == pytest.approx(12.5**0.5)
    assert (frozen.context["hour"].center, frozen.context["hour"].scale) == (3.0, 1.0)
    assert freeze(frozen, [{"price": 7.0}], []) == frozen
    assert frozen.items["category"] == settings.items["category"]
    assert np.abs(RankerFeatures(frozen).items.encode(items)).max() == 5.0


@given(st.lists(NUMBERS, min_size=1))
def test_frozen_settings_are_valid(values) -> None:  # type: ignore[no-untyped-def]
    settings = FeatureSettings.of({"items": {"x": "number", "y": {"kind": "vector", "size": 1}}})
    frozen = freeze(settings, [{"x": value, "y": [value]} for value in values], [])
    assert FeatureSettings.of({"items": {n: _plain(one) for n, one in frozen.items.items()}}).items == frozen.items


def _plain(settings: object) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}  # type: ignore[attr-defined]


def test_inferred_settings() -> None:
    draw = np.random.default_rng(1)
    items: list[dict[str, object]] = [
        {
            "price": float(draw.lognormal(2.5, 0.8)),
            "rating": float(draw.normal()),
            "category": str(draw.choice(["tea", "coffee"])),
            "organic": bool(draw.random() < 0.5),
            "tags": ["new"] if i % 2 else [],
            "embedding": draw.normal(size=3).tolist(),
            "title": f"product {i}",
            "mixed": "a" if i % 2 else 3,
            "huge": 1e300,
            "nothing": None,
        }
        for i in range(50)
    ]
    found = infer(items, [{"device": "phone"}])
    kinds = {name: (one.kind, one.transform, one.categories, one.size) for name, one in found.items.items()}
    assert kinds == {
        "price": ("number", "log", None, None),
        "rating": ("number", None, None, None),
        "category": ("category", None, 4, None),
        "organic": ("boolean", None, None, None),
        "tags": ("tags", None, 4, None),
        "embedding": ("vector", None, None, 3),
    }
    assert list(found.context) == ["device"]
    with pytest.raises(InvalidInput, match="features is auto; accepted: items with fields"):
        infer([{"title": None}])


def test_inferred_rows_are_dense_as_long_as_they_fit() -> None:
    draw = np.random.default_rng(2)
    context = [{"device": str(draw.choice(["phone", "desk"])), "city": f"city {draw.integers(30)}"} for _ in range(90)]
    items: list[dict[str, object]] = [
        {"price": float(draw.normal()), "brand": f"brand {draw.integers(30)}"} for _ in range(90)
    ]
    found = infer(items, context)
    assert found.cross == (("price", "device"), ("price", "city"), ("brand", "device"))
    assert (found.row_columns <= 512, found.is_sparse) == (True, False)
    wide = [{f"text {i}": f"{draw.integers(30)}" for i in range(20)} for _ in range(90)]
    assert infer(wide, context).coefficients == 2**18


@given(ITEMS)
def test_inferred_settings_accept_the_examples(items) -> None:  # type: ignore[no-untyped-def]
    try:
        settings = infer(items)
    except InvalidInput:
        return
    RankerFeatures(settings).items.encode(items, "items[{}]")


@pytest.mark.parametrize("hashed", [None, 2**12])
def test_the_settings_know_the_widths(hashed: int | None) -> None:
    found = features(hashed=hashed, items={**SHOP["items"]})  # type: ignore[dict-item]
    context = found.context
    assert context is not None
    assert found.products is not None
    width = found.items.positions + context.positions + len(found.products)
    settings = found.settings
    assert width == (settings.row_columns if hashed is None else settings.positions)
    assert (found.note is None) == (hashed is None)


def test_rows_that_would_be_long_are_hashed() -> None:
    many = {"kind": "category", "categories": 30}
    declared = {"items": {"a": many}, "context": {"c": many}, "cross": [["a", "c"]]}
    settings = FeatureSettings.of(declared)
    assert settings.row_columns > 512
    found = RankerFeatures(settings)
    assert found.hashed == 2**18
    assert found.note is not None
    assert "their covariance is diagonal" in found.note
    assert replace(settings, cross=()).coefficients is None


def test_fields_are_crossed_by_default_as_far_as_a_dense_row_has_room() -> None:
    """The products of two fields with 16 categories fit, those of a number first; the answer names the others."""
    fields = {"a": "category", "b": "category", "n": "number"}
    settings = FeatureSettings.of({"items": fields, "context": {"c": "category"}})
    found = RankerFeatures(settings)
    assert settings.all_context_crosses == (("a", "c"), ("b", "c"), ("n", "c"))
    assert settings.context_crosses == (("a", "c"), ("n", "c"))
    assert settings.row_columns == 1 + (21 + 21 + 2) + 21 + (20 * 20 + 20)
    assert found.note == "rows have no room to cross b with c: declare fewer categories, cross or hashed"
    assert replace(settings, hashed=2**18).context_crosses == settings.all_context_crosses
    assert RankerFeatures(replace(settings, cross=(("n", "c"),))).note is None


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"items": {"a": "numbr"}}, "features.items.a.kind is 'numbr'; accepted: one of boolean, category, number"),
        (
            {"items": {"a": {"kind": "number", "size": 3}}},
            "features.items.a.size is 3; accepted: only for the kind vector",
        ),
        ({"items": {"a": "vector"}}, "features.items.a.size is missing"),
        (
            {"items": {"a": "number"}, "cross": [["a", "b"]]},
            "features.cross[0][1] is 'b'; accepted: one of the declared",
        ),
        ({"items": {"a": "number"}, "cross": [["a", "a"]]}, "features.cross[0] is ['a', 'a']"),
        ({"items": {"a": "number"}, "hashed": 300}, "features.hashed is 300; accepted: a power of two from 256"),
        ({"items": {"a": "number"}, "hashed": 128}, "features.hashed is 128"),
        ({"items": {}}, "features.items is a mapping with 0 fields; accepted: 1 to 100"),
        ({"items": {str(i): "number" for i in range(101)}}, "features.items is a mapping with 101 fields"),
        ({"items": {"a\n": "number"}}, "features.items.a\\n is 'a\\n'; accepted: a printable text"),
        ({"items": {"a": {"kind": "category", "categories": 10**6}}}, "features.items.a.categories is 1000000"),
        (
            {
                "items": {"a": {"kind": "vector", "size": 200}},
                "context": {"b": {"kind": "vector", "size": 200}},
                "cross": [["a", "b"]],
            },
            "features.cross is 40401 positions of a sparse row",
        ),
    ],
)
def test_bad_settings_are_one_error(given_settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        FeatureSettings.of(given_settings)
    assert str(error.value).startswith(message), str(error.value)
