from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windlass.model.errors import InvalidArgument, WindlassError
from windlass.packaging import environments
from windlass.packaging.environments import check_requirements, find_uv, resolve_lock


def test_all_problems_are_reported_at_once() -> None:
    wrong = ["numpy=1.26", "", "-r more.txt", "./mine.whl", "/abs/dist.tar.gz", "a b", "x\ny"]
    with pytest.raises(InvalidArgument) as caught:
        check_requirements(["numpy", *wrong, 3])  # type: ignore[list-item]
    text = str(caught.value)
    assert "8 problems" in text
    assert "'numpy=1.26' is not a valid requirement" in text
    assert "'./mine.whl' is a path" in text
    assert "'-r more.txt' is an option" in text


@pytest.mark.parametrize(
    "requirement",
    [
        "numpy",
        "numpy==1.26",
        "numpy ~= 1.26.0",
        "jax[cuda12]>=0.4,<0.5",
        "a.b-c_d!=1.*",
        "torch==2.1.0+cu118",
        "x (>=1)",
        "tomli>=1; python_version < '3.11'",
        "mine @ https://example.org/mine-1.0.tar.gz",
        "mine @ git+https://example.org/mine.git@main",
    ],
)
def test_valid_pip_requirements_are_accepted(requirement: str) -> None:
    assert check_requirements([requirement]) == (requirement,)


def test_a_single_text_is_a_requirements_file_or_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("\ufeff# comment\nnumpy==1.26 \\\n  # more\n\niniconfig>=2 # why\n")
    assert check_requirements(str(file)) == ("numpy==1.26", "iniconfig>=2")
    with pytest.raises(InvalidArgument, match=r"packages=\['numpy'\]"):
        check_requirements("numpy")
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        check_requirements(str(tmp_path / "none.txt"))


def test_packages_resolve_to_a_pinned_lock_and_are_remembered(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = resolve_lock(["iniconfig==2.0.0"], sys.executable, cache)
    assert lock.strip() == "iniconfig==2.0.0"
    monkeypatch.setattr(
        environments, "compile_requirements", lambda *_: pytest.fail("resolved again")
    )
    assert resolve_lock(["iniconfig==2.0.0"], sys.executable, cache) == lock
    assert resolve_lock([], sys.executable, cache) == ""


@pytest.mark.parametrize(
    ("requirement", "message"),
    [("iniconfig==99.99", "iniconfig==99.99"), ("windlass-no-such-package-xyz", "not found")],
)
def test_an_unknown_package_is_an_invalid_argument(
    cache: Path, requirement: str, message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve_lock([requirement], sys.executable, cache)
    text = str(caught.value)
    assert requirement in text and message in text
    assert "Check the names and versions" in text
    assert "╰" not in text and "\x1b" not in text
    assert not list(cache.rglob("*"))


def test_a_missing_interpreter_is_an_invalid_argument(cache: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be found"):
        resolve_lock(["iniconfig"], "/nowhere/python", cache)


def test_a_missing_uv_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WindlassError, match="pip install uv"):
        find_uv()


def test_an_unreachable_index_is_not_an_invalid_argument(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    with pytest.raises(WindlassError, match="could not be reached") as caught:
        resolve_lock(["iniconfig"], sys.executable, cache)
    assert not isinstance(caught.value, InvalidArgument)


def test_the_uv_found_runs() -> None:
    assert subprocess.run([find_uv(), "--version"], capture_output=True).returncode == 0
