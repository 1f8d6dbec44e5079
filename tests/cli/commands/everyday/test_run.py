"""`windlass run`: scripts and commands as trials."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from cli.shells import WINDLASS, Shell
from windlass.authoring.public.executables import Command
from windlass.cli.options.run_target import find_executable
from windlass.model.errors import InvalidArgument
from windlass.model.job import ProcessCall
from windlass.model.records import TrialRecord

ECHO = """
    import json, os, sys
    print(json.dumps({
        "argv": sys.argv, "cwd": os.getcwd(), "path": sys.path, "env": dict(os.environ),
        "files": sorted(os.listdir()),
    }))
    print("to stderr", file=sys.stderr)
"""


@pytest.fixture(scope="module", autouse=True)
def project(shell: Shell) -> None:
    """A project with scripts, a package and a program."""
    shell.write("pyproject.toml", "")
    shell.write("echo.py", ECHO)
    shell.write("jobs/echo.py", ECHO)
    shell.write("pkg/__init__.py", "")
    shell.write("pkg/train.py", "import sys; print('trained', *sys.argv[1:])")
    shell.write("fail.py", "import sys; print('last words'); sys.exit(int(sys.argv[1]))")
    shell.write("go.sh", "#!/bin/sh\necho went $1\n").chmod(0o755)
    shell.write("plain.sh", "echo no\n")


def argv_of(trial: TrialRecord) -> tuple[str, ...]:
    """The command line that a trial runs."""
    executable = trial.spec.roles[0].executable
    assert isinstance(executable, ProcessCall)
    return executable.argv


def test_a_script_gets_its_arguments_untouched_and_they_are_recorded(shell: Shell) -> None:
    arguments = ["--lr", "0.1", "--name=x", "-h", "--json", "--", "-1", "données"]
    done = shell("run", "echo.py", *arguments)
    assert done.returncode == 0
    output = json.loads(done.stdout)
    assert output["argv"] == ["echo.py", *arguments]
    assert output["path"][0] == output["cwd"]
    assert not [path for path in output["path"] if path.endswith("bin")]
    assert done.stderr == "to stderr\n"
    trial = shell.newest()
    assert (trial.name, trial.experiment, trial.state.value) == ("echo", "echo", "SUCCEEDED")
    assert trial.params == {
        "lr": 0.1, "name": "x", "h": True, "json": True, "args": ["-1", "données"],
    }  # fmt: skip
    assert argv_of(trial) == ("python", "echo.py", *arguments)


def test_a_script_runs_in_the_same_subfolder_of_the_project(shell: Shell) -> None:
    record = json.loads(shell.good("run", "jobs/echo.py"))
    assert "pyproject.toml" in record["files"]
    assert record["argv"] == ["jobs/echo.py"]
    record = json.loads(shell.good("run", "echo.py", cwd=shell.folder / "jobs"))
    assert record["files"] == ["echo.py"]
    elsewhere = shell.good("run", str(shell.folder / "jobs/echo.py"), cwd=shell.folder.parent)
    assert json.loads(elsewhere)["argv"] == ["jobs/echo.py"]


def test_any_command_runs_after_two_dashes(shell: Shell) -> None:
    done = shell.good("run", "--cpus", "2", "--", "python", "-m", "pkg.train", "--lr", "1", "k=v")
    assert done == "trained --lr 1 k=v\n"
    trial = shell.newest()
    assert trial.name == "pkg.train"
    assert trial.params == {"lr": 1, "k": "v"}
    assert trial.spec.roles[0].resources.cpus == 2


def test_an_executable_file_of_the_project_runs_from_its_snapshot(shell: Shell) -> None:
    assert shell.good("run", "go.sh", "there") == "went there\n"
    assert argv_of(shell.newest()) == ("./go.sh", "there")
    assert shell.good("run", "--", "./go.sh", "on") == "went on\n"


def test_the_exit_code_is_that_of_the_trial(shell: Shell) -> None:
    done = shell("run", "fail.py", "7")
    assert done.returncode == 7
    assert done.stdout == "last words\n"
    trial_id = shell.newest().id
    assert done.stderr == (
        f"Error: Trial {trial_id} (fail) failed: exit code 7.\n"
        f"  All of its log: windlass logs {trial_id}\n"
    )


def test_a_death_by_signal_exits_with_128_plus_the_signal(shell: Shell) -> None:
    done = shell("run", "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert "killed by SIGKILL" in done.stderr


def test_advice_names_command_line_options(shell: Shell) -> None:
    shell.write("needs.py", "import sklearn_of_nobody")
    done = shell("run", "needs.py")
    assert done.returncode == 1
    assert "--package sklearn_of_nobody" in done.stderr
    assert "packages=" not in done.stderr


def test_a_timeout_is_reported(shell: Shell) -> None:
    done = shell("run", "--timeout", "100ms", "--", "sleep", "600")
    assert done.returncode != 0
    assert "ran out of time (deadline 100ms)" in done.stderr


def test_a_detached_run_prints_the_id_of_its_trial(shell: Shell) -> None:
    output = shell.good("run", "--detach", "--name", "sleeper", "--", "sleep", "600")
    trial = shell.newest()
    assert trial.name == "sleeper"
    assert trial.experiment == "sleep"
    assert output.splitlines()[0] == f"Trial {trial.id} (sleeper) is submitted."
    assert f"windlass logs {trial.id} -f" in output


def test_a_detached_run_prints_the_record_as_json(shell: Shell) -> None:
    record = json.loads(shell.good("run", "-d", "--json", "--experiment", "e", "--", "true"))
    assert (record["name"], record["experiment"]) == ("true", "e")
    assert shell.trial(record["id"]).uid == record["uid"]


def test_the_experiment_and_the_labels_have_the_usual_options(shell: Shell) -> None:
    words = ("-e", "rates", "--label", "paper", "--label", "a, b", "--label", "paper")
    record = json.loads(shell.good("run", "-d", "--json", *words, "--", "true"))
    assert (record["experiment"], record["labels"]) == ("rates", ["paper", "a, b"])
    assert shell.complete("windlass run -e ra") == ["rates"]
    assert shell.complete("windlass rerun 1 --experiment ra") == ["rates"]
    shell.good("template", "create", "noted", 'labels=["template"]')
    words = ("--template", "noted", "--label", "own")
    record = json.loads(shell.good("run", "-d", "--json", *words, "--", "true"))
    assert record["labels"] == ["template", "own"]
    done = shell("run", "--label", "", "--cpus", "-1", "--", "true")
    assert done.returncode == 1
    assert "- --label: " in done.stderr and "- --cpus: " in done.stderr


def test_variables_secrets_and_volumes_reach_the_trial_and_secrets_stay_secret(
    shell: Shell,
) -> None:
    shell.write("../data/rows.csv", "1,2")
    shell.write("look.py", """
        import os
        print(os.environ["FIRST"], os.environ["TOKEN"], open("data/rows.csv").read())
        print(len(os.environ["TOKEN"]))
    """)  # fmt: skip
    done = shell.good(
        "run", "--env", "FIRST=a=b", "--secret", "TOKEN", "--volume", "data=../data",
        "look.py", TOKEN="swordfish-1",
    )  # fmt: skip
    assert done == "a=b *** 1,2\n11\n"
    shown = shell.good("show", str(shell.newest().id))
    assert "FIRST=a=b" in shown
    assert "TOKEN=***" in shown
    assert "swordfish" not in shown


def test_a_secret_is_refused_where_it_would_be_recorded(shell: Shell) -> None:
    done = shell("run", "--secret", "TOKEN", "echo.py", "--token=swordfish-1", TOKEN="swordfish-1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The value of the secret TOKEN is on the command line" in done.stderr


def test_all_invalid_options_are_reported_at_once_and_nothing_is_recorded(
    shell: Shell,
) -> None:
    shell.good("run", "--", "true")
    newest = shell.newest().id
    done = shell(
        "run", "--cpus", "-1", "--memory", "4XB", "--timeout", "soon", "--backend", "loacl",
        "--accelerator", "h10", "echo.py",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    for word in ("5 problems", "cpus: -1", "'4XB'", "'soon'", "'local'?", "'h100'?"):
        assert word in done.stderr
    done = shell("run", "--spot", "--cluster", "c", "--container-image", "i", "echo.py")
    assert done.returncode == 1
    assert "3 problems" in done.stderr
    assert "required packages in --package" in done.stderr
    of_cluster = ("--namespace", "--queue", "--priority-class", "--service-account")
    done = shell("run", *(word for option in of_cluster for word in (option, "lab")), "echo.py")
    for option in of_cluster:
        assert f"{option}: it is an option of a cluster; add --backend kubernetes" in done.stderr
    done = shell("run", "--backend", "kubernetes", "--priority", "5", "echo.py")
    assert "Name a priority class of the cluster: --priority-class" in done.stderr
    assert "wl.Kubernetes" not in done.stderr
    done = shell("run", "--secret", "NOT_SET", "echo.py")
    assert done.returncode == 1
    assert "'NOT_SET' is not set" in done.stderr
    done = shell("run", "--package", "numpy=1", "echo.py")
    assert done.returncode == 1
    assert "'numpy=1' is not a valid requirement" in done.stderr
    assert shell.newest().id == newest


def test_resources_larger_than_the_machine_are_refused(shell: Shell) -> None:
    done = shell("run", "--accelerator", "a100x4", "echo.py")
    assert done.returncode == 1
    assert "windlass accelerators" in done.stderr


def test_a_misspelled_name_gets_a_suggestion(shell: Shell) -> None:
    done = shell("run", "ehco.py", "--lr", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: There is no script 'ehco.py' in {shell.folder}.\n  Did you mean 'echo.py'?\n"
    )


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("jobs/ech.py", "Did you mean 'jobs/echo.py'?"),
        ("echo", None),
        ("fail", "Did you mean 'fail.py'?"),
        ("train.py", "windlass run -- python -m pkg.train"),
        ("pkg/none.py", "windlass run -- python -m pkg.train"),
        ("nowhere/x.py", "There is no folder 'nowhere' either."),
        ("no-such-command", "There is no script and no command 'no-such-command'."),
        ("./no-such-program", "There is no program './no-such-program'."),
        ("plain.sh", "chmod +x plain.sh"),
        ("pkg", "There is no script and no command 'pkg'."),
        ("\udcff.py", "is not UTF-8 text"),
    ],
)
def test_an_invalid_executable_is_refused_with_a_remedy(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, word: str, answer: str | None
) -> None:
    monkeypatch.chdir(shell.folder)
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    if answer is None:  # a command of the machine, although a script has the same name
        assert find_executable([word, "x"]) == (Command([word]), ["x"])
        return
    with pytest.raises(InvalidArgument) as refused:
        find_executable([word])
    assert answer in str(refused.value)


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("--gpus=2", "--accelerator"),
        ("--num-gpus=2", "--accelerator"),
        ("--image=x", "--container-image"),
    ],
)
def test_an_option_of_another_tool_is_refused_with_its_windlass_name(
    shell: Shell, argument: str, meant: str
) -> None:
    done = shell("run", argument, "echo.py")
    assert done.returncode == 2
    assert f"Did you mean '{meant}" in done.stderr


def test_a_command_of_an_image_is_not_checked_here(shell: Shell) -> None:
    words = ("run", "--dry-run", "--backend", "kubernetes", "--", "nvidia-smi-of-an-image", "-L")
    assert "nvidia-smi-of-an-image -L" in shell.good(*words)
    assert "no script and no command" in shell("run", "--dry-run", "--", words[5]).stderr


def test_a_script_run_by_another_interpreter_gives_the_trial_its_name(shell: Shell) -> None:
    shell.good("run", "--", sys.executable, "echo.py", "--lr", "0.1")
    trial = shell.newest()
    assert (trial.name, trial.params) == ("echo", {"lr": 0.1})


def test_an_invalid_command_line_is_a_usage_error(shell: Shell) -> None:
    for args, why in (
        ([], "Name a script, a command after --, or a job file with --file."),
        (["--json", "echo.py"], "--json needs --detach"),
        (["--env", "NAME", "echo.py"], "'NAME' is not NAME=VALUE"),
        (["--requirements", "none.txt", "echo.py"], "'none.txt' does not exist"),
    ):
        done = shell("run", *args)
        assert done.returncode == 2
        assert why in done.stderr


def test_piped_output_is_plain(shell: Shell) -> None:
    shell.write("bar.py", r"print('\r10%', end='', flush=True); print('\r20%')")
    done = shell.start("sh", "-c", f"{WINDLASS} run bar.py 2>&1 | od -An -c")
    assert done.stdout.split() == ["\\r", "1", "0", "%", "\\r", "2", "0", "%", "\\n"]


@pytest.mark.finding("U24")
def test_the_error_for_m_names_the_command_that_runs_a_module(shell: Shell) -> None:
    refused = shell("run", "--cpus", "1", "-m", "pkg.train", "--lr", "0.1 0.2")
    assert refused.returncode == 2
    [corrected] = [line for line in refused.stderr.splitlines() if " -- " in line][-1:]
    assert corrected == "  windlass run --cpus 1 -- python -m pkg.train --lr '0.1 0.2'"
    done = shell("run", "--cpus", "1", "--", "python", "-m", "pkg.train", "--lr", "0.1 0.2")
    assert done.stdout == "trained --lr 0.1 0.2\n"
