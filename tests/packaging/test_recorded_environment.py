"""Recorded environments are compared, and rebuilt by the real uv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windlass.packaging.environments import find_uv
from windlass.packaging.provenance import installed_packages
from windlass.packaging.recorded_environment import (
    Interpreter,
    Unusable,
    difference,
    is_this_one,
    look_at,
    read_pins,
    rebuild,
)


@pytest.fixture
def other(tmp_path: Path) -> str:
    """An interpreter with one local package."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "0.1"\n')
    (package / "mine.py").touch()
    environment = tmp_path / "other"
    run = [find_uv(), "venv", "-q", "--no-project", "--python", sys.executable, str(environment)]
    subprocess.run(run, check=True, cwd=tmp_path)
    python = environment / "bin" / "python"
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "mine-0.1.dist-info").mkdir()
    (site / "mine-0.1.dist-info" / "METADATA").write_text("Name: mine\nVersion: 0.1\n")
    (site / "mine-0.1.dist-info" / "direct_url.json").write_text('{"url": "file:///mine"}')
    return str(python)


def test_another_interpreter_reports_its_version_and_packages(other: str, tmp_path: Path) -> None:
    environment = look_at(other, tmp_path)
    assert environment == Interpreter(
        other, sys.version.split()[0], b"mine==0.1  # not from an index\n"
    )
    assert environment.minor == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert not is_this_one(other)  # although the file behind it is the same


def test_this_interpreter_is_read_without_a_process(tmp_path: Path) -> None:
    beside = str(Path(sys.executable).with_name("python3"))
    for name in (sys.executable, beside):
        assert look_at(name, tmp_path).packages == installed_packages(tmp_path)


def test_a_missing_or_broken_interpreter_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="no longer exists"):
        look_at(str(tmp_path / "python"), tmp_path)
    with pytest.raises(Unusable, match="no longer exists"):
        look_at(str(tmp_path), tmp_path)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(Unusable, match="no longer runs"):
        look_at(str(broken), tmp_path)


def test_differences_are_reported_with_a_count_and_the_first_few() -> None:
    before = "".join(f"p{number}==1\n" for number in range(9)).encode()
    after = "".join(f"p{number}==2\n" for number in range(9)).encode()
    text = str(difference(("3.11.7", before), ("3.11.7", after)))
    assert text == "9 packages: " + ", ".join(f"p{n} 1 -> 2" for n in range(5)) + " and 4 more"
    assert not difference(("3.11.7", before), ("3.11.7", before))
    assert str(difference(("3.11.7", before), ("3.12.1", before))) == "Python 3.11.7 -> 3.12.1"


def test_packages_of_the_lock_do_not_count_as_differences() -> None:
    lock = b"numpy==1.26.4\n    # via me\nmine @ git+https://example.org/mine@abc\n"
    assert not difference(("", b"NumPy==2.0\n"), ("", b"numpy==2.1\nmine==3\n"), lock)
    assert read_pins(lock)["mine"].version == "git+https://example.org/mine@abc"


def test_packages_without_an_index_are_left_out_and_reported(tmp_path: Path) -> None:
    recorded = (
        b"gone-local==1.0  # not from an index\niniconfig==2.0.0\nmine==0.1\n"
        b"no-such-package-of-anybody-1==1.0\npackaging==23.0\nwindlass==0.0.1\n"
    )
    base = Interpreter(sys.executable, "3.11.7", b"mine==0.2  # not from an index\nmore==1\n")
    rebuilt = rebuild(recorded, b"packaging==24.0\n", base)
    assert rebuilt.lock == "iniconfig==2.0.0\npackaging==24.0\n"
    assert rebuilt.left_out == (
        "gone-local 1.0",
        "mine 0.1",
        "no-such-package-of-anybody-1 1.0",
    )
    assert rebuilt.packages.decode().splitlines() == [
        "iniconfig==2.0.0",
        "mine==0.2  # not from an index",
        "more==1",
        "packaging==24.0",
    ]
