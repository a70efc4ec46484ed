"""Run all benchmarks in sequence: `python -m bench`."""

from __future__ import annotations

import platform
from importlib.metadata import version

import numpy as np

from bench import blas, catalogue, engine, kernels, lin_ts, memory, replay, rows, service, slots, unseen
from rankloop import __version__
from rankloop.simulator.parallel import one_blas_thread

if __name__ == "__main__":
    print(
        f"rankloop {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, Numba {version('numba')}"
    )
    print("\n== CascadeLinTS compared with hand-written code")
    with one_blas_thread():
        lin_ts.main()
        print("\n== Compiled kernels compared with NumPy")
        kernels.main()
        print("\n== Rows that change with every request, and candidates among many items")
        rows.main()
        print("\n== Large catalogues: items that nobody has seen, widths of confidence bounds")
        unseen.main()
        print("\n== Slots: assignment, choice, select-rank")
        slots.main()
        print("\n== A ranker in process compared with its bare policy")
        engine.main()
        print("\n== A long log (`make bench-long`: a million decisions)")
        replay.main()
        print("\n== The service compared with an empty POST (`make bench-long`: five minutes)")
        service.main()
    print("\n== BLAS threads")
    blas.main()
    print("\n== Memory")
    memory.main()
    print("\n== Every policy in the setting of its paper")
    catalogue.main()
