"""`windlass run` for jobs: replicas, frameworks, restart rules, suspended submission."""

from __future__ import annotations

import json

import pytest

from cli.shells import Shell
from cli.terminals import eventually
from windlass.model.job import CleanPolicy, RestartPolicy, RestartScope, SuccessPolicy

RANKS = """
    import os, sys
    names = ("RANK", "WORLD_SIZE", "WINDLASS_ROLE", "WINDLASS_INDEX")
    print(*(os.environ.get(name) for name in names), *sys.argv[1:])
"""


@pytest.fixture(scope="module", autouse=True)
def project(shell: Shell) -> None:
    """A project with the scripts of the jobs."""
    shell.write("who.py", RANKS)
    shell.write("quit.py", "import sys; sys.exit(int(sys.argv[1]))")


def test_a_script_runs_in_every_replica_with_its_own_identity(shell: Shell) -> None:
    done = shell("run", "--replicas", "3", "--framework", "torch", "--cpus", "0.5", "who.py", "x")
    assert done.returncode == 0, done.stderr
    for index in range(3):
        assert f"{index} 3 worker {index} x" in done.stdout
    spec = shell.newest().spec
    assert (spec.framework, spec.restart_scope) == ("torch", RestartScope.JOB)
    [role] = spec.roles
    assert (role.name, role.replicas, role.resources.cpus) == ("worker", 3, 0.5)
    assert role.restart_policy is RestartPolicy.ON_FAILURE


def test_every_rule_of_a_job_is_an_option(shell: Shell) -> None:
    shell.good(
        "run", "--replicas", "2", "--framework", "tensorflow", "--restart-policy", "ExitCode",
        "--restart-scope", "job", "--backoff-limit", "2", "--priority", "5", "--timeout", "2m",
        "--ttl-after-finished", "1h", "--clean-policy", "All", "--success-policy", "AllWorkers",
        "who.py",
    )  # fmt: skip
    spec = shell.newest().spec
    assert spec.roles[0].restart_policy is RestartPolicy.EXIT_CODE
    assert spec.restart_scope is RestartScope.JOB
    assert (spec.backoff_limit, spec.priority) == (2, 5)
    assert (spec.active_deadline, spec.ttl_after_finished) == (120, 3600)
    assert spec.clean_policy is CleanPolicy.ALL
    assert spec.success_policy is SuccessPolicy.ALL_WORKERS


def test_a_script_without_job_options_has_plain_defaults(shell: Shell) -> None:
    shell.good("run", "who.py")
    spec = shell.newest().spec
    assert [(role.name, role.replicas) for role in spec.roles] == [("main", 1)]
    assert spec.roles[0].restart_policy is RestartPolicy.NEVER
    assert shell("run", "quit.py", "1").returncode == 1
    assert shell.newest().restarts == 0


def test_retries_are_restarts_after_a_failure(shell: Shell) -> None:
    assert shell("run", "--retries", "1", "quit.py", "7").returncode == 7
    trial = shell.newest()
    assert (trial.restarts, trial.spec.backoff_limit) == (1, 1)
    assert trial.spec.roles[0].restart_policy is RestartPolicy.ON_FAILURE


def test_zero_retries_apply_to_several_replicas_too(shell: Shell) -> None:
    assert shell("run", "--replicas", "2", "--retries", "0", "quit.py", "7").returncode == 7
    trial = shell.newest()
    assert trial.restarts == 0
    assert trial.spec.roles[0].restart_policy is RestartPolicy.NEVER
    shell.good("run", "--replicas", "2", "who.py")
    assert shell.newest().spec.roles[0].restart_policy is RestartPolicy.ON_FAILURE


def test_a_job_that_fails_after_restarts_explains_how_to_disable_them(shell: Shell) -> None:
    done = shell("run", "--replicas", "2", "--cpus", "0.5", "--backoff-limit", "1", "quit.py", "7")
    assert done.returncode == 7
    assert done.stderr.endswith(
        "  Tip: it restarts because of --restart-policy OnFailure; --restart-policy Never fails at "
        "once\n"
    )
    done = shell("run", "--timeout", "300ms", "--", "sleep", "600")
    assert "Tip: give it longer (it was 300ms): --timeout\n" in done.stderr
    assert "Tip: " not in shell("run", "--retries", "1", "quit.py", "7").stderr
    shell.write("writes.py", "import sys; print('x'); sys.exit(7)")
    done = shell("run", "--replicas", "2", "--cpus", "0.5", "--retries", "0", "writes.py")
    whose = shell.newest().cause
    assert whose is not None
    assert done.stderr.endswith(
        f"  All that main-{whose.index} wrote: windlass logs {shell.newest().id} --role main "
        f"--index {whose.index}\n"
    )


def test_a_policy_decides_by_the_exit_code(shell: Shell) -> None:
    done = shell("run", "--restart-policy", "ExitCode", "--backoff-limit", "1", "quit.py", "1")
    assert done.returncode == 1
    assert shell.newest().restarts == 0
    done = shell("run", "--restart-policy", "ExitCode", "--backoff-limit", "1", "quit.py", "130")
    assert done.returncode == 130
    assert shell.newest().restarts == 1


def test_a_suspended_job_waits_to_be_resumed_and_is_not_watched(shell: Shell) -> None:
    output = shell.good("run", "--suspend", "who.py")
    trial = shell.newest()
    assert output.splitlines()[:2] == [
        f"Trial {trial.id} (who) is submitted and suspended.",
        f"  windlass resume {trial.id:<5} let it run",
    ]
    assert (trial.state.value, trial.attempts) == ("SUSPENDED", ())
    shell.good("resume", str(trial.id))
    eventually(lambda: shell.trial(trial.id).state.value == "SUCCEEDED", "it runs to its end")
    output = json.loads(shell.good("run", "--suspend", "--json", "who.py"))
    assert output["spec"]["suspend"] is True
    shell.good("stop", str(output["id"]))


def test_all_problems_are_reported_at_once_in_terms_of_the_command_line(shell: Shell) -> None:
    newest = shell.newest().id
    wrong = {
        "--replicas": ("0", "0 is not a valid number of replicas"),
        "--framework": ("torc", "did you mean 'torch'?"),
        "--restart-policy": ("Sometims", "'Sometims' is not a valid value"),
        "--restart-scope": ("jbo", "did you mean 'job'?"),
        "--backoff-limit": ("-1", "-1 is not a valid number"),
        "--priority": ("99999999", "is not a valid priority"),
        "--ttl-after-finished": ("soon", "'soon' is not a duration"),
        "--clean-policy": ("Runing", "did you mean 'Running'?"),
        "--success-policy": ("AllWorker", "did you mean 'AllWorkers'?"),
        "--timeout": ("soon", "'soon' is not a duration"),
        "--cpus": ("-1", "out of range"),
        "--memory": ("4XB", "'4XB' is not a size"),
        "--package": ("numpy=1", "'numpy=1' is not a valid requirement"),
    }
    words = [word for option, (value, _) in wrong.items() for word in (option, value)]
    done = shell("run", *words, "who.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"windlass run: {len(wrong)} problems:" in done.stderr
    for option, (_, why) in wrong.items():
        assert [
            line for line in done.stderr.splitlines() if f"- {option}: " in line and why in line
        ]
    assert "_" not in done.stderr
    assert shell.newest().id == newest


def test_a_missing_script_is_reported_together_with_other_problems(shell: Shell) -> None:
    done = shell("run", "--framework", "pytorch", "--restart-policy", "OnFailur", "woh.py")
    assert done.returncode == 1
    assert "3 problems" in done.stderr
    assert "There is no script 'woh.py'" in done.stderr
    assert "Did you mean 'who.py'?" in done.stderr
    assert "did you mean 'torch'?" in done.stderr
    assert "did you mean 'OnFailure'?" in done.stderr
    alone = shell("run", "woh.py").stderr
    assert alone.startswith("Error: There is no script 'woh.py'")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (
            ["--retries", "2", "--restart-policy", "Always"],
            "--retries: it means OnFailure, and at most 2 restarts; remove it, or "
            "remove --restart-policy",
        ),
        (
            ["--retries", "0", "--backoff-limit", "3"],
            "--retries: it means Never; remove it, or remove --backoff-limit",
        ),
        (
            ["--success-policy", "AllWorkers"],
            "--success-policy AllWorkers is for --framework tensorflow",
        ),
        (
            ["--replicas", "64"],
            "(fractions are allowed: CPUs are reserved, not enforced), or fewer",
        ),
        (["--replicas", "64"], "Request less: --cpus 0.25 ("),
        (
            ["--replicas", "64", "--cpus", "0.01", "--memory", "1TB"],
            "Request less memory, or fewer",
        ),
        (["--replicas", "64", "--accelerator", "a100"], "see: windlass accelerators"),
        (["--package", "windlass-of-nobody==1"], "--package windlass-of-nobody==1"),
        (["--secret", "NOT_SET"], "export NOT_SET=...)\n"),
    ],
)
def test_impossible_combinations_are_refused_with_a_remedy(
    shell: Shell, args: list[str], why: str
) -> None:
    done = shell("run", *args, "who.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr
    assert "=[" not in done.stderr


def test_frameworks_and_policies_are_completed(shell: Shell) -> None:
    assert shell.complete("windlass run --framework t") == ["tensorflow", "torch"]
    assert shell.complete("windlass run --restart-policy on") == ["OnFailure"]
    assert shell.complete("windlass run --restart-scope ") == ["replica", "job"]
    assert shell.complete("windlass run --clean-policy a") == ["All"]


def test_help_is_in_sections(shell: Shell) -> None:
    output = shell.good("run", "--help-all")
    places = [output.index(f"\n{title}:\n") for title in (
        "Program", "Resources of each replica", "Replicas and restarts",
        "Order, limits and cleanup", "Submitting and recording", "Help",
    )]  # fmt: skip
    assert places == sorted(places)
    assert output.index("--replicas") > output.index("Replicas and restarts")


# -- job files ------------------------------------------------------------------------

JOB = """
    script = "who.py"
    args = ["from", "file"]
    replicas = 2
    framework = "torch"
    name = "filed"

    [executor]
    cpus = 0.5
"""
GROUP = """
    framework = "tensorflow"

    [roles.chief]
    script = "who.py"

    [roles.worker]
    command = ["sh", "-c", "echo works"]
    replicas = 2
"""


def test_a_file_describes_a_job(shell: Shell) -> None:
    shell.write("job.toml", JOB)
    done = shell.good("run", "-f", "job.toml")
    for index in range(2):
        assert f"{index} 2 worker {index} from file" in done
    trial = shell.newest()
    assert (trial.name, trial.experiment) == ("filed", "who")
    assert trial.spec.roles[0].resources.cpus == 0.5


def test_a_file_describes_several_roles(shell: Shell) -> None:
    shell.write("group.toml", GROUP)
    done = shell.good("run", "-f", "group.toml")
    assert done.count("works") >= 1
    trial = shell.newest()
    assert [(role.name, role.replicas) for role in trial.spec.roles] == [
        ("chief", 1),
        ("worker", 2),
    ]
    shown = shell.good("show", str(trial.id))
    assert "Roles\n  chief        1 x python who.py  (1 CPU)\n" in shown
    assert "  worker       2 x sh -c 'echo works'  (1 CPU)\n" in shown


def test_a_file_can_be_combined_with_its_name_and_submission_options(shell: Shell) -> None:
    shell.write("job.toml", JOB)
    record = json.loads(
        shell.good(
            *("run", "-f", "job.toml", "-d", "--json", "--name", "n", "-e", "e", "--label", "l")
        )
    )
    assert (record["name"], record["experiment"], record["labels"]) == ("n", "e", ["l"])
    assert shell.trial(record["id"]).name == "n"


def test_a_file_cannot_be_combined_with_contradicting_options(shell: Shell) -> None:
    shell.write("job.toml", JOB)
    done = shell("run", "-f", "job.toml", "--cpus", "2", "--replicas", "1", "--spot", "who.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "With --file, job.toml describes the whole job. Remove --cpus, --spot, "
        "--replicas, the words 'who.py'." in done.stderr
    )


def test_advice_for_a_file_names_keys_of_the_file(shell: Shell) -> None:
    rules = "replicas = 2\nbackoff_limit = 1\nexecutor = { cpus = 0.5 }\n"
    shell.write("fails.toml", f'script = "quit.py"\nargs = ["7"]\n{rules}')
    done = shell("run", "-f", "fails.toml")
    assert done.returncode == 7
    tip = 'Tip: it restarts because of restart_policy="OnFailure"; restart_policy="Never" fails'
    assert tip in done.stderr
    shell.write("late.toml", 'command = ["sleep", "600"]\nactive_deadline = "300ms"\n')
    done = shell("run", "-f", "late.toml")
    assert "ran out of time (deadline 300ms)" in done.stderr
    assert "Tip: give it longer (it was 300ms): active_deadline=\n" in done.stderr
    assert "--" not in done.stderr


def test_a_file_with_mistakes_is_refused_with_their_lines(shell: Shell) -> None:
    shell.write("wrong.toml", 'script = "wo.py"\nreplicas = 0\nframwork = "torch"\n')
    newest = shell.newest().id
    done = shell("run", "-f", "wrong.toml")
    assert (done.returncode, done.stdout) == (1, "")
    for word in ("wrong.toml", "who.py", "replicas", "'framework'"):
        assert word in done.stderr, done.stderr
    assert shell.newest().id == newest
    done = shell("run", "-f", "wrogn.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no job file 'wrogn.toml' in /" in done.stderr
    assert "Did you mean 'wrong.toml'?" in done.stderr
