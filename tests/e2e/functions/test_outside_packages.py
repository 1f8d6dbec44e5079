"""Editable and path-installed packages outside the project are part of a trial's snapshot."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from setuptools.command.editable_wheel import _finder_template

import windlass as wl
from harness import Project, windlass

pytestmark = pytest.mark.finding("U3")
SHARES_HOME = True

LAYOUTS = {  # the folder of each library's package
    "hooked": "hooked",
    "listed": "src/listed",
    "renamed": "code",
    "copied": "copied",
}
SCRIPT = """
import pathlib, sys, time
if len(sys.argv) > 1:
    pathlib.Path(sys.argv[1]).touch()
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.01)
import copied, hooked, listed, on_path, renamed
print(copied.name(), hooked.name(), listed.name(), on_path.name(), renamed.name())
"""


@pytest.fixture(autouse=True)
def is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_OUTSIDE_CODE")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four packages, one module on PYTHONPATH, and an environment in which they are installed."""
    folder = tmp_path_factory.mktemp("libraries")
    for name, package in LAYOUTS.items():
        (folder / name / package).mkdir(parents=True)
        (folder / name / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (folder / "path").mkdir()
    environment = folder / "environment"
    subprocess.run(
        [sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, environment],
        check=True,
    )
    site = site_of(folder)
    # Windlass and its dependencies come from the environment of the tests.
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (site / "tests.pth").write_text(line)
    install(site, folder, "listed", {"listed.pth": f"{folder / 'listed' / 'src'}\n"})
    for name in ("hooked", "renamed"):
        mapping = {name: str(folder / name / LAYOUTS[name])}
        finder = f"__editable___{name}_finder"
        hook = f"import {finder}; {finder}.install()\n"
        text = _finder_template(name, mapping, {})
        install(site, folder, name, {f"{name}.pth": hook, f"{finder}.py": text})
    install(site, folder, "copied", {"copied/__init__.py": ""}, is_editable=False)
    return folder


def site_of(folder: Path) -> Path:
    base = str(folder / "environment")
    return Path(sysconfig.get_path("purelib", vars={"base": base, "platbase": base}))


def install(
    site: Path, folder: Path, name: str, files: dict[str, str], *, is_editable: bool = True
) -> None:
    """Install a package as pip and uv do it, without the time of a build."""
    metadata = site / f"{name}-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    kind = {"editable": True} if is_editable else {}
    origin = {"url": (folder / name).as_uri(), "dir_info": kind}
    (metadata / "direct_url.json").write_text(json.dumps(origin))
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file, text in files.items():
        (site / file).parent.mkdir(exist_ok=True)
        (site / file).write_text(text)


def write(folder: Path, version: int) -> None:
    """Write one version of all packages."""
    for name, package in LAYOUTS.items():
        write_module(folder / name / package / "__init__.py", name, version)
    write_module(site_of(folder) / "copied" / "__init__.py", "copied", version)
    write_module(folder / "path" / "on_path.py", "on_path", version)


def write_module(path: Path, name: str, version: int) -> None:
    # `padded` keeps every version's size different from that of its bytecode's source.
    padded = "#" * version
    path.write_text(f"def name():\n    return '{name} {version}'\n{padded}\n")


def all_of(version: int) -> str:
    names = ("copied", "hooked", "listed", "on_path", "renamed")
    return " ".join(f"{name} {version}" for name in names)


@pytest.fixture
def python(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(libraries, 1)
    monkeypatch.setenv("PYTHONPATH", str(libraries / "path"))
    return libraries / "environment" / "bin" / "python"


def test_a_script_runs_the_packages_as_they_were_when_it_was_submitted(
    home: Path, project: Project, python: Path, libraries: Path, tmp_path: Path
) -> None:
    project.write("train.py", SCRIPT)
    project.write(
        "submit.py",
        """
        import sys
        import windlass as wl

        print(wl.Job(wl.PythonScript("train.py"), args=sys.argv[1:]).submit().id)
        """,
    )
    run = project.run(python, "submit.py", tmp_path / "begun", tmp_path / "go")
    assert run.returncode == 0, run.stderr
    first = wl.get_trial(int(run.stdout))
    write(libraries, 2)  # while the trial waits
    (tmp_path / "go").touch()
    first.wait()
    second = wl.get_trial(int(project.run(python, "submit.py").stdout)).wait()
    again = first.rerun().wait()
    printed = [windlass("logs", trial.id).stdout.strip() for trial in (first, second, again)]
    assert printed == [all_of(1), all_of(2), all_of(1)]
    assert first.diff(again).is_same_setup

    diff = first.diff(second)
    assert {change.path.split("/")[2] for change in diff.code} == {
        "copied", "hooked", "listed", "path", "renamed",
    }  # fmt: skip
    assert "+    return 'listed 2'" in str(diff)
    shown = windlass("show", first.id).stdout
    assert f"listed from {libraries / 'listed'}" in shown
    assert f"path from {libraries / 'path'}" in shown
    code = first.download_code(tmp_path / "code") / ".windlass-code" / "packages"
    assert "listed 1" in (code / "listed/src/listed/__init__.py").read_text()
    assert "copied 1" in (code / "copied/copied/__init__.py").read_text()


def test_a_function_calls_recorded_packages_by_reference(
    home: Path, project: Project, python: Path
) -> None:
    project.write(
        "main.py",
        """
        import hooked, listed, on_path
        import windlass as wl

        @wl.run
        def work(scale):
            import copied, renamed  # not loaded by the caller
            return scale(), hooked, listed.__file__, copied.name(), renamed.name()

        scale, module, file, *others = work(on_path.name)
        assert module is hooked
        assert "/.windlass-code/packages/listed/src/listed/" in file, file
        print(scale, *others)
        """,
    )
    run = project.run(python, "main.py")
    assert (run.stdout, run.stderr) == ("on_path 1 copied 1 renamed 1\n", "")


def test_a_package_that_is_too_large_is_named_and_not_claimed_to_be_the_same(
    home: Path, project: Project, python: Path, libraries: Path
) -> None:
    data = libraries / "listed" / "src" / "listed" / "weights.bin"
    with data.open("wb") as file:
        file.truncate(250_000_000)
    project.write("train.py", "import listed\nprint(listed.name())\n")
    submit = "import windlass as wl; print(wl.Job(wl.PythonScript('train.py')).run().id)"
    try:
        runs = [project.run(python, "-c", submit), project.run(python, "-c", submit)]
        write(libraries, 2)
        runs.append(project.run(python, "-c", submit))
    finally:
        data.unlink()
    assert "listed in" in runs[0].stderr
    assert "is not part of the snapshot: The code in" in runs[0].stderr
    first, second, third = (wl.get_trial(int(run.stdout.split()[-1])) for run in runs)
    assert first.diff(second).is_same_setup
    [note] = first.diff(third).notes
    assert note.endswith("changed, but it was not recorded, so its changes are not known.")
    assert f"listed in {libraries / 'listed'}: The code in" in windlass("show", first.id).stdout
    [note] = first.diff(first.rerun().wait()).notes
    assert note.startswith("It is not known whether listed in")
