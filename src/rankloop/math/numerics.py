"""What can change the last bit of a number: the version of our kernels, the libraries, the processor."""

from __future__ import annotations

from functools import cache

KERNELS = 2
"""Counts changes of this package that change a last bit of a decision or of what is learned."""


@cache
def version() -> str:
    """Where two of these are equal, equal states, requests and random keys give equal lists, bit for bit."""
    import llvmlite.binding  # here, since nothing else at the start needs SciPy
    import numba
    import numpy as np
    import scipy

    libraries = f"numpy {np.__version__} scipy {scipy.__version__} numba {numba.__version__}"
    return f"{KERNELS} {libraries} {llvmlite.binding.get_host_cpu_name()}"
