"""The table of named policies. It drives the CLI, the checks, the README and the names of the service."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rankloop import validate
from rankloop.catalogue.params import Param, checked, params_of
from rankloop.errors import InvalidInput, Unsupported, closest
from rankloop.feedback import Cascade, Feedback, LastClick, PositionBased, SemiBandit
from rankloop.ranking_policy import RankingPolicy
from rankloop.types import Setting
from rankloop.wrappers import Discounted, EveryN

Build = Callable[..., RankingPolicy[Any]]
F = TypeVar("F", bound=Build)

PLAIN_FEEDBACKS: dict[str, Feedback] = {f.name: f for f in (Cascade(), LastClick(), SemiBandit())}
FEEDBACKS = (*PLAIN_FEEDBACKS, "position-based")
SHARED_PARAMS = ("feedback", "every", "discount")
"""Parameters that every policy takes."""


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
    own = {name: value for name, value in given.items() if name not in SHARED_PARAMS}
    params = checked(entry.params, own)
    if "feedback" in given:
        if given["feedback"] not in FEEDBACKS:
            raise InvalidInput("feedback", given["feedback"], "one of " + ", ".join(FEEDBACKS))
        params["feedback"] = given["feedback"]
    if "every" in given:
        params["every"] = validate.integer("every", given["every"], high=10**6)
    if "discount" in given:
        params["discount"] = validate.number("discount", given["discount"], low=0.0, high=1.0, open_low=True)
    return params


def build(id: str, setting: Setting, **given: Any) -> RankingPolicy[Any]:
    """The policy of this id for this setting.

    Besides its own parameters every policy takes `feedback`: how it reads clicks, if not in its own way; `every`: it
    learns from so many rounds together; and `discount`: the share of what was learned that one more round leaves.

    >>> build("gts", Setting(items=30, slots=3)).feedback.name
    'cascade'
    """
    return build_entry(find(id), setting, resolve(id, given))


def build_entry(entry: Entry, setting: Setting, params: Mapping[str, Any]) -> RankingPolicy[Any]:
    """The policy of an entry, from parameters that `resolve` has checked."""
    own = dict(params)
    if "lasting" in entry.needs:
        setting.need_lasting(entry.id)
    override, every, discount = own.pop("feedback", None), own.pop("every", 1), own.pop("discount", 1.0)
    built = entry.build(setting, **own)
    try:
        if override is not None:
            built = built.with_feedback(_reading(built, override, setting))
        if every > 1:
            built = built.in_batches(lambda inner: EveryN(inner, every, setting.slots))
        return built if discount == 1.0 else Discounted(built, discount)
    except Unsupported as error:
        raise Unsupported(f"{entry.id} {error}") from None


def _reading(built: RankingPolicy[Any], name: str, setting: Setting) -> Feedback:
    """How clicks are read, by its name."""
    if name != "position-based":
        return PLAIN_FEEDBACKS[name]
    if built.takes_feedback and not built.fractional:
        raise Unsupported("cannot learn from fractional exposure; choose another feedback.")
    return PositionBased(setting.need_bias("with feedback 'position-based'"))
