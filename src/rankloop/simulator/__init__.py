"""The simulator: policies × worlds × replications, batched, reproducible, in one process or several."""

from rankloop.simulator.api import simulate
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result
from rankloop.simulator.spec import Spec, load_spec
from rankloop.simulator.trace import Trace

__all__ = ["PolicySpec", "Result", "Spec", "Trace", "load_spec", "simulate"]
