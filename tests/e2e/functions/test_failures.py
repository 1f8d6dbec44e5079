"""Failures of trials: the caller gets the original exception, or the reason why not."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from failing_program import CASES, ERRORS, FUSSY, MAIN

from harness import BIN, Project

SHARES_HOME = True

NOTES = sys.version_info >= (3, 11)


class Outcomes:
    """The outcome of each case of the program above, and the path of its sources."""

    def __init__(self, folder: Path, records: dict[str, dict[str, Any]]) -> None:
        self.folder = folder
        self._records = records

    def __getitem__(self, name: str) -> dict[str, Any]:
        assert "value" not in self._records[name], f"{name} succeeded"
        return self._records[name]

    def note(self, name: str) -> str:
        return "\n".join(self[name]["notes"])


@pytest.fixture(scope="module")
def outcomes(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("failing") / "project"
    project = Project(folder)
    for name, text in (("main", MAIN), ("errors", ERRORS), ("cases", CASES), ("fussy", FUSSY)):
        project.write(f"{name}.py", text)
    answer = folder.parent / "outcomes.json"
    done = project.python("main.py", answer, env={"WINDLASS_HOME": str(module_home)})
    assert done.returncode == 0, done.stderr
    return Outcomes(folder, json.loads(answer.read_text()))


def test_an_exception_is_raised_as_its_own_type_with_the_remote_traceback_as_a_note(
    outcomes: Outcomes,
) -> None:
    error = outcomes["value_error"]
    assert (error["type"], error["text"]) == ("builtins.ValueError", "bad lr")
    note = outcomes.note("value_error")
    assert re.match(r"Traceback in trial \d+ \(value_error\):\n", note)
    assert f'File "{outcomes.folder}/cases.py", line ' in note
    assert 'raise ValueError("bad lr")' in note
    assert "ValueError: bad lr" in note


def test_a_traceback_names_the_users_files_and_hides_windlass_frames(outcomes: Outcomes) -> None:
    for name in ("value_error", "chained", "boom", "fussy", "recursion", "no_module"):
        files = re.findall(r'File "([^"]+)"', outcomes.note(name))
        assert files, name
        ours = [file for file in files if "windlass" in file or "/trials/" in file]
        assert not ours, name
    assert f'File "{outcomes.folder}/main.py"' in outcomes.note("boom")


def test_exception_classes_of_the_program_come_back_as_themselves(
    outcomes: Outcomes,
) -> None:
    assert outcomes["boom"]["is_boom"]
    assert outcomes["boom"]["args"] == ["'out of luck'", "3"]
    assert outcomes["own_error"]["is_own"]
    assert outcomes["own_error"]["args"] == ["'of a module'", "{'n': 1}"]
    assert outcomes["halt"]["type"] == "errors.Halt"
    assert outcomes["local_error"]["type"].endswith(".Inner")
    assert outcomes["local_error"]["text"] == "made here"


def test_the_cause_of_an_exception_comes_back(outcomes: Outcomes) -> None:
    assert outcomes["chained"]["type"] == "builtins.RuntimeError"
    assert outcomes["chained"]["cause"] == "KeyError('missing')"
    note = outcomes.note("chained")
    assert note.index("KeyError: 'missing'") < note.index("RuntimeError: the config is wrong")


@pytest.mark.skipif(not NOTES, reason="exception groups are new in Python 3.11")
def test_an_exception_group_comes_back_with_its_parts(outcomes: Outcomes) -> None:
    assert outcomes["group"]["type"] == "builtins.ExceptionGroup"
    assert outcomes["group"]["parts"] == ["ValueError('one')", "OwnError('two')"]
    assert "OwnError: two" in outcomes.note("group")


def test_an_exception_with_an_unusual_constructor_comes_back_as_itself(
    outcomes: Outcomes,
) -> None:
    assert outcomes["odd_error"]["type"] == "errors.OddError"


def test_an_unpicklable_exception_becomes_a_remote_error(outcomes: Outcomes) -> None:
    error = outcomes["locked_error"]
    assert error["type"].endswith(".RemoteError")
    assert (error["type_name"], error["text"]) == ("errors.LockedError", "holds a lock")
    assert "errors.LockedError: holds a lock" in error["traceback"]
    assert f'File "{outcomes.folder}/cases.py"' in error["traceback"]


def test_unusual_exceptions_come_back(outcomes: Outcomes) -> None:
    assert outcomes["recursion"]["type"] == "builtins.RecursionError"
    assert len(outcomes.note("recursion")) < 5000
    assert outcomes["huge"]["type"] == "builtins.ValueError"
    assert outcomes["huge"]["length"] == 3_000_000
    assert "in huge" in outcomes.note("huge")
    assert len(outcomes.note("huge")) <= 110_000
    assert outcomes["foreign"]["length"] == 200_000
    assert outcomes["surrogate"]["text"] == "bad name \udcff"
    assert outcomes["mute_error"]["type"] == "errors.MuteError"
    assert outcomes["mute_error"]["text"] == "RuntimeError('no text')"  # by its own __str__


def test_a_module_that_fails_to_import_raises_its_error(outcomes: Outcomes) -> None:
    assert outcomes["fussy"]["type"] == "builtins.OSError"
    assert outcomes["fussy"]["text"] == "cannot be imported there"
    assert f'File "{outcomes.folder}/fussy.py", line 3' in outcomes.note("fussy")


def test_an_unpicklable_result_names_its_unpicklable_part(outcomes: Outcomes) -> None:
    error = outcomes["lock_returned"]
    assert error["type"].endswith(".SerializationError")
    assert "result['model'][1]" in error["text"]
    assert "_thread.lock" in error["text"]


@pytest.mark.parametrize(
    ("name", "exit_code", "signal", "message"),
    [
        ("exit_3", 3, None, "failed: exit code 3"),
        ("killed", 137, "SIGKILL", "killed by SIGKILL"),
        ("crashed", 139, "SIGSEGV", "killed by SIGSEGV"),
        ("sys_exit_2", 2, None, "failed: exit code 2"),
        ("sys_exit_text", 1, None, "failed: exit code 1"),
        ("sys_exit_0", 0, None, "ended without returning"),
        ("interrupted", 130, None, "exit code 130 (SIGINT)"),
    ],
)
def test_a_dead_process_raises_trial_failed_with_the_reason(
    outcomes: Outcomes, name: str, exit_code: int, signal: str | None, message: str
) -> None:
    error = outcomes[name]
    assert error["type"].endswith(".TrialFailed")
    assert (error["exit_code"], error["signal"]) == (exit_code, signal)
    assert re.match(rf"Trial {error['trial_id']} \({name}\) ", error["text"])
    assert message in error["text"]


def test_the_last_twenty_lines_are_included_with_the_last_state_of_a_progress_bar(
    outcomes: Outcomes,
) -> None:
    assert outcomes["talkative"]["log_tail"] == [*(f"line {n}" for n in range(41, 60)), "30%"]
    assert outcomes["exit_3"]["log_tail"] == ["last words"]
    assert "    last words\n" in outcomes["exit_3"]["text"]
    assert f"windlass logs {outcomes['exit_3']['trial_id']}" in outcomes["exit_3"]["text"]
    assert outcomes["sys_exit_text"]["log_tail"] == ["the data is not there"]
    assert outcomes["interrupted"]["log_tail"][-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("name", "tip"),
    [
        ("no_module", 'packages=["sklearn_that_nobody_has"]'),
        ("known_package", 'packages=["opencv-python-headless"]'),
        ("no_name", "'json' exists but has no 'no_such_name'"),
        ("memory_error", "memory="),
        ("killed", "memory="),
        ("port_taken", "the port is taken"),
        ("no_file", "'data/train.csv' does not exist in "),
        ("late", "timeout="),
        ("crashed", "C code crashed, called from Python: Segmentation fault at cases.py:"),
    ],
)
def test_a_known_failure_comes_with_a_tip(outcomes: Outcomes, name: str, tip: str) -> None:
    message = "\n".join([outcomes[name]["text"], outcomes.note(name)])
    assert tip in message.partition("Tip: ")[2]


def test_an_unknown_failure_comes_without_a_tip(outcomes: Outcomes) -> None:
    for name in ("value_error", "exit_3", "no_absolute_file", "interrupted"):
        assert "Tip:" not in outcomes[name]["text"] + outcomes.note(name), name


def test_a_trial_that_times_out_reports_its_timeout(outcomes: Outcomes) -> None:
    assert outcomes["late"]["type"].endswith(".TrialFailed")
    assert "ran out of time (timeout 300ms)" in outcomes["late"]["text"]


@pytest.mark.finding("U18")
@pytest.mark.parametrize(
    "call", ["train(1)", "list(train.map([1, 2]))", "train.submit(1).result()"]
)
def test_an_uncaught_error_shows_the_remote_traceback_once(
    project: Project, home: Path, call: str
) -> None:
    train = project.write(
        "train.py",
        f"""
        import windlass as wl

        @wl.run(cpus=0.1)
        def train(number):
            raise ValueError("bad lr")

        {call}
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 1
    remote = textwrap.dedent(f"""
        Traceback (most recent call last):
          File "{train}", line 5, in train
            raise ValueError("bad lr")
        ValueError: bad lr
        """).lstrip()
    assert done.stderr.count(remote) == 1
    if NOTES:
        note = rf"Traceback in trial \d+ \(train\):\n{re.escape(remote)}"
        if "submit" not in call:  # the output was shown
            note = r"ValueError: bad lr\nRaised in trial (\d+) \(train\)\. See: windlass logs \1\n"
        assert re.search(rf"{note}\Z", done.stderr), done.stderr


@pytest.mark.finding("U18")
def test_a_failed_job_does_not_repeat_output_that_was_shown(project: Project, home: Path) -> None:
    project.write("bad.py", "raise KeyError('no such column')")
    project.write(
        "job.py",
        """
        import windlass as wl

        try:
            wl.Job(wl.PythonScript("bad.py"), executor=wl.Local(cpus=0.1)).run()
        except wl.TrialFailed as failure:
            assert failure.log_tail[-1] == "KeyError: 'no such column'"
            raise
        """,
    )
    done = project.python("job.py")
    assert done.stderr.count("KeyError: 'no such column'") == 1
    assert "exit code 1" in done.stderr


def test_a_crash_in_c_code_shows_the_python_stack_without_windlass_frames(
    outcomes: Outcomes,
) -> None:
    error, *stack = outcomes["crashed"]["log_tail"]
    assert error == "Fatal Python error: Segmentation fault"
    assert stack[-1].endswith(" in crashed")
    assert not any("windlass/worker" in line for line in stack)


@pytest.mark.parametrize("is_script", [True, False])
def test_the_users_own_settings_of_faulthandler_apply(
    project: Project, home: Path, is_script: bool
) -> None:
    project.write(
        "crash.py",
        """
        import ctypes, faulthandler, os, sys
        import windlass as wl

        @wl.run(cpus=0.1)
        def train():
            print("enabled:", faulthandler.is_enabled())
            if "OWN" in os.environ:
                faulthandler.enable(open(os.environ["OWN"], "w"))
            ctypes.string_at(0)

        if __name__ == "__main__":
            train.local() if "WINDLASS_TRIAL_ID" in os.environ else train()
        """,
    )
    run = [BIN / "windlass", "run", "crash.py"] if is_script else [sys.executable, "crash.py"]
    fatal, own = "Fatal Python error", project.path.parent / "own.txt"
    done = project.run(*run)
    assert "enabled: True" in done.stdout and fatal in done.stderr
    done = project.run(*run, env={"PYTHONFAULTHANDLER": ""})
    assert "enabled: False" in done.stdout and fatal not in done.stderr
    done = project.run(*run, env={"OWN": str(own)})
    assert fatal not in done.stderr and fatal in own.read_text()
