"""The table of named policies. It drives the CLI, the checks, the README and the names of the service."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rankloop import validate
from rankloop.catalogue.params import Param, checked, params_of
from rankloop.errors import InvalidInput, Unsupported, closest
from rankloop.feedback import Cascade, Feedback, LastClick, PositionBased, SemiBandit
from rankloop.policy import Policy, Servable
from rankloop.types import Setting
from rankloop.wrappers import EveryN, RandomLists

Build = Callable[..., Servable]
F = TypeVar("F", bound=Build)

PLAIN_FEEDBACKS: dict[str, Feedback] = {f.name: f for f in (Cascade(), LastClick(), SemiBandit())}
FEEDBACKS = (*PLAIN_FEEDBACKS, "position-based")


@dataclass(frozen=True)
class Entry:
    """One named policy."""

    id: str
    paper: str
    feedback: str  # how it reads clicks unless told otherwise
    needs: tuple[str, ...]  # of bias, context, coverage, features, lasting (items that return), prior
    learns: bool
    build: Build
    params: tuple[Param, ...]

    @property
    def doc(self) -> str:
        """The whole docstring."""
        return inspect.getdoc(self.build) or ""

    @property
    def summary(self) -> str:
        """The docstring's first sentence."""
        return self.doc.split("\n\n")[0].replace("\n", " ")


PAPERS = ("baseline", "cascade", "prior", "long-sequences", "select-rank", "choice")

_ENTRIES: dict[str, Entry] = {}


def policy(
    id: str, *, paper: str, feedback: str = "cascade", needs: tuple[str, ...] = (), learns: bool = True
) -> Callable[[F], F]:
    """Enter a function `(setting, *, ...) -> Policy` into the catalogue under this id."""

    def enter(build: F) -> F:
        if id in _ENTRIES:
            raise InvalidInput("id", id, "an id that no other policy has")
        _ENTRIES[id] = Entry(id, paper, feedback, needs, learns, build, params_of(build))
        return build

    return enter


def entries() -> tuple[Entry, ...]:
    """Every named policy, in the order of the papers."""
    return tuple(
        sorted(_ENTRIES.values(), key=lambda entry: PAPERS.index(entry.paper) if entry.paper in PAPERS else 99)
    )


def find(id: str) -> Entry:
    """The entry of this id."""
    if not isinstance(id, str) or id not in _ENTRIES:
        raise InvalidInput("id", id, "one of " + ", ".join(entry.id for entry in entries()), closest(id, _ENTRIES))
    return _ENTRIES[id]


def resolve(id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a policy: given ones checked, the others at their defaults."""
    entry = find(id)
    own = {name: value for name, value in given.items() if name not in ("feedback", "every")}
    params = checked(entry.params, own)
    if "feedback" in given:
        if given["feedback"] not in FEEDBACKS:
            raise InvalidInput("feedback", given["feedback"], "one of " + ", ".join(FEEDBACKS))
        params["feedback"] = given["feedback"]
    if "every" in given:
        params["every"] = validate.integer("every", given["every"], high=10**6)
    return params


def build(id: str, setting: Setting, **given: Any) -> Servable:
    """The policy of this id for this setting.

    Besides its own parameters every policy takes `feedback`: how it reads clicks, if not in its own way; and `every`:
    it learns from so many rounds together.

    >>> build("gts", Setting(items=30, slots=3)).feedback.name
    'cascade'
    """
    return build_entry(find(id), setting, resolve(id, given))


def build_entry(entry: Entry, setting: Setting, params: Mapping[str, Any]) -> Servable:
    """The policy of an entry, from parameters that `resolve` has checked."""
    id, own = entry.id, dict(params)
    if "lasting" in entry.needs:
        setting.need_lasting(id)
    override, every = own.pop("feedback", None), own.pop("every", 1)
    built = entry.build(setting, **own)
    if override is not None:
        if not isinstance(built, Policy):
            raise Unsupported(f"{id} reads clicks in its own way only; leave out 'feedback'.")
        built = _reading(built, id, override, setting)
    return built if every == 1 else _in_batches(built, id, every, setting)


def _in_batches(built: Servable, id: str, every: int, setting: Setting) -> Servable:
    """The policy that learns from `every` rounds together; random lists of a warm-up stay where they are."""
    if isinstance(built, RandomLists):
        return dataclasses.replace(built, policy=_in_batches(built.policy, id, every, setting))
    if not isinstance(built, Policy):
        raise Unsupported(f"{id} decides by itself when it learns; leave out 'every'.")
    return EveryN(built, every, setting.slots, getattr(built.belief, "dim", 0))


def _reading(built: Policy[Any], id: str, name: str, setting: Setting) -> Policy[Any]:
    if name != "position-based":
        return dataclasses.replace(built, feedback=PLAIN_FEEDBACKS[name])
    if not built.belief.fractional:
        raise Unsupported(f"{id} cannot learn from fractional exposure; choose another feedback.")
    return dataclasses.replace(built, feedback=PositionBased(setting.need_bias(id)))
