"""The registry of named policies, which the CLI, the checks, the documentation and the service use."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rankloop import validate
from rankloop.catalogue.params import Param, Value, checked, params_of
from rankloop.errors import InvalidInput, RankloopError, Unsupported, closest
from rankloop.feedback import Cascade, Feedback, LastClick, PositionBased, SemiBandit
from rankloop.plan import NoPlanner
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.types import Setting
from rankloop.wrappers import Discounted, EveryN

Build = Callable[..., RankingPolicy[Any]]
F = TypeVar("F", bound=Build)

PLAIN_FEEDBACKS: dict[str, Feedback] = {f.name: f for f in (Cascade(), LastClick(), SemiBandit())}
FEEDBACKS = (*PLAIN_FEEDBACKS, "position-based")
SHARED_PARAMS = ("feedback", "every", "discount")
"""Parameters that every policy takes."""


@dataclass(frozen=True)
class PolicyEntry:
    """One named policy."""

    id: str
    paper: str
    feedback: str  # its default feedback model
    needs: tuple[str, ...]  # any of bias, context, coverage, features, lasting (items that return), prior
    learns: bool
    build: Build
    params: tuple[Param, ...]
    practical: str = ""  # id of the policy to use instead, where the default radius is a worst-case bound
    code: str = ""  # a hash of its source file, if that is outside the package

    @property
    def own(self) -> bool:
        """Whether its code is outside the package, so that the package's version does not say when it changes."""
        return _outside(self.build.__module__)

    @property
    def doc(self) -> str:
        """The whole docstring."""
        return inspect.getdoc(self.build) or ""

    @property
    def summary(self) -> str:
        """The docstring's first sentence."""
        return self.doc.split("\n\n")[0].replace("\n", " ")

    @property
    def advice(self) -> str:
        """What to use instead, where the default radius is a worst-case bound; empty for all other policies."""
        return f"Worst-case radius; in practice {self.practical}." if self.practical else ""


PAPERS = ("baseline", "cascade", "prior", "long-sequences", "select-rank", "choice")
HOW_TO_LOAD = "a policy of your own is loaded with --policy module:name"


class UnknownPolicy(InvalidInput):
    """No policy of this id is in the catalogue."""


_ENTRIES: dict[str, PolicyEntry] = {}
_DISCOVERIES: list[Callable[[], None]] = []


def policy(
    id: str,
    *,
    paper: str = "own",
    feedback: str = "cascade",
    needs: tuple[str, ...] = (),
    learns: bool = True,
    practical: str = "",
) -> Callable[[F], F]:
    """Return a decorator that adds a function `(setting, *, ...) -> Policy` to the catalogue under this id.

    Args:
        id: its id.
        paper: id of its paper.
        feedback: name of its default feedback model.
        needs: what it needs of a setting.
        learns: whether it learns at all.
        practical: id of a policy that explores less, if its default radius is the one that a worst-case analysis needs.
    """

    def decorate(build: F) -> F:
        code = code_in(build.__module__)
        enter(PolicyEntry(id, paper, feedback, needs, learns, build, params_of(build), practical, code))
        return build

    return decorate


def enter(entry: PolicyEntry) -> PolicyEntry:
    """Add an entry to the catalogue; refuse an id that another policy has."""
    if entry.id in _ENTRIES:
        raise InvalidInput("id", entry.id, "an id that no other policy has")
    _ENTRIES[entry.id] = entry
    return entry


def _outside(module: str) -> bool:
    return module.partition(".")[0] != __name__.partition(".")[0]


def code_in(module: str) -> str:
    """Return a hash of the file of a module outside the package; empty where it has none, as in a notebook."""
    file = vars(sys.modules[module]).get("__file__") if _outside(module) and module in sys.modules else None
    try:
        return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Remove the entries that were added inside the block if it fails."""
    before = dict(_ENTRIES)
    try:
        yield
    except BaseException:
        _ENTRIES.clear()
        _ENTRIES.update(before)
        raise


def own_entries() -> tuple[PolicyEntry, ...]:
    """Return the policies from outside the package that were added so far, without searching for more."""
    return tuple(entry for entry in _ENTRIES.values() if entry.own)


def discover_with(discover: Callable[[], None]) -> None:
    """Call a function, which may add entries, whenever all ids or an unknown id are requested."""
    _DISCOVERIES.append(discover)


def adopt(entries: Iterable[PolicyEntry]) -> None:
    """Add the entries of another process; a worker does so before it plays."""
    _ENTRIES.update({entry.id: entry for entry in entries})


def entry_of(build: Build) -> PolicyEntry | None:
    """Return the entry of this function, or None."""
    return next((entry for entry in _ENTRIES.values() if entry.build == build), None)


def code_of(id: str) -> str:
    """Return a hash that distinguishes versions of a policy from outside the package; empty for the package's own."""
    return _ENTRIES[id].code if id in _ENTRIES else ""


def entries() -> tuple[PolicyEntry, ...]:
    """Return every named policy, in the order of the papers; those of installed packages come last."""
    for discover in _DISCOVERIES:
        discover()
    return tuple(
        sorted(_ENTRIES.values(), key=lambda entry: PAPERS.index(entry.paper) if entry.paper in PAPERS else 99)
    )


def find(id: str) -> PolicyEntry:
    """Return the entry of this id."""
    entry = _entered(id)
    if entry is not None:
        return entry
    ids = [entry.id for entry in entries()]  # includes those of installed packages
    entry = _entered(id)
    if entry is None:
        raise UnknownPolicy("id", id, f"one of {', '.join(ids)}; {HOW_TO_LOAD}", closest(id, ids))
    return entry


def _entered(id: object) -> PolicyEntry | None:
    return next((entry for entry in _ENTRIES.values() if entry.id == id), None)


def resolve(id: str, given: Mapping[str, object]) -> dict[str, Value]:
    """Return all parameters of a policy: the given ones checked, the others at their defaults."""
    entry = find(id)
    own = {name: value for name, value in given.items() if name not in SHARED_PARAMS}
    params = checked(entry.params, own)
    if "feedback" in given:
        params["feedback"] = validate.choice("feedback", given["feedback"], FEEDBACKS)
    if "every" in given:
        params["every"] = validate.integer("every", given["every"], high=10**6)
    if "discount" in given:
        params["discount"] = validate.number("discount", given["discount"], low=0.0, high=1.0, open_low=True)
    return params


def build(id: str, setting: Setting, **given: object) -> RankingPolicy[LearnerState]:
    """Return the policy of this id for this setting.

    Besides its own parameters every policy takes `feedback`, the feedback model that replaces its own; `every`, the
    number of rounds in a batch from which it learns at once; and `discount`, the share of what was learned that each
    further round keeps.

    >>> build("gts", Setting(items=30, slots=3)).feedback.name
    'cascade'
    """
    entry = find(id)
    params = resolve(id, given)
    if not entry.own:
        return build_entry(entry, setting, params)
    try:
        built = build_entry(entry, setting, params)
    except RankloopError:
        raise
    except Exception as error:  # from code outside the package
        raise Unsupported(f"{id} cannot be built ({type(error).__name__}: {error}).") from error
    if not isinstance(built, RankingPolicy):
        raise Unsupported(f"{id} gives a {type(built).__name__}; accepted: a rankloop.RankingPolicy.")
    return built


def build_entry(entry: PolicyEntry, setting: Setting, params: Mapping[str, Value]) -> RankingPolicy[LearnerState]:
    """Return the policy of an entry, from parameters that `resolve` has checked."""
    own = dict(params)
    if "lasting" in entry.needs:
        setting.need_lasting(entry.id)
    override = own.pop("feedback", None)
    every = validate.integer("every", own.pop("every", 1))
    discount = validate.number("discount", own.pop("discount", 1.0))
    if override is not None:
        setting = setting.read_as(validate.choice("feedback", override, FEEDBACKS))
    try:
        built = entry.build(setting, **own)
    except NoPlanner as error:
        raise Unsupported(f"{entry.id} cannot rank for this objective: {error}") from None
    try:
        if override is not None and built.feedback.name != override:
            feedback = _reading(built, validate.choice("feedback", override, FEEDBACKS), setting)
            built = built.with_feedback(feedback)
        if every > 1:
            built = built.in_batches(lambda inner: EveryN(inner, every, setting.slots))
        if discount != 1.0:
            built = Discounted(built, discount)
        return built
    except Unsupported as error:
        raise Unsupported(f"{entry.id} {error}") from None


def _reading(built: RankingPolicy[LearnerState], name: str, setting: Setting) -> Feedback:
    """Return the feedback model of this name."""
    if name != "position-based":
        return PLAIN_FEEDBACKS[name]
    if built.takes_feedback and not built.fractional:
        raise Unsupported("cannot learn from fractional exposure; choose another feedback.")
    return PositionBased(setting.need_bias("with feedback 'position-based'"))
