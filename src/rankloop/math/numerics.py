"""The numerics version: everything that can change the last bit of a result (kernels, libraries, processor)."""

from __future__ import annotations

from functools import cache

KERNELS = 4
"""Version of the kernels; raised by every change that alters a last bit of a decision or of a learned state.

Snapshots of another version are still used. Where they would be wrong, raise `serving.snapshot_frame.STATE_FORMAT`."""


@cache
def version(*, mixed: bool = False) -> str:
    """Return the numerics version.

    Where two versions are equal, equal states, requests and random keys give equal lists, bit for bit.

    Args:
        mixed: part of the state was computed by another numerics version; this one's name is then equal to no version.
    """
    import llvmlite.binding  # imported late, since nothing else needs SciPy at the start
    import numba
    import numpy as np
    import scipy

    libraries = f"numpy {np.__version__} scipy {scipy.__version__} numba {numba.__version__}"
    name = f"{KERNELS} {libraries} {llvmlite.binding.get_host_cpu_name()}"
    return f"{name} and others" if mixed else name
