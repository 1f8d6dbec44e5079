"""Modules of a project can be imported in a pod without the dependencies of Windlass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import windlass

BARE = [sys.executable, "-S", "-c"]  # without installed packages


def in_a_pod(program: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(windlass.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    away = {"PYTHONPATH": source, "WINDLASS_AWAY": "1", "WINDLASS_TRIAL_ID": "7"}
    env = {**kept, **away}
    return subprocess.run([*BARE, program], env=env, capture_output=True, text=True)


def test_every_option_for_where_a_function_runs_imports_in_a_pod() -> None:
    done = in_a_pod(
        """if True:
        import windlass as wl

        @wl.run(backend="kubernetes", accelerator="a100x2", volumes={"/data": "claim:sets:ro"})
        def one(n): return n

        @wl.run(executor=wl.Kubernetes(namespace="lab", queue="team-a", node_selector={"a": "b"}))
        def two(n): return one(n) + 1  # which is just called there

        job = wl.Job(wl.PythonFunction(two), executor=wl.Kubernetes(pod_patch={"tty": True}))
        print(two(1))
        """
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_every_public_name_exists_in_a_pod() -> None:
    done = in_a_pod(
        """if True:
        import typing
        import windlass as wl
        for name in wl.__all__:
            getattr(wl, name)

        SPACE = {"lr": wl.loguniform(1e-4, 1), "size": wl.choice([8, 16])}
        def of(trial: wl.Trial[float] | None, table: "wl.Table | None" = None) -> wl.Experiment: ...
        typing.get_type_hints(of)
        print(isinstance(3, wl.Trial), repr(wl.Trial))
        """
    )
    assert (done.stdout, done.stderr) == ("False wl.Trial\n", "")


def test_a_name_that_is_unavailable_in_a_pod_raises_on_use() -> None:
    for use in ("wl.get_trial(3)", "wl.Client()", "wl.Experiment.labels"):
        done = in_a_pod(f"import windlass as wl; {use}")
        name = use.removeprefix("wl.").split("(")[0].split(".")[0]
        message = f"windlass.Unsupported: This trial runs in a pod, where wl.{name} cannot be used."
        assert message in done.stderr
        assert "outside of the pod" in done.stderr
