"""The options of `@wl.run` work, and invalid ones are refused at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from steps import double, look, newest, wait_for

import windlass as wl
from harness import Project

SHARES_HOME = True

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"accelerator": "h10"}, "accelerator: there is no accelerator 'h10'; did you mean 'h100'?"),
    ({"accelerator": "a100x0"}, "accelerator: 'a100x0' requests 0 accelerators"),
    ({"accelerator": 8}, "accelerator: 8 is not an accelerator"),
    ({"cpus": -1}, "cpus: -1 is out of range"),
    ({"cpus": 0}, "cpus: 0 is out of range"),
    ({"cpus": float("nan")}, "cpus: nan is not a valid number of CPUs"),
    ({"cpus": "2"}, "cpus: '2' is not a valid number of CPUs"),
    ({"memory": "4XB"}, "memory: '4XB' is not a size"),
    ({"memory": -5}, "memory: -5 is out of range"),
    ({"memory": 1.5}, "memory: 1.5 is not a size"),
    ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
    ({"timeout": 0}, "timeout: 0 is out of range"),
    ({"timeout": float("inf")}, "timeout: inf is "),
    ({"backend": "locale"}, "backend: there is no backend 'locale'; did you mean 'local'?"),
    (
        {"backend": "moon"},
        "backend: there is no backend 'moon'; choose one of: 'local', 'kubernetes'",
    ),
    ({"backend": 3}, "backend: there is no backend 3"),
    ({"retries": -1}, "retries: -1 is not a valid number of retries"),
    ({"retries": True}, "retries: True is not a valid number of retries"),
    ({"retries": 1.5}, "retries: 1.5 is not a valid number of retries"),
    ({"name": ""}, "name: '' is not a valid name"),
    ({"name": "a\nb"}, "name: 'a\\nb' is not a valid name"),
    ({"experiment": 7}, "experiment: 7 is not a valid name"),
    ({"experiment": "x" * 201}, "experiment: a name has at most 200 characters; this one has 201"),
    ({"env": {"BAD-NAME": "x"}}, "env: 'BAD-NAME' is not a valid variable name"),
    ({"env": {"": "x"}}, "env: '' is not a valid variable name"),
    ({"env": {"N": 3}}, "env: N is 3; a variable is a string"),
    ({"env": {"N": "a\0b"}}, "env: N contains a NUL character"),
    ({"env": ["N=3"]}, "env: ['N=3'] is not a mapping"),
    (
        {"env": {"WINDLASS_HOME": "/x"}},
        "env: WINDLASS_HOME is set by Windlass; choose another name",
    ),
    ({"secrets": "TOKEN"}, 'secrets: write a list: secrets=["TOKEN"]'),
    ({"secrets": ["1TOKEN"]}, "secrets: '1TOKEN' is not a valid variable name"),
    ({"secrets": {"TOKEN": 5}}, "secrets: the value of TOKEN is not a string"),
    ({"secrets": 5}, "secrets: write a list of names or a mapping"),
    ({"env": {"N": "\ud800"}}, "env: N is not valid Unicode: it contains half of a surrogate pair"),
    ({"secrets": {"TOKEN": "a\0b"}}, "secrets: the value of TOKEN contains a NUL character"),
    ({"packages": ["numpy=1.26"]}, "packages: 'numpy=1.26' is not a valid requirement"),
    ({"packages": ["./wheel.whl"]}, "packages: './wheel.whl' is a path"),
    ({"packages": ["--pre"]}, "packages: '--pre' is an option of pip"),
    ({"packages": [""]}, "packages: an empty string is not a requirement"),
    ({"packages": [3]}, "packages: 3 is not a string"),
    ({"packages": "numpy"}, "packages=['numpy']"),
    ({"packages": 3}, "packages: write a list"),
    ({"volumes": {"/data": "/"}}, "volumes: '/data' must be a path relative"),
    ({"volumes": {"data/../x": "/"}}, "volumes: 'data/../x' must be a path relative"),
    ({"volumes": {"": "/"}}, "volumes: '' must be a path relative"),
    ({"volumes": {"data": "/no/such/folder"}}, "volumes: '/no/such/folder' does not exist"),
    ({"volumes": {"data": 3}}, "volumes: 3 is not a path"),
    ({"volumes": "data"}, "volumes: write a mapping"),
    ({"spot": "yes"}, "spot: 'yes' is not True or False"),
    ({"container_image": 3}, "container_image: 3 is not a string"),
    ({"cluster": 3}, "cluster: 3 is not a string"),
    ({"cpu": 2}, "there is no option 'cpu'; did you mean 'cpus'?"),
    ({"zzz": 2}, "there is no option 'zzz'; choose one of: accelerator, cpus,"),
]


@pytest.fixture
def untouched_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home in which nothing may be stored and no server started."""
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    yield
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("options", "problem"), WRONG, ids=lambda value: str(value)[:40])
def test_an_invalid_option_is_refused_at_decoration_and_nothing_is_stored(
    untouched_home: None, options: dict[str, Any], problem: str
) -> None:
    for way in (wl.run, double.options):
        with pytest.raises(wl.InvalidArgument) as caught:
            way(**options)
        assert problem in " ".join(str(caught.value).split())


def test_one_error_lists_all_problems(untouched_home: None) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.run(  # type: ignore[call-overload]
            accelerator="h10", cpus=-1, memory="4XB", timeout="soon", backend="moon", retries=-1,
            env={"A-B": "x", "C": 3}, packages=["numpy=1", "--pre"], volumes={"/abs": "/nowhere"},
            secrets=["1X"], name="", cpu=3, memry="1GB", spot=True,
        )  # fmt: skip
    text = str(caught.value)
    assert text.startswith("wl.run: 17 problems:")
    problems = [line for line in text.splitlines() if line.startswith("  - ")]
    assert len(problems) == 17
    parts = (
        "h10", "-1", "4XB", "soon", "moon", "retries", "A-B", "C is 3", "numpy=1", "--pre", "/abs",
        "/nowhere", "1X", "name", "'cpu'", "'memry'", "spot",
    )  # fmt: skip
    for part in parts:
        assert part in text


def test_options_that_the_local_backend_cannot_honour_are_refused_with_the_reason(
    untouched_home: None,
) -> None:
    with pytest.raises(wl.Unsupported) as caught:
        wl.run(container_image="python:3.12", cluster="lab", spot=True, backend="local")
    text = str(caught.value)
    assert "3 problems" in text
    assert "container_image: backend 'local' runs plain processes, not containers" in text
    assert "list the required packages in packages=" in text
    assert "cluster: backend 'local' has no clusters; it is one machine" in text
    assert "spot: backend 'local' has no spot machines" in text


def test_oversized_requests_are_refused_at_once_and_others_get_their_resources(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CPUS", "3"), ("MEMORY", "2GB"), ("DEVICES", "h100")):
        monkeypatch.setenv(f"WINDLASS_{name}", value)
    never: list[tuple[dict[str, Any], str]] = [
        ({"cpus": 9999}, "needs 9999 CPUs on one machine; there are 3"),
        ({"memory": "900TB"}, "needs 900.0 TB of memory on one machine; there is 2.0 GB"),
        ({"accelerator": "h100x8"}, "needs 8 GPUs (h100) on one machine; there is 1"),
        ({"accelerator": "t4"}, "needs 1 GPU (t4) on one machine; there are 0"),
    ]
    seen = wl.run(lambda: os.environ.get("CUDA_VISIBLE_DEVICES"))
    for options, problem in never:
        with pytest.raises(wl.ResourceError) as caught:
            seen.options(**options).submit()
        assert problem in caught.value.message
        [option] = options
        way_out = {"cpus": "cpus=3 (", "memory": "less memory.", "accelerator": "accelerators"}
        assert way_out[option] in (caught.value.hint or "")
    assert newest() == 0

    trial = seen.options(accelerator="H100", cpus=2, memory="1.5GB").submit()
    resources = trial.resources
    assert (resources.cpus, resources.memory, str(resources.accelerator)) == (
        2.0,
        1_500_000_000,
        "h100",
    )
    assert trial.result() == "0"
    assert seen() == "", "who asked for no accelerator sees none"


@pytest.mark.finding("U9")
def test_libraries_start_as_many_threads_as_the_function_requests_cpus(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = wl.run(lambda: os.environ.get("OMP_NUM_THREADS"))
    assert threads() is None, "as in plain Python, unless the author requests CPUs"
    assert threads.options(cpus=1)() == "1"
    assert threads.options(cpus=1, env={"OMP_NUM_THREADS": "3"})() == "3"


def test_env_reaches_the_process_and_overrides_the_environment_of_the_caller(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "here")
    monkeypatch.setenv("BOTH", "here")
    names = ("FROM_HERE", "BOTH", "FROM_OPTIONS", "EMPTY")
    look = wl.run(lambda: [os.environ.get(name) for name in names])
    variables = {"BOTH": "options", "FROM_OPTIONS": "ü = '$x'\n", "EMPTY": ""}
    assert look.options(env=variables)() == ["here", "options", "ü = '$x'\n", ""]


def test_name_and_experiment_set_the_names_of_a_trial(home: Path) -> None:
    trial = double.options(name="try 1", experiment="the paper").submit(1)
    assert (trial.name, trial.experiment) == ("try 1", "the paper")
    plain = double.submit(2)
    assert (plain.name, plain.experiment) == ("double", "double")
    assert [trial.id for trial in wl.get_experiment("the paper").list_trials()] == [trial.id]
    assert [trial.id for trial in wl.list_trials(name="try 1")] == [trial.id]
    assert (trial.result(), plain.result()) == (2, 4)


def test_a_volume_appears_under_its_name_in_the_working_directory(
    home: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data set"
    data.mkdir()
    (data / "words.txt").write_text("from the volume")

    @wl.run(volumes={"input/words": data})
    def copy() -> str:
        text = Path("input/words/words.txt").read_text()
        Path("input/words/copy.txt").write_text(text)
        return text

    assert copy() == "from the volume"
    assert (data / "copy.txt").read_text() == "from the volume"


def test_a_relative_volume_is_relative_to_the_running_program(home: Path, project: Project) -> None:
    project.write("data/words.txt", "from the volume")
    project.write("code/pyproject.toml", "")
    project.write(
        "code/job.py",
        """
        import windlass as wl


        @wl.run(volumes={"words": "../data"})
        def read():
            return open("words/words.txt").read()
        """,
    )
    project.write("code/main.py", "import job\n\nprint(job.read())\n")
    done = project.python("main.py", cwd=project.path / "code")
    assert (done.returncode, done.stdout) == (0, "from the volume\n"), done.stderr


# -- restarts and time -----------------------------------------------------------------


def test_retries_restart_a_failing_function_until_it_succeeds(home: Path) -> None:
    @wl.run(retries=2)
    def flaky() -> str:
        attempt = os.environ["WINDLASS_ATTEMPT"]
        print("attempt", attempt)
        if attempt == "1":
            raise OSError("not yet")
        return attempt

    trial = flaky.submit()
    assert trial.result() == "2"
    assert (trial.state, trial.restarts, trial.exit_code) == ("SUCCEEDED", 1, 0)
    assert [(attempt.attempt, attempt.phase, attempt.exit_code) for attempt in trial.attempts] == [
        (1, "Failed", 1),
        (2, "Succeeded", 0),
    ]
    assert list(trial.logs(stream="stdout")) == ["attempt 1", "attempt 2"]
    assert [line.attempt for line in trial.logs(search="attempt ")] == [1, 2]


def test_exhausted_retries_raise_the_last_error(home: Path) -> None:
    @wl.run(retries=1)
    def hopeless() -> None:
        raise OSError(f"no luck in attempt {os.environ['WINDLASS_ATTEMPT']}")

    trial = hopeless.submit()
    with pytest.raises(OSError, match="no luck in attempt 2"):
        trial.result()
    assert (trial.state, trial.restarts, trial.exit_code) == ("FAILED", 1, 1)
    assert [attempt.exit_code for attempt in trial.attempts] == [1, 1]
    assert "restarted once" in trial.message


def test_a_function_without_retries_runs_once(home: Path) -> None:
    trial = wl.run(lambda: 1 / 0).submit()
    with pytest.raises(ZeroDivisionError):
        trial.result()
    assert (trial.state, trial.restarts, len(trial.attempts)) == ("FAILED", 0, 1)


def test_a_timeout_ends_the_trial_and_reports_the_option(home: Path, tmp_path: Path) -> None:
    @wl.run(timeout=0.5, retries=5)
    def forever(path: str) -> None:
        print("waiting")
        wait_for(path)

    trial = forever.submit(str(tmp_path / "never"))
    with pytest.raises(wl.TrialFailed) as caught:
        trial.result()
    error = caught.value
    assert "ran out of time (timeout 500ms)" in error.message
    assert "Tip: give it longer (it was 500ms): timeout=" in (error.hint or "")
    assert error.trial_id == trial.id
    assert (trial.state, len(trial.attempts)) == ("FAILED", 1)


# -- packages --------------------------------------------------------------------------


def test_packages_extend_the_installed_packages_and_are_installed_once(
    home: Path, project: Project
) -> None:
    assert metadata.version("iniconfig") != "1.1.1"
    wanting = wl.run(packages=["iniconfig==1.1.1"])(look)
    first = wanting.submit()
    version, folder, numpy, prefix = first.result()
    assert version == "1.1.1"
    assert Path(prefix).parent == home / "envs"
    assert folder.startswith(prefix)
    assert numpy == metadata.version("numpy"), "what the caller has stays importable"
    assert first.record.spec.python.packages == ("iniconfig==1.1.1",)
    assert list(first.logs(search="iniconfig")), "what uv did is in the log"
    made = os.stat(Path(prefix) / "complete").st_mtime_ns

    second = wanting.submit()
    assert second.result() == (version, folder, numpy, prefix)
    assert list(second.logs()) == []

    # The same requirement in a file gives the same environment.
    project.write("requirements.txt", "# pinned\niniconfig == 1.1.1\n")
    project.write(
        "train.py",
        """
        import sys

        import windlass as wl


        @wl.run(packages="requirements.txt")
        def train():
            import iniconfig

            return sys.prefix


        print(train())
        """,
    )
    done = project.python("train.py")
    assert (done.returncode, done.stdout) == (0, f"{prefix}\n"), done.stderr
    assert os.stat(Path(prefix) / "complete").st_mtime_ns == made
    assert len([path for path in (home / "envs").iterdir() if path.is_dir()]) == 1

    # Without `packages=` none of them is visible.
    plain = wl.run(look)()
    assert plain[0] == metadata.version("iniconfig")
    assert plain[3] == sys.prefix


@pytest.mark.parametrize(
    ("packages", "problem"),
    [
        (["windlass-has-no-such-package==1.0"], "windlass-has-no-such-package"),
        (["iniconfig==1.1.1", "iniconfig==2.0.0"], "iniconfig==2.0.0"),
        ("no-such-file.txt", "no-such-file.txt cannot be read"),
    ],
    ids=["unknown", "contradictory", "no-file"],
)
def test_a_package_that_cannot_be_installed_is_refused_before_a_trial_is_stored(
    home: Path, packages: list[str] | str, problem: str
) -> None:
    before = newest()
    wanting = wl.run(packages=packages)(look)
    for call in (wanting, wanting.submit):
        with pytest.raises(wl.InvalidArgument) as caught:
            call()
        assert problem in str(caught.value)
    assert newest() == before
