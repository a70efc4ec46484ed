"""Reads YAML as people write it: 1e-4 is a number, a time is text, and a key may appear once in a mapping."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaml import MappingNode, SafeLoader

FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+\Z")
"""Numbers with an exponent as in YAML 1.2; YAML 1.1, which PyYAML reads, takes 1e-4 for text."""


def load_yaml(text: str) -> object:
    """Return the content of a YAML document, or raise `yaml.YAMLError`."""
    import yaml

    try:
        return yaml.load(text, _loader())  # noqa: S506, a subclass of the safe loader
    except (ValueError, RecursionError):  # of a number such as 0x_, or of a document that is nested too deeply
        raise yaml.YAMLError("a value cannot be read") from None


@cache
def _loader() -> type[SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012, as in the base class
            first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, object]:
            keys = [key.value for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key}", node.start_mark)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
    return Loader
