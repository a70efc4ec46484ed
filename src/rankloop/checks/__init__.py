"""The laws that every policy obeys, as a suite that can be run on any policy.

>>> from rankloop import build, checks
>>> for law in checks.laws(lambda setting: build("cascade-ucb1", setting)):
...     law.check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rankloop.checks import candidates, capabilities, caps, policies, serving, settings
from rankloop.checks.trial import Make, Trial

__all__ = ["Law", "Make", "laws"]


@dataclass(frozen=True)
class Law:
    """A named property; `check` raises AssertionError where it does not hold."""

    name: str
    check: Callable[[], None]


def laws(make: Make, *, learns: bool = True) -> Iterator[Law]:
    """Yield every law that applies to the policy which `make` builds for a setting.

    Args:
        make: a function from a Setting to a policy; the setting has everything that a policy may need: 12 items with 4
            features, topics, position biases, contexts and a Beta prior.
        learns: False for policies that are not meant to beat a random list.
    """
    checks: list[Callable[[Make], None]] = [
        policies.lists_are_distinct_allowed_and_within_budget,
        policies.deciding_changes_no_state,
        policies.equal_seeds_give_equal_lists,
        policies.unobserved_slots_teach_nothing,
        policies.unseen_slots_teach_nothing,
        policies.relabelling_items_relabels_lists,
        policies.a_state_of_no_learners_has_the_shapes_of_any_other,
        policies.a_restored_snapshot_continues_identically,
        policies.a_batch_of_two_learns_as_two_batches_of_one,
        policies.impossible_clicks_are_refused,
        candidates.candidates_are_ranked_as_by_a_policy_of_these_items,
        caps.every_list_keeps_the_caps,
        caps.a_cap_that_no_list_can_exceed_changes_nothing,
        caps.relabelling_items_relabels_lists_under_caps,
        caps.propensities_under_caps_match_sampled_frequencies,
        candidates.learning_from_candidates_equals_learning_from_all_items,
        serving.accepted_feedback_replays_to_the_same_state,
        serving.several_kinds_of_feedback_replay_to_the_same_state,
        serving.catching_up_equals_single_updates,
        serving.growing_preserves_what_was_learned,
        serving.every_logged_list_is_reproduced,
        capabilities.propensities_match_sampled_frequencies,
        capabilities.forgetting_keeps_the_prior,
        capabilities.priors_order_the_first_lists,
        capabilities.amending_equals_learning_the_amended_clicks,
        settings.every_setting_is_used_or_refused,
    ]
    if policies.is_deterministic(make):
        checks.append(policies.a_batch_of_two_decides_as_two_batches_of_one)
    if make(Trial().setting).without_exploration() is not None:
        checks.append(policies.zero_radius_equals_greedy)
    if learns:
        checks.append(policies.beats_random_by_a_wide_margin)
    for check in checks:
        yield Law(check.__name__.replace("_", "-"), partial(check, make))
