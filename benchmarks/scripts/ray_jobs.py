"""Ray's Jobs API: each its own recorded process, as a script is submitted to a cluster."""

import shlex
import sys
import time

import ray
from ray.job_submission import JobStatus, JobSubmissionClient

context = ray.init(include_dashboard=True)
client = JobSubmissionClient(f"http://{context.dashboard_url}")
for _ in sys.stdin:
    start = time.perf_counter()
    job = client.submit_job(entrypoint=f"{shlex.quote(sys.executable)} -c pass")
    while not (status := client.get_job_status(job)).is_terminal():
        time.sleep(0.01)  # there is nothing to wait on
    took = time.perf_counter() - start
    if status is not JobStatus.SUCCEEDED:
        sys.exit(f"the job ended as {status}: {client.get_job_info(job).message}")
    print("=", took, flush=True)
