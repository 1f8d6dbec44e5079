"""The same numbers kept and fetched by MLflow: `log_batch` into SQLite, without a server."""

import json
import os
import sys
import tempfile
import time

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

POINTS, BATCH = 100_000, 1000

with tempfile.TemporaryDirectory() as folder:
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.create_experiment("reports", artifact_location=folder)
    for _ in sys.stdin:
        run = client.create_run(experiment).info.run_id
        now = int(time.time() * 1000)
        start = time.perf_counter()
        for first in range(0, POINTS, BATCH):
            steps = range(first, first + BATCH)
            client.log_batch(run, [Metric("loss", 0.123 * step, now, step) for step in steps])
        logged = time.perf_counter() - start
        start = time.perf_counter()
        history = client.get_metric_history(run, "loss")
        fetched = time.perf_counter() - start
        if len(history) != POINTS:
            sys.exit(f"{len(history)} points came back, not {POINTS}")
        answer = {"logged": logged, "fetched": fetched, "points": POINTS}
        print("= " + json.dumps(answer), flush=True)
