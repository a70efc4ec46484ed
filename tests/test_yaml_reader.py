"""YAML as people write it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rankloop.yaml_reader import load_yaml


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_prints_is_read_as_that_number(number: float) -> None:
    assert load_yaml(f"x: {number!r}") == {"x": number}
    assert load_yaml(f"x: {number:e}") == {"x": float(f"{number:e}")}


@pytest.mark.parametrize("text", ["1e-4", "+1E4", "-.5e3", "5.e2", "1e9"])
def test_an_exponent_makes_a_number_with_or_without_a_point(text: str) -> None:
    assert load_yaml(text) == float(text)


@pytest.mark.parametrize("text", ["1e", "e5", "1e5x", "2026-11-18", "1.2.3e4", "item-1e5"])
def test_other_text_stays_text(text: str) -> None:
    assert load_yaml(text) == text


@pytest.mark.parametrize("text", ["a: 1\na: 2", "{a: 1, a: 2}", "0x_", "[" * 10_000])
def test_what_cannot_be_read_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
