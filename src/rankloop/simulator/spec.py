"""Simulation specs: what to run, validated before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rankloop import catalogue, validate
from rankloop.errors import MISSING, InvalidInput, MissingExtra
from rankloop.schema.accepted_values import unknown_field
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.worlds import World, from_spec
from rankloop.yaml_reader import load_yaml

REQUIRED, OPTIONAL = ("world", "policies", "rounds", "replications"), ("seed", "chunk")
SIZES: dict[str, tuple[int, int | None]] = {
    "rounds": (1, 10**9),
    "replications": (1, 10**6),
    "seed": (0, None),
    "chunk": (1, None),
}
"""The minimum and the maximum of each number."""
DEFAULT_CHUNK = 128
"""Replications that share a batch and a random stream; results depend on it."""


@dataclass(frozen=True)
class Spec:
    """A simulation: a world, policies, a horizon and a number of replications."""

    world: World
    policies: tuple[PolicySpec, ...]
    rounds: int
    replications: int
    seed: int = 0
    chunk: int = DEFAULT_CHUNK
    source: Mapping[str, object] = field(default_factory=dict)  # the mapping it was read from, stored with the result

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and two policies with the same label."""
        for name in SIZES:
            object.__setattr__(self, name, _size(name, getattr(self, name)))
        if not self.policies:
            raise InvalidInput("policies", self.policies, "one policy or more")
        labels = [spec.label for spec in self.policies]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise InvalidInput(f"policies[{i}].label", label, "a label that no other policy of the spec has")

    @classmethod
    def of(cls, given: object) -> Spec:
        """Return the spec of a mapping with world, policies, rounds and replications; refuse an invalid one."""
        if not isinstance(given, Mapping):
            raise InvalidInput("spec", MISSING if given is None else given, f"a mapping with {', '.join(REQUIRED)}")
        for name in given:
            if name not in (*REQUIRED, *OPTIONAL):
                raise unknown_field("", name, given[name], (*REQUIRED, *OPTIONAL))
        for name in REQUIRED:
            if name not in given:
                raise InvalidInput(name, MISSING, f"a value, since a spec needs {', '.join(REQUIRED)}")
        world = given["world"]
        return cls(
            world=world if hasattr(world, "prepare") and hasattr(world, "draw") else from_spec(world),
            policies=policy_specs(given["policies"]),
            rounds=_size("rounds", given["rounds"]),
            replications=_size("replications", given["replications"]),
            seed=_size("seed", given.get("seed", 0)),
            chunk=_size("chunk", given.get("chunk", DEFAULT_CHUNK)),
            source=dict(given),
        )


def _size(name: str, value: object) -> int:
    low, high = SIZES[name]
    return validate.integer(name, value, low=low, high=high)


def policy_specs(given: object) -> tuple[PolicySpec, ...]:
    """Return the policies of a list of ids, mappings with 'id', or functions."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise InvalidInput("policies", given, "a list of policy ids, mappings with 'id', or functions of a Setting")
    return tuple(_policy_spec(f"policies[{i}]", one) for i, one in enumerate(given))


def _policy_spec(where: str, one: object) -> PolicySpec:
    if isinstance(one, PolicySpec):
        return one
    if callable(one):
        one = {"id": one}
    if isinstance(one, str):
        one = {"id": one}
    if not isinstance(one, Mapping) or "id" not in one:
        raise InvalidInput(where, one, "a policy id, a mapping with 'id', or a function of a Setting")
    params = {name: value for name, value in one.items() if name not in ("id", "label")}
    try:
        if callable(one["id"]):
            name = getattr(one["id"], "__name__", type(one["id"]).__name__)
            return PolicySpec(id=name, label=one.get("label", name), function=one["id"])
        entry, resolved = catalogue.find(one["id"]), catalogue.resolve(one["id"], params)
        return PolicySpec(id=entry.id, label=one.get("label", entry.id), params=resolved, entry=entry)
    except InvalidInput as error:
        raise error.within(where) from None


def load_spec(path: str | Path) -> Spec:
    """Return the spec of a YAML file."""
    return Spec.of(read_yaml(path))


def read_yaml(path: str | Path) -> object:
    """Return the content of a YAML file; refuse one with duplicate keys."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("reading a spec file", "experiments") from None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        accepted = f"a readable YAML file ({error.strerror or 'unreadable'})"
        raise InvalidInput("spec", str(path), accepted) from None
    except UnicodeDecodeError:
        raise InvalidInput("spec", str(path), "a readable YAML file (it is not UTF-8 text)") from None
    try:
        return load_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}: {error.problem})" if mark else ""
        raise InvalidInput("spec", str(path), f"a file that is valid YAML{where}") from None
    except yaml.YAMLError:
        raise InvalidInput("spec", str(path), "a file that is valid YAML") from None
