"""One BLAS thread: the matrices are small, and threads that wait for each other only cost time."""

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def pytest_configure() -> None:
    """A busy machine makes any example slow now and then, and no test judges milliseconds."""
    from hypothesis import settings

    settings.register_profile("rankloop", deadline=None)
    settings.load_profile("rankloop")
