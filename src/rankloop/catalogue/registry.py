"""The table of named policies. It drives the CLI, the checks, the README and the names of the service."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rankloop import validate
from rankloop.catalogue.params import Param, checked, params_of
from rankloop.errors import InvalidInput, Unsupported
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
    code: str = ""  # a hash of the file it came from, where that is not the package's

    @property
    def own(self) -> bool:
        """Whether its code is somebody's own: the package's version does not say when it changes."""
        return _outside(self.build.__module__)

    @property
    def doc(self) -> str:
        """The whole docstring."""
        return inspect.getdoc(self.build) or ""

    @property
    def summary(self) -> str:
        """The docstring's first sentence."""
        return self.doc.split("\n\n")[0].replace("\n", " ")


PAPERS = ("baseline", "cascade", "prior", "long-sequences", "select-rank", "choice")
HOW_TO_LOAD = "a policy of your own is loaded with --policy module:name"


class UnknownPolicy(InvalidInput):
    """No policy of this id is in the catalogue."""


_ENTRIES: dict[str, Entry] = {}


def policy(
    id: str, *, paper: str = "own", feedback: str = "cascade", needs: tuple[str, ...] = (), learns: bool = True
) -> Callable[[F], F]:
    """Enter a function `(setting, *, ...) -> Policy` into the catalogue under this id."""

    def decorate(build: F) -> F:
        enter(Entry(id, paper, feedback, needs, learns, build, params_of(build), code_in(build.__module__)))
        return build

    return decorate


def enter(entry: Entry) -> Entry:
    """Add an entry to the catalogue; an id that another policy has is refused."""
    if entry.id in _ENTRIES:
        raise InvalidInput("id", entry.id, "an id that no other policy has")
    _ENTRIES[entry.id] = entry
    return entry


def _outside(module: str) -> bool:
    return module.partition(".")[0] != __name__.partition(".")[0]


def code_in(module: str) -> str:
    """A hash of the file of a module from outside the package; empty where it has none, as in a notebook."""
    file = vars(sys.modules[module]).get("__file__") if _outside(module) and module in sys.modules else None
    try:
        return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Take back what was entered inside the block where it fails."""
    before = dict(_ENTRIES)
    try:
        yield
    except BaseException:
        _ENTRIES.clear()
        _ENTRIES.update(before)
        raise


def own_entries() -> tuple[Entry, ...]:
    """The policies that were entered from outside the package so far; nothing is looked for."""
    return tuple(entry for entry in _ENTRIES.values() if entry.own)


def adopt(entries: Iterable[Entry]) -> None:
    """Enter what another process has entered; a worker does so before it plays."""
    _ENTRIES.update({entry.id: entry for entry in entries})


def entry_of(build: Build) -> Entry | None:
    """The entry that this function was entered as; None where it was not."""
    return next((entry for entry in _ENTRIES.values() if entry.build == build), None)


def code_of(id: str) -> str:
    """What tells one version of somebody's own policy from another; empty for the package's, which has a version."""
    return _ENTRIES[id].code if id in _ENTRIES else ""


def entries() -> tuple[Entry, ...]:
    """Every named policy, in the order of the papers; those of installed packages come last."""
    from rankloop.catalogue import plugins  # which enters policies here

    plugins.discover()
    return tuple(
        sorted(_ENTRIES.values(), key=lambda entry: PAPERS.index(entry.paper) if entry.paper in PAPERS else 99)
    )


def find(id: str) -> Entry:
    """The entry of this id."""
    if isinstance(id, str) and id in _ENTRIES:
        return _ENTRIES[id]
    known = entries()
    for entry in known:
        if entry.id == id:
            return entry
    raise UnknownPolicy("id", id, f"one of {', '.join(entry.id for entry in known)}; {HOW_TO_LOAD}")


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
    entry = find(id)
    built = build_entry(entry, setting, resolve(id, given))
    if entry.own and not isinstance(built, Servable):
        raise Unsupported(
            f"{id} gives a {type(built).__name__}, which no ranker can use; see rankloop.policy.Servable."
        )
    return built


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
