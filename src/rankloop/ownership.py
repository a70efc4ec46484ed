"""Which capabilities a class defines, and which ones a subclass must not inherit.

Some methods of a part follow from another one: a belief's `catch_up` repeats its `update`, a planner's closed forms
describe its `__call__`. A subclass with another `update` or `__call__` would inherit answers that are no longer true.
"""

from __future__ import annotations


def drop_stale(cls: type, base: type, *, follows: str, capabilities: tuple[str, ...]) -> None:
    """Reset the capabilities that a class does not define to those of the base, if the class replaces `follows`.

    A class that defines `follows` for the first time keeps what it inherits, which was written for such classes.

    >>> class Base:
    ...     def update(self): ...
    ...     def catch_up(self):
    ...         return False
    ...
    ...     def __init_subclass__(cls):
    ...         drop_stale(cls, Base, follows="update", capabilities=("catch_up",))
    >>> class Quick(Base):
    ...     def update(self): ...
    ...     def catch_up(self):
    ...         return True
    >>> class Changed(Quick):
    ...     def update(self): ...
    >>> Quick().catch_up(), Changed().catch_up()
    (True, False)
    """
    before = next(ancestor for ancestor in cls.__mro__[1:] if follows in vars(ancestor))
    if follows in vars(cls) and before is not base:
        for name in capabilities:
            if name not in vars(cls):
                setattr(cls, name, vars(base)[name])


def overridden(cls: type, base: type, methods: tuple[str, ...]) -> frozenset[str]:
    """Return those of these methods that a class has instead of the base's, inherited or its own.

    >>> class Base:
    ...     def forget(self): ...
    ...     def believe(self): ...
    >>> class Forgetful(Base):
    ...     def forget(self): ...
    >>> overridden(Forgetful, Base, ("forget", "believe"))
    frozenset({'forget'})
    """
    return frozenset(name for name in methods if getattr(cls, name) is not getattr(base, name))
