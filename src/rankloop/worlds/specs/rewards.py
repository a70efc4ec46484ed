"""Read the specs of worlds with rewards, choices or contexts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.datasets import prepared
from rankloop.errors import InvalidInput, Words
from rankloop.math.logistic import sigmoid
from rankloop.objective import AnyClick, Clicks, Objective, Revenue
from rankloop.types import FloatArray
from rankloop.worlds.attraction import FixedAttraction
from rankloop.worlds.base import World
from rankloop.worlds.choice import ChoiceWorld
from rankloop.worlds.item_position import ItemPositionWorld
from rankloop.worlds.rewards import RewardWorld
from rankloop.worlds.specs.attractions import any_source, source
from rankloop.worlds.specs.objectives import GOAL, choice_goal, with_cap
from rankloop.worlds.specs.reward_fields import SCENARIO, budgets_of, scenario_of


def cascade_rewards(fields: Mapping[str, object]) -> World:
    """Cascade with reward r_j for a first success in slot j and loss ℓ_s if all s items fail; lists of 0 … budget.

    attraction: L probabilities or a generator, as in cascade (numbers may come with features); or
    features and weights: L x d and d numbers, success σ(xᵀw); or
    fresh and weights: {items, dim}, new unit-norm items each round, success σ(xᵀw)
    budget: a number, or a list that is cycled over the rounds
    scenario: vanilla (r = 1, ℓ = 0) or exponential (r_j = 2^-(j-1), ℓ_j = 0.8·2^-j - 1), default vanilla
    rewards, losses: instead of a scenario, non-increasing numbers, and non-positive numbers starting with ℓ_0; or a
      list of such lists, cycled over the rounds and given with each request, losses that do not increase
    context: as in cascade, with linear or logistic attraction (optional)
    """
    optional = ("attraction", "features", "weights", "fresh", "context", *SCENARIO)
    given = validate.mapping("world", fields, required=("budget",), optional=optional)
    budgets = budgets_of(given["budget"])
    chosen = scenario_of(given, max(budgets))
    if "fresh" in given:
        _exclude(given, "fresh", ("attraction", "features", "context"))
        items, weights = _fresh(given)
        return RewardWorld(chosen, budgets, items, weights=weights)
    if "weights" in given:
        _exclude(given, "weights", ("attraction", "context"))
        x = validate.matrix("world.features", given.get("features"))
        weights = validate.vector("world.weights", given["weights"], length=x.shape[1])
        return RewardWorld(chosen, budgets, len(x), source=FixedAttraction(np.asarray(sigmoid(x @ weights)), x))
    if "attraction" not in given:
        raise InvalidInput("world.attraction", None, "attraction, or features and weights, or fresh and weights")
    arms = any_source(given["attraction"], given.get("features"), given.get("context"))
    return RewardWorld(chosen, budgets, arms.items, source=arms)


def coverage_rewards(fields: Mapping[str, object]) -> World:
    """As cascade-rewards, but an item's success depends on the topics that the items above it cover.

    coverage: L x topics numbers in [0, 1]; or fresh: {items, dim}, new Dirichlet(½) rows each round
    weights: one number for each topic; success σ(c̄ᵀu), c̄ = (2c′-1)/√topics, c′ = c·∏(1 - c of the items above)
    budget, scenario, rewards, losses: as in cascade-rewards
    The best list is approximated greedily, then cut to the best length.
    """
    given = validate.mapping("world", fields, required=("budget", "weights"), optional=("coverage", "fresh", *SCENARIO))
    budgets = budgets_of(given["budget"])
    chosen = scenario_of(given, max(budgets))
    if "fresh" in given:
        _exclude(given, "fresh", ("coverage",))
        items, weights = _fresh(given)
        return RewardWorld(chosen, budgets, items, weights=weights, covers=True)
    c = validate.matrix("world.coverage", given.get("coverage"))
    bad = np.argwhere((c < 0) | (c > 1))
    if bad.size:
        i, j = bad[0]
        raise InvalidInput(f"world.coverage[{i}][{j}]", float(c[i, j]), "a number in [0, 1]")
    weights = validate.vector("world.weights", given["weights"], length=c.shape[1])
    return RewardWorld(chosen, budgets, len(c), weights=weights, coverage=c, covers=True)


def choice(fields: Mapping[str, object]) -> World:
    """Multinomial logit choice of one item or none: P(slot k) = λ_k α/(1 + Σ λ_v α); value P(click).

    attraction: J numbers in (0, 1], or a generator as in cascade
    bias: K numbers in (0, 1]
    features: J x d numbers, only with an explicit attraction (optional)
    objective: any-click (default), clicks (the same here) or revenue, the expected price of the chosen item
    prices, caps: as in cascade
    """
    given = validate.mapping("world", fields, required=("attraction", "bias"), optional=("features", "caps", *GOAL))
    bias = validate.vector("world.bias", given["bias"], low=0.0, high=1.0, open_low=True)
    if not isinstance(given["attraction"], Mapping):
        validate.vector("world.attraction", given["attraction"], low=0.0, high=1.0, open_low=True)
    arms = source(given["attraction"], given.get("features"))
    if len(bias) > arms.items:
        raise InvalidInput("world.bias", Words(f"a list of {len(bias)}"), f"at most {arms.items}, one for each item")
    goal = choice_goal(given, arms.items, bias)
    if given.get("caps") is not None:
        goal = with_cap(given["caps"], goal, arms.items, len(bias))
    return ChoiceWorld(arms, bias, goal)


def item_position(fields: Mapping[str, object]) -> World:
    """Contexts x, position effects per item: P(click) of item j in slot k = 1 … K is σ(xᵀβ_j - α_j k), independently.

    alpha and beta: N and N x d numbers; or items and dim: sizes, α ~ U[0, 1] and β uniform in the unit ball; or
    data: open-bandit, with parameters, intercept, contexts and features fitted on its clicks
    k: number of slots
    objective: any-click (1 - ∏(1-p), default), clicks (Σp) or revenue (Σ price·p, with prices)
    prices: N numbers of at least 0, for revenue
    intercept: a number or N numbers, added to xᵀβ; policies then get a context with a last entry 1 (optional)
    features: N x d numbers, the items' features (optional)
    contexts: n x d numbers, a random row for each visitor (optional; else uniform in the unit ball)
    """
    numbers = ("alpha", "beta", "items", "dim", "intercept", "features", "contexts")
    given = validate.mapping("world", fields, required=("k",), optional=("data", "objective", "prices", *numbers))
    if "data" in given:
        _exclude(given, "data", numbers)
        validate.choice("world.data", given["data"], ("open-bandit",))
        given = given | {name: array.tolist() for name, array in vars(prepared.fitted_log()).items()}
    alpha, beta = _parameters(given)
    items = len(beta) if beta is not None else validate.integer("world.items", given.get("items"))
    dim = beta.shape[1] if beta is not None else validate.integer("world.dim", given.get("dim"))
    k = validate.integer("world.k", given["k"], high=items)
    features = None if "features" not in given else validate.matrix("world.features", given["features"], rows=items)
    contexts = None if "contexts" not in given else validate.matrix("world.contexts", given["contexts"])
    if contexts is not None and contexts.shape[1] != dim:
        raise InvalidInput("world.contexts", Words(f"rows of {contexts.shape[1]}"), f"rows of {dim} numbers, as beta")
    objective, intercept = _objective(given, items), _intercept(given, items)
    return ItemPositionWorld(items, dim, k, objective, alpha, beta, intercept, features, contexts)


def _exclude(given: Mapping[str, object], field: str, others: tuple[str, ...]) -> None:
    for other in others:
        if other in given:
            raise InvalidInput(f"world.{other}", given[other], f"no {other} together with world.{field}")


def _fresh(given: Mapping[str, object]) -> tuple[int, FloatArray]:
    sizes = validate.mapping("world.fresh", given["fresh"], required=("items", "dim"))
    items = validate.integer("world.fresh.items", sizes["items"])
    dim = validate.integer("world.fresh.dim", sizes["dim"])
    return items, validate.vector("world.weights", given.get("weights"), length=dim)


def _parameters(given: Mapping[str, object]) -> tuple[FloatArray | None, FloatArray | None]:
    alpha = None if "alpha" not in given else validate.vector("world.alpha", given["alpha"])
    beta = None if "beta" not in given else validate.matrix("world.beta", given["beta"])
    if (alpha is None) != (beta is None):
        raise InvalidInput(
            "world.alpha" if alpha is None else "world.beta", None, "both alpha and beta, or items and dim"
        )
    if alpha is not None and beta is not None:
        if len(alpha) != len(beta):
            raise InvalidInput(
                "world.beta", Words(f"{len(beta)} rows"), f"{len(alpha)} rows, one for each entry of alpha"
            )
        for name, size in (("items", len(beta)), ("dim", beta.shape[1])):
            if name in given and given[name] != size:
                raise InvalidInput(f"world.{name}", given[name], f"{size}, as alpha and beta have it")
    return alpha, beta


def _objective(given: Mapping[str, object], items: int) -> Objective:
    name = validate.choice("world.objective", given.get("objective", "any-click"), ("any-click", "clicks", "revenue"))
    if name == "revenue":
        if "prices" not in given:
            raise InvalidInput("world.prices", None, f"{items} prices of at least 0, since the objective is revenue")
        return Revenue(validate.vector("world.prices", given["prices"], low=0.0, length=items))
    if "prices" in given:
        raise InvalidInput("world.prices", given["prices"], "prices only with the objective revenue")
    return AnyClick() if name == "any-click" else Clicks()


def _intercept(given: Mapping[str, object], items: int) -> FloatArray | None:
    if "intercept" not in given:
        return None
    if isinstance(given["intercept"], list | tuple):
        return validate.vector("world.intercept", given["intercept"], length=items)
    return np.full(items, validate.number("world.intercept", given["intercept"]))
