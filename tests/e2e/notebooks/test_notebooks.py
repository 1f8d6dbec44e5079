"""What notebook cells show: resources as HTML, and the status of a waiting call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from notebook_kernel import Kernel, html_of, running_kernel, text_of

pytestmark = pytest.mark.finding("U17")

SETUP = """
import time
from pathlib import Path
import windlass as wl

@wl.run
def train(lr, go=None):
    for step in range(3):
        wl.report(step, loss=lr / (step + 1))
    print("reported")
    while go is not None and not Path(go).exists():
        time.sleep(0.01)
    return 1 - lr

@wl.run
def bar(steps):
    for step in range(steps):
        print(f"\\r{step + 1}/{steps}", end="", flush=True)
        time.sleep(0.002)
    print()
"""


@pytest.fixture(scope="module")
def kernel(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    env = {
        "WINDLASS_HOME": str(module_home),
        "JUPYTER_RUNTIME_DIR": str(folder),
        "IPYTHONDIR": str(folder),
    }
    with running_kernel(folder, env) as kernel:
        kernel.run(SETUP)
        yield kernel


@pytest.fixture(scope="module")
def sweep(kernel: Kernel) -> list[Any]:
    """The outputs of a cell that waits for an experiment with two trials."""
    return kernel.run("""
exp = wl.create_experiment("sweep")
for lr in (0.1, 0.2):
    exp.add(train.job(), args={"lr": lr})
exp.wait()
""")


def _status(outputs: list[Any]) -> list[str]:
    return [o["data"]["text/plain"] for o in outputs if o["output_type"] == "display_data"]


def test_a_call_shows_one_status_above_its_output(kernel: Kernel, home: Path) -> None:
    outputs = kernel.run("train(0.25)")
    assert [o["output_type"] for o in outputs] == ["display_data", "stream", "execute_result"]
    [status] = _status(outputs)
    assert "(train) succeeded in" in status
    assert text_of(outputs) == "reported\n"
    assert text_of(outputs, "stderr") == ""


def test_a_cell_keeps_only_the_last_state_of_a_progress_bar(kernel: Kernel, home: Path) -> None:
    outputs = kernel.run("bar(500)")
    assert text_of(outputs) == "500/500\n"
    assert len(json.dumps(outputs)) < 1500


def test_a_wait_updates_its_status_in_place(kernel: Kernel, home: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    kernel.when_shown("running", go.touch)
    outputs = kernel.run(f"train.submit(0.5, {str(go)!r}).wait()")
    assert [o["output_type"] for o in outputs] == ["display_data", "execute_result"]
    assert _status(outputs)[0].endswith("(train) succeeded")
    assert "SUCCEEDED" in outputs[1]["data"]["text/plain"]
    assert "SUCCEEDED" in html_of(outputs[1])


def test_a_map_shows_one_status_for_all_its_trials(
    kernel: Kernel, home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kernel.when_shown("of 4 done", go.touch)
    outputs = kernel.run(f"list(train.starmap([(n, {str(go)!r}) for n in range(4)]))")
    assert _status(outputs) == ["train: 4 of 4 done"]
    assert text_of(outputs) == "reported\n" * 4


def test_an_interrupted_call_stops_its_trial(kernel: Kernel, home: Path, tmp_path: Path) -> None:
    go = tmp_path / "never"
    kernel.when_shown("reported", kernel.interrupt)
    outputs = kernel.run(f"train(0.5, {str(go)!r})", may_fail=True)
    trial = next(wl.list_trials(sort_by="-id"))
    assert outputs[-1]["ename"] == "KeyboardInterrupt"
    assert trial.state == "STOPPED"
    assert _status(outputs) == [f"trial {trial.id} (train) was stopped: Ctrl-C"]


def test_an_interrupted_wait_leaves_the_trial_running(
    kernel: Kernel, home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kernel.when_shown("running", kernel.interrupt)
    outputs = kernel.run(f"train.submit(0.5, {str(go)!r}).wait()", may_fail=True)
    trial = next(wl.list_trials(sort_by="-id"))
    assert _status(outputs) == [f"stopped waiting for trial {trial.id} (train) running"]
    go.touch()
    assert trial.result() == 0.5


def test_an_experiment_shows_its_progress_and_then_its_trials(sweep: list[Any]) -> None:
    [status] = _status(sweep)
    assert "2 trials: 2 succeeded" in status
    assert sweep[-1]["data"]["text/plain"].startswith("<Experiment")
    assert "lr=0.1" in html_of(sweep[-1])


@pytest.mark.usefixtures("sweep")
def test_a_shown_list_still_yields_all_its_items(kernel: Kernel) -> None:
    kernel.run("listing = wl.list_trials(experiment='sweep')")
    [shown] = kernel.run("listing")
    assert html_of(shown).count("<tr>") == 3
    assert shown["data"]["text/plain"].splitlines()[0].split()[:3] == ["ID", "NAME", "STATE"]
    [values] = kernel.run("[trial.params['lr'] for trial in listing]")
    assert values["data"]["text/plain"] == "[0.1, 0.2]"
    [rest] = kernel.run("listing")
    assert "The list has no more items." in html_of(rest)


@pytest.mark.usefixtures("sweep")
def test_trials_differences_and_curves_are_shown_as_html(kernel: Kernel) -> None:
    [trial] = kernel.run("first, second = wl.list_trials(experiment='sweep'); first")
    assert html_of(trial).count("<svg") == 1
    [diff] = kernel.run("first.diff(second)")
    assert diff["data"]["text/plain"].startswith("<Diff of trials")
    assert "lr" in html_of(diff)
    [curves] = kernel.run("first.metrics('loss')")
    assert html_of(curves).count("<svg") == 1
