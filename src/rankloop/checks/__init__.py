"""The laws that every policy keeps, as a suite that anyone can run on a policy of their own.

>>> from rankloop import build, checks
>>> for law in checks.laws(lambda setting: build("cascade-ucb1", setting)):
...     law.check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rankloop.checks import capabilities, policies, serving, settings
from rankloop.checks.trial import Make, Trial

__all__ = ["Law", "Make", "laws"]


@dataclass(frozen=True)
class Law:
    """A named property; `check` raises AssertionError where it does not hold."""

    name: str
    check: Callable[[], None]


def laws(make: Make, *, learns: bool = True) -> Iterator[Law]:
    """Every law that applies to the policy which `make` builds for a setting.

    Args:
        make: a function from a Setting to a policy; the setting has all that a policy may need: 12 items with 4
            features, topics, prices of attention, contexts and a Beta prior.
        learns: False for policies that are not meant to beat a random list.
    """
    checks: list[Callable[[Make], None]] = [
        policies.lists_are_distinct_allowed_and_within_budget,
        policies.deciding_changes_no_state,
        policies.equal_seeds_give_equal_lists,
        policies.unobserved_slots_teach_nothing,
        policies.relabelling_items_relabels_lists,
        policies.save_load_go_on_equals_go_on,
        policies.a_batch_of_two_learns_as_two_batches_of_one,
        policies.impossible_clicks_are_refused,
        serving.accepted_means_learnable,
        serving.catching_up_equals_updates,
        serving.growing_changes_nothing,
        serving.every_list_is_decided_again,
        capabilities.propensity_agrees_with_draws,
        capabilities.forgetting_keeps_the_prior,
        capabilities.priors_order_the_first_lists,
        capabilities.amending_equals_learning,
        settings.used_or_refused,
    ]
    if policies.is_settled(make):
        checks.append(policies.a_batch_of_two_decides_as_two_batches_of_one)
    if make(Trial().setting).without_doubt() is not None:
        checks.append(policies.zero_radius_equals_greedy)
    if learns:
        checks.append(policies.beats_random_by_a_wide_margin)
    for check in checks:
        yield Law(check.__name__.replace("_", "-"), partial(check, make))
