"""Runs listed by MLflow: the newest, and those that a metric chooses and sorts; in SQLite."""

import json
import os
import random
import sys
import tempfile
import time

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

RUNS, PAGE = 2000, 100

with tempfile.TemporaryDirectory() as folder:
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.create_experiment("lists", artifact_location=folder)
    chance = random.Random(0)
    for number in range(RUNS):
        run = client.create_run(experiment).info.run_id
        metrics = [Metric(name, chance.random(), 0, 99) for name in ("loss", "accuracy", "lr")]
        client.log_batch(run, metrics, [Param("lr", str(chance.random())), Param("n", str(number))])
    for _ in sys.stdin:
        start = time.perf_counter()
        first = client.search_runs([experiment], max_results=PAGE)
        took = {"first": time.perf_counter() - start}
        start = time.perf_counter()
        chosen = client.search_runs(
            [experiment],
            filter_string="metrics.loss < 0.6",
            order_by=["metrics.loss DESC"],
            max_results=PAGE,
        )
        took["metric"] = time.perf_counter() - start
        if len(first) != PAGE or len(chosen) != PAGE:
            sys.exit("not as many runs as were asked for")
        print("= " + json.dumps(took), flush=True)
