"""Many chunks on one process or several: the same tasks, the same numbers."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from rankloop import catalogue
from rankloop.catalogue import plugins
from rankloop.errors import MissingExtra
from rankloop.simulator.chunk import Chunk, ChunkResult, Tick, play
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.worlds import World

ProgressCallback = Callable[[int], None]
"""Told how many replication-rounds have been played since it was last called."""


@dataclass(frozen=True)
class Task:
    """One policy on one chunk."""

    world: World
    policy: PolicySpec
    chunk: Chunk
    rounds: int
    seed: int
    known: tuple[catalogue.PolicyEntry, ...] = field(default_factory=catalogue.own_entries)
    """Policies from outside the package, which a worker process enters in its catalogue too."""

    def __reduce__(self) -> tuple[Callable[..., Task], tuple[object, ...]]:
        """How it travels: modules that an operator named go as code, so that a worker need not have their files."""
        cloudpickle = _cloudpickle()
        for module in plugins.named_modules():
            cloudpickle.register_pickle_by_value(module)
        own = cloudpickle.dumps((self.policy, self.known))
        return _unpickle_task, (self.world, own, self.chunk, self.rounds, self.seed)

    def run(self, tick: Tick) -> ChunkResult:
        """Play it, with one BLAS thread: more do not pay at these sizes, and the numbers stay the same."""
        catalogue.adopt(self.known)
        with one_blas_thread():
            return play(self.world, self.policy, self.chunk, self.rounds, self.seed, tick)


def _cloudpickle() -> ModuleType:
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError:
        return import_module("joblib.externals.cloudpickle")  # where older versions of joblib keep it


def _unpickle_task(world: World, own: bytes, chunk: Chunk, rounds: int, seed: int) -> Task:
    policy, known = pickle.loads(own)  # noqa: S301  (what the process that started this one has sent)
    return Task(world, policy, chunk, rounds, seed, known)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS inside the block, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        yield
        return
    with threadpool_limits(1):
        yield


def run_all(tasks: Sequence[Task], jobs: int, report: ProgressCallback) -> list[ChunkResult]:
    """The results of all tasks, in order."""
    if jobs == 1 or len(tasks) == 1:
        return [task.run(_as_tick(report, task.chunk.size)) for task in tasks]
    try:
        import joblib
    except ModuleNotFoundError:
        raise MissingExtra("more than one job", "experiments") from None
    with tempfile.TemporaryDirectory(prefix="rankloop-") as folder:
        path = Path(folder) / "progress"
        np.zeros(len(tasks), dtype=np.int64).tofile(path)
        with _progress_thread(path, report):
            calls = (joblib.delayed(_in_worker)(task, path, i) for i, task in enumerate(tasks))
            try:
                with _quiet_tracker():
                    return list(joblib.Parallel(n_jobs=jobs, backend="loky", max_nbytes=None)(calls))
            except KeyboardInterrupt:
                _stop_workers()
                raise


def run_unordered(tasks: Iterable[Task], jobs: int, engine: str = "local") -> Iterator[tuple[int, ChunkResult]]:
    """Index and result of every task, each as soon as it is there.

    Args:
        tasks: taken one by one, as processes become free.
        jobs: processes.
        engine: `local`, or `dask` for the cluster at DASK_SCHEDULER_ADDRESS, or one of `jobs` workers here.
    """
    if jobs == 1 and engine == "local":
        for i, task in enumerate(tasks):
            yield i, task.run(lambda t: None)
        return
    try:
        import joblib
    except ModuleNotFoundError:
        raise MissingExtra("more than one job", "experiments") from None
    calls = (joblib.delayed(_run_indexed)(i, task) for i, task in enumerate(tasks))
    with _backend(engine, jobs) as options:
        results = joblib.Parallel(return_as="generator_unordered", **options)(calls)
        try:
            yield from results
        except (KeyboardInterrupt, GeneratorExit):
            with warnings.catch_warnings(action="ignore"):  # that tasks were cancelled is what was asked for
                results.close()
            if engine == "local":
                _stop_workers()
            raise


@contextmanager
def _backend(engine: str, jobs: int) -> Iterator[dict[str, object]]:
    """What joblib is told: processes of this machine, or a Dask cluster that lasts as long as the block."""
    if engine == "local":
        # Arrays go to the workers as they are: shared memory would outlive an interrupted run.
        with _quiet_tracker():
            yield {"n_jobs": jobs, "backend": "loky", "max_nbytes": None}
        return
    try:
        import joblib

        distributed = import_module("distributed")  # its types are partial
    except ModuleNotFoundError:
        raise MissingExtra("the dask engine", "cluster") from None
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    cluster = address or distributed.LocalCluster(
        n_workers=jobs, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=logging.ERROR
    )
    try:
        with distributed.Client(cluster, set_as_default=False) as client, joblib.parallel_config("dask", client=client):
            yield {}
    finally:
        if not isinstance(cluster, str):
            cluster.close()


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """Start worker processes without warnings of their resource tracker.

    When a run is interrupted, the tracker may find that semaphores of killed workers are gone already, and would warn.
    """
    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = quiet if not before else f"{before},{quiet}"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONWARNINGS", None)
        else:
            os.environ["PYTHONWARNINGS"] = before


def _run_indexed(index: int, task: Task) -> tuple[int, ChunkResult]:
    if threading.current_thread() is threading.main_thread():  # a Dask worker runs tasks in a thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return index, task.run(lambda t: None)


def _in_worker(task: Task, path: Path, index: int) -> ChunkResult:
    # The parent decides about Ctrl-C; a worker's own traceback would only be noise.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    played = np.memmap(path, dtype=np.int64, mode="r+")

    def tick(t: int) -> None:
        played[index] = t * task.chunk.size

    return task.run(tick)


def _stop_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _as_tick(report: ProgressCallback, size: int) -> Tick:
    last = 0

    def tick(t: int) -> None:
        nonlocal last
        report((t - last) * size)
        last = t

    return tick


@contextmanager
def _progress_thread(path: Path, report: ProgressCallback, every: float = 0.2) -> Iterator[None]:
    """Sum the workers' counters in a thread and report what was added."""
    played = np.memmap(path, dtype=np.int64, mode="r")
    done = threading.Event()
    told = 0

    def tell() -> None:
        nonlocal told
        total = int(played.sum())
        report(total - told)
        told = total

    def watch() -> None:
        while not done.wait(every):
            tell()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        tell()
