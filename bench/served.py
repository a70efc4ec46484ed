"""Run a service with one large ranker, as in production. `python -m bench.served LOG PORT`."""

from __future__ import annotations

import sys

import numpy as np

from bench.engine import D, K, items
from rankloop.cli import serve
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service.app import create_app

if __name__ == "__main__":
    settings = ServiceSettings(log=sys.argv[1], port=int(sys.argv[2]), limits=ServiceLimits(rate=1e9))
    app = create_app(settings)
    rankers = app.state.service.rankers
    rankers.put("bench", {"policy": "cascade-lin-ts", "slots": K, "dim": D, "window": 30.0})
    rankers.put_items("bench", items(np.random.default_rng(0)))
    serve.serve_until_interrupted(app, settings, "error")
