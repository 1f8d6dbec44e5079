"""Dry runs: a preview equals the real run, refusals are the same, and nothing starts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import Project
from windlass.model.job import ProcessCall
from windlass.packaging.project_files.project_root import is_installed

WITNESS = """
    import json, os, pathlib, sys
    seen = {"argv": sys.argv[1:], "environ": dict(os.environ)}
    pathlib.Path(os.environ["WITNESS"]).write_text(json.dumps(seen))
"""
ODD_WORDS = [
    "two words",
    "it's",
    "two\nlines",
    "$HOME `id`",
    "données",
    "\x1b[31m",
    "\\n",
    "-1",
    "",
]


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project as the working directory, with a script that reports its arguments."""
    project.write("pyproject.toml", "")
    project.write("witness.py", WITNESS)
    monkeypatch.chdir(project.path)
    # Otherwise the snapshot contains tests, which pytest imported from outside the project.
    paths = [path for path in sys.path if is_installed(f"{path}/") or path.endswith("/src")]
    monkeypatch.setattr(sys, "path", paths)
    return project


def line_of(trial: wl.Trial[Any], label: str) -> str:
    """Return the value after a label of a preview."""
    [line] = re.findall(rf"^  {label} +(.*)$", preview_of(trial), re.MULTILINE)
    return str(line)


def preview_of(trial: wl.Trial[Any]) -> str:
    text = getattr(trial, "preview", None)
    assert isinstance(text, str)
    return text


def train(lr: float, epochs: int = 3, *rest: int, **more: Any) -> float:
    return lr * epochs


# -- no effects -----------------------------------------------------------------------


def test_only_the_cache_is_written_and_nothing_starts(here: Project, fresh_home: Path) -> None:
    here.write(
        "launch.py",
        """
        import windlass as wl

        def train(lr):
            open("ran", "x")

        wl.Job(wl.Command(["touch", "ran"])).submit(dry_run=True).wait()
        wl.Job(wl.PythonFunction(train), args=[0.1], replicas=2).submit(dry_run=True).wait()
        wl.run(train).dry_run(0.1)
        """,
    )
    done = here.python("launch.py", env={"WINDLASS_CPUS": "4"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nothing was started") == 3
    assert "launch.train(lr=0.1)" in done.stdout
    assert os.listdir(fresh_home) == ["cache"]
    assert not (here.path / "ran").exists()
    marked = f"WINDLASS_HOME={fresh_home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
        except OSError:
            continue
        assert marked not in environ.split(b"\0"), (process / "cmdline").read_bytes()


def test_methods_of_a_dry_trial_that_need_a_run_raise_unsupported(
    here: Project, fresh_home: Path
) -> None:
    trial = wl.Job(wl.PythonFunction(train), args=[0.1]).submit(dry_run=True)
    assert trial.wait() is trial and trial.refresh() is trial
    assert (trial.id, trial.state, trial.is_finished) == (0, "DRY", True)
    assert trial.params == {"lr": 0.1, "epochs": 3, "rest": [], "more": {}}
    needs: list[Callable[[], object]] = [
        trial.result, trial.stop, trial.suspend, lambda: trial.scale(2),
        lambda: list(trial.logs()), lambda: list(trial.logs(follow=True)), lambda: trial.events,
        lambda: trial.summary_metrics["loss"], lambda: list(trial.metrics("loss")),
    ]  # fmt: skip
    for ask in needs:
        with pytest.raises(wl.Unsupported, match="Nothing ran"):
            ask()

    async def wait() -> None:
        await trial

    with pytest.raises(wl.Unsupported, match="Nothing ran"):
        asyncio.run(wait())
    assert not (fresh_home / "server.json").exists()


# -- the preview equals the run -------------------------------------------------------


def test_the_previewed_command_can_be_copied_and_equals_the_real_command(
    here: Project, home: Path, tmp_path: Path
) -> None:
    env = {"WITNESS": str(tmp_path / "seen"), "ODD": "a 'b' \\ $c", "LINES_OF_IT": "one\ntwo"}
    job = wl.Job(wl.PythonScript("witness.py"), args=ODD_WORDS, env=env)
    trial = job.submit(dry_run=True)
    assert not (tmp_path / "seen").exists()

    job.submit().result()
    ran = json.loads((tmp_path / "seen").read_text())
    assert ran["argv"] == ODD_WORDS

    # As copied from the screen: the variables before the command.
    typed = f"{line_of(trial, 'environment')} {line_of(trial, 'command')}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-c", typed], cwd=here.path, env={"PATH": path}, check=True)
    copied = json.loads((tmp_path / "seen").read_text())
    assert copied["argv"] == ran["argv"]
    assert {name: copied["environ"][name] for name in env} == env
    assert {name: ran["environ"][name] for name in env} == env


def test_the_preview_of_a_job_equals_the_record_of_the_real_job(
    here: Project, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITNESS", str(tmp_path / "seen"))
    job = wl.Job(
        wl.PythonScript("witness.py"),
        args={"lr": 0.1, "amp": True},
        framework="torch",
        executor=wl.Local(cpus=0.5, memory="100MB"),
        active_deadline="1h",
        restart_policy="ExitCode",
        backoff_limit=2,
        priority=3,
        experiment="witnesses",
    )
    dry, real = job.submit(dry_run=True), job.submit()
    real.wait()
    assert real.state == "SUCCEEDED", real.message
    assert dry.record.spec == real.record.spec
    assert dry.params == real.params
    assert dry.provenance == real.provenance
    text = preview_of(dry)
    for line in (
        "python witness.py --lr=0.1 --amp", "0.5 CPUs, 100.0 MB", "ExitCode, up to 2", "1h",
        "witnesses", f"a copy of {here.path}: 2 files", f"tree {str(real.code.tree)[:12]}",
    ):  # fmt: skip
        assert line in text
    named = re.findall(r"[A-Z_]{4,}", line_of(dry, "framework"))
    assert {"MASTER_ADDR", "RANK"} <= set(named)
    assert set(named) <= set(json.loads((tmp_path / "seen").read_text())["environ"])


def test_the_preview_of_a_group_shows_every_role_with_its_own_fields(
    here: Project, fresh_home: Path
) -> None:
    here.write(
        "launch.py",
        """
        import windlass as wl

        def train(lr, epochs=3, *seeds): ...

        half = wl.Local(cpus=0.5)
        script = wl.PythonScript("witness.py")
        wl.JobGroup(
            learner=wl.Job(
                wl.PythonFunction(train), args=[0.1, 5, 7], env={"A": "1"}, executor=half
            ),
            actor=wl.Job(script, args={"id": 3}, replicas=2, executor=half),
            board=wl.Job(wl.Command(["sleep", "600"]), service=True, executor=half),
        ).submit(dry_run=True)
        """,
    )
    done = here.python("launch.py", env={"WINDLASS_CPUS": "4"})
    assert done.returncode == 0, done.stderr
    learner, actor, board, whole = done.stdout.split("\n\n")[1:]
    assert learner.splitlines()[0] == "learner"
    assert "launch.train(lr=0.1, epochs=5, 7)" in learner
    assert "A=1" in learner and "A=1" not in actor + board + whole
    assert "python witness.py --id=3" in actor and "0.5 CPUs each" in actor
    assert "sleep 600" in board and "a service" in board
    assert "fits this machine (4 CPUs" in whole


SECRETS = ["sesame", "two\nlines", 'it\'s "quoted"', "x" * 150 + "y" * 150]


@pytest.mark.parametrize("secret", SECRETS)
def test_only_the_names_of_secrets_are_shown(secret: str, here: Project, fresh_home: Path) -> None:
    here.write(
        "launch.py",
        """
        import os
        import windlass as wl

        def train(key, keys): ...

        key = os.environ["KEY"]
        job = wl.Job(wl.PythonFunction(train), args=[key, {"a": [key]}], secrets=["KEY"])
        trial = job.submit(dry_run=True)
        print(trial.preview, trial.commands, trial.record, trial)
        """,
    )
    done = here.python("launch.py", env={"KEY": secret})
    assert done.returncode == 0, done.stderr
    assert "KEY=***" in done.stdout
    assert "launch.train(key='***', keys={'a': ['***']})" in done.stdout
    errors = done.stdout + done.stderr
    for part in (secret, secret[:20], secret[-20:], secret.replace("\n", "\\n")):
        assert part not in errors


def test_the_preview_of_a_large_tree_lists_its_largest_files(
    here: Project, fresh_home: Path
) -> None:
    (here.path / "weights.bin").write_bytes(bytes(12_000_000))
    trial = wl.Job(wl.PythonScript("witness.py")).submit(dry_run=True)
    assert line_of(trial, "largest").startswith("weights.bin (12.0 MB), ")
    assert "3 files, 12.0 MB" in line_of(trial, "code")


# -- experiments ----------------------------------------------------------------------

SWEEP = """
    import sys
    import windlass as wl

    exp = wl.create_experiment("sweep", labels=["paper"], dry_run="--real" not in sys.argv)
    [train] = exp.package([wl.PythonScript("witness.py")])
    for lr in (0.1, 0.01, 0.01):
        env = {"WITNESS": f"seen-{lr}"} if lr == 0.1 else None
        exp.add(wl.Job(train, env=env), args={"lr": lr}, identity=f"lr={lr}")
    exp.set_notes("looks good").add_link("paper", "https://example.org").wait()
    print(exp.trial_count, [trial.params for trial in exp.list_trials()])
"""


def test_an_experiment_is_shown_trial_by_trial_and_not_created(
    here: Project, fresh_home: Path
) -> None:
    here.write("sweep.py", SWEEP)
    done = here.python("sweep.py")
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition("Dry run of witness: like the one before it, but for")
    assert "python witness.py --lr=0.1\n" in first and "WITNESS=seen-0.1\n" in first
    assert "experiment   sweep\n" in first and "3 files" in first
    # The second shows its differences. The third is left out, because its identity exists.
    assert [" ".join(line.split()) for line in second.splitlines()[1:]] == [
        "command python witness.py --lr=0.01",
        "environment none",
        "2 [{'lr': 0.1}, {'lr': 0.01}]",
    ]
    assert os.listdir(fresh_home) == ["cache"]


def test_the_preview_of_an_experiment_script_equals_the_real_run(
    here: Project, fresh_home: Path
) -> None:
    here.write("sweep.py", SWEEP)
    shown = here.python("sweep.py", env={"WITNESS": os.devnull}).stdout
    done = here.python("sweep.py", "--real", env={"WITNESS": os.devnull})
    assert done.returncode == 0, done.stderr
    trials = list(wl.get_experiment("sweep").list_trials())
    assert [trial.state for trial in trials] == ["SUCCEEDED", "SUCCEEDED"]
    for trial in trials:
        executable = trial.record.spec.roles[0].executable
        assert isinstance(executable, ProcessCall)
        assert " ".join(executable.argv) in shown
        assert str(trial.code.tree)[:12] in shown


def test_the_preview_of_a_generator_shows_its_known_jobs(here: Project, fresh_home: Path) -> None:
    here.write(
        "build.py",
        """
        import windlass as wl

        script = wl.Job(wl.PythonScript("witness.py"))

        def build(trial, lr):
            first = trial.add(script, args={"lr": lr})
            second = trial.add(script, args={"lr": lr / 2})
            print("parameters", trial.params, second.params)
            trial.add(script, args={"loss": first.result()})
            print("never said")

        async def build_later(trial, lr):
            await trial.add(script, args={"later": lr})
            print("never said")

        def build_on(trial, lr):
            first = trial.add(script, args={"on": lr}).wait()
            if first.summary_metrics["loss"].last < 1:
                print("never said")

        with wl.create_experiment("built", wait=True, dry_run=True) as exp:
            exp.add(build, args={"lr": 0.5})
            exp.add(build_later, args={"lr": 0.5})
            exp.add(build_on, args={"lr": 0.5})
        """,
    )
    done = here.python("build.py")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    shown_lines = [
        line for line in lines if line.startswith(("command", "The dry", "parameters", "never"))
    ]
    assert shown_lines == [
        "command python witness.py --lr=0.5",
        "command python witness.py --lr=0.25",
        "parameters {'lr': 0.5} {'lr': 0.25}",
        "The dry run of build ends here: its next jobs depend on results.",
        "command python witness.py --later=0.5",
        "The dry run of build_later ends here: its next jobs depend on results.",
        "command python witness.py --on=0.5",
        "The dry run of build_on ends here: its next jobs depend on results.",
    ]
    assert os.listdir(fresh_home) == ["cache"]


def test_a_dry_experiment_refuses_the_same_calls_as_a_real_one(
    here: Project, fresh_home: Path
) -> None:
    with pytest.raises(wl.InvalidArgument, match="name"):
        wl.create_experiment("", dry_run=True)
    exp = wl.create_experiment("sweep", dry_run=True)
    with pytest.raises(wl.InvalidArgument, match="no script"):
        exp.package([wl.PythonScript("missing.py")])
    with pytest.raises(wl.ResourceError, match="needs 10000 CPUs"):
        exp.add(wl.Job(wl.Command(["true"]), executor=TOO_MUCH))
    assert list(exp.list_trials()) == []
    exp.add(wl.Job(wl.Command(["true"])))
    for ask in (
        exp.stop,
        exp.table,
        lambda: exp.best("loss", "min"),
        lambda: exp.download_code("code"),
    ):
        with pytest.raises(wl.Unsupported, match="Nothing ran"):
            ask()
    with pytest.raises(wl.Unsupported, match="A search has no dry run"):
        exp.search(wl.Job(wl.Command(["true"])), space={}, metric="loss")
    assert not (fresh_home / "server.json").exists()


# -- refusals -------------------------------------------------------------------------

TOO_MUCH = wl.Local(cpus=10_000)
REFUSED: dict[str, Callable[[], wl.Job]] = {
    "a script that is not there": lambda: wl.Job(wl.PythonScript("witnes.py")),
    "arguments that do not fit": lambda: wl.Job(wl.PythonFunction(train), args={"rate": 1}),
    "a policy that is none": lambda: wl.Job(wl.Command(["true"]), restart_policy="Sometimes"),
    "a secret that is not set": lambda: wl.Job(wl.Command(["true"]), secrets=["NO_SUCH_SECRET"]),
    "more than there is": lambda: wl.Job(wl.Command(["true"]), executor=TOO_MUCH),
    "too many together": lambda: wl.Job(wl.Command(["true"]), replicas=10_000),
    "a volume in no place": lambda: wl.Job(wl.Command(["true"]), volumes={"/data": "."}),
    "a volume of nothing": lambda: wl.Job(wl.Command(["true"]), volumes={"data": "/no/such"}),
    "what cannot be pickled": lambda: wl.Job(wl.PythonFunction(train), args=[threading.Lock()]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_dry_run_refuses_a_job_with_the_error_of_a_real_run(
    what: str, here: Project, home: Path
) -> None:
    job = REFUSED[what]()
    with pytest.raises(wl.WindlassError) as really:
        job.submit()
    with pytest.raises(type(really.value)) as dry:
        job.submit(dry_run=True)
    assert str(dry.value) == str(really.value)


def test_a_running_server_decides_the_capacity_for_a_dry_run(
    here: Project, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_CPUS", "64")
    job = wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=48))
    assert "fits this machine (64 CPUs" in preview_of(job.submit(dry_run=True))
    started = here.run(
        Path(sys.executable).parent / "windlass", "server", "start", env={"WINDLASS_CPUS": "2"}
    )
    assert started.returncode == 0, started.stderr
    with pytest.raises(wl.ResourceError, match="needs 48 CPUs on one machine; there are 2"):
        job.submit(dry_run=True)
    assert list(wl.list_trials()) == []


def test_a_configured_server_that_does_not_answer_leaves_the_capacity_unchecked(
    here: Project, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("WINDLASS_TOKEN", "open")
    trial = wl.Job(wl.Command(["true"])).submit(dry_run=True)
    assert line_of(trial, "room") == "not checked: http://127.0.0.1:9 does not answer"
