"""Run a service with one large ranker as in production: `python -m bench.served LOG PORT [two-writes] [shared]`.

`two-writes` answers with uvicorn's own protocol, the plain form of the fast path that `bench.fast_paths` compares.
"""

from __future__ import annotations

import sys

import numpy as np

from bench.engine import D, K, items
from rankloop.cli import serve
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service.app import create_app

if __name__ == "__main__":
    log, port, *options = sys.argv[1:]
    shared = "shared" in options
    settings = ServiceSettings(log=log, port=int(port), limits=ServiceLimits(rate=1e9), shared=shared)
    app = create_app(settings)
    rankers = app.state.service.rankers
    rankers.put("bench", {"policy": "cascade-lin-ts", "slots": K, "dim": D, "window": 30.0})
    rankers.put_items("bench", items(np.random.default_rng(0)))
    if "two-writes" in options:
        serve.serve_until_interrupted(app, settings, "error", http="httptools")
    else:
        serve.serve_until_interrupted(app, settings, "error")
