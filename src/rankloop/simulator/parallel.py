"""Run chunks in one process or several; the numbers do not depend on the number of processes."""

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
"""Called with the number of replication-rounds played since its last call."""


@dataclass(frozen=True)
class Task:
    """One policy to play on one chunk of replications."""

    world: World
    policy: PolicySpec
    chunk: Chunk
    rounds: int
    seed: int
    known: tuple[catalogue.PolicyEntry, ...] = field(default_factory=catalogue.own_entries)
    """Custom policies, which a worker process registers in its catalogue too."""

    def __reduce__(self) -> tuple[Callable[..., Task], tuple[object, ...]]:
        """Pickle by value the modules of custom policies, so that a worker does not need their files."""
        cloudpickle = _cloudpickle()
        for module in plugins.named_modules():
            cloudpickle.register_pickle_by_value(module)
        policies = cloudpickle.dumps((self.policy, self.known))
        return _unpickle_task, (self.world, policies, self.chunk, self.rounds, self.seed)

    def run(self, tick: Tick) -> ChunkResult:
        """Play the chunk with one BLAS thread: more do not pay at these sizes and could change the last bits."""
        catalogue.adopt(self.known)
        with one_blas_thread():
            return play(self.world, self.policy, self.chunk, self.rounds, self.seed, tick)


def _cloudpickle() -> ModuleType:
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError:
        return import_module("joblib.externals.cloudpickle")  # its location in older versions of joblib


def _unpickle_task(world: World, policies: bytes, chunk: Chunk, rounds: int, seed: int) -> Task:
    policy, known = pickle.loads(policies)  # noqa: S301  (data of the parent process)
    return Task(world, policy, chunk, rounds, seed, known)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block, if threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        yield
        return
    with threadpool_limits(1):
        yield


def run_all(tasks: Sequence[Task], jobs: int, report: ProgressCallback) -> list[ChunkResult]:
    """Return the results of all tasks, in order."""
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
    """Yield the index and the result of every task as soon as it is finished.

    Args:
        tasks: drawn one by one as processes become free.
        jobs: number of processes.
        engine: `local`, or `dask` for the cluster at DASK_SCHEDULER_ADDRESS, or else a local one of `jobs` workers.
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
            with warnings.catch_warnings(action="ignore"):  # the cancellation of tasks is intended
                results.close()
            if engine == "local":
                _stop_workers()
            raise


@contextmanager
def _backend(engine: str, jobs: int) -> Iterator[dict[str, object]]:
    """Yield the options of joblib: local processes, or a Dask cluster that exists as long as the block."""
    if engine == "local":
        # Arrays are copied to the workers: shared memory would outlive an interrupted run.
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
    """Silence warnings of the workers' resource tracker.

    After an interrupted run, the tracker warns about semaphores of killed workers that no longer exist.
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
    # The parent process handles Ctrl-C; tracebacks of workers would only be noise.
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
    """Report the increase of the workers' counters from a background thread."""
    played = np.memmap(path, dtype=np.int64, mode="r")
    done = threading.Event()
    reported = 0

    def report_increase() -> None:
        nonlocal reported
        total = int(played.sum())
        report(total - reported)
        reported = total

    def watch() -> None:
        while not done.wait(every):
            report_increase()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        report_increase()
