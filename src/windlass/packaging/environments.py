"""Implements the option `packages=` by checking requirements and pinning exact versions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from windlass.model.errors import InvalidArgument, WindlassError, shown
from windlass.packaging.cache_files import write_cache

_PATIENCE = 300.0
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_CLAUSE = r"(?:===\s*[^\s,;]+|(?:~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9_.*+!-]+)"
_REQUIREMENT = re.compile(
    rf"\s*{_NAME}\s*"
    rf"(?:\[\s*(?:{_NAME}(?:\s*,\s*{_NAME})*)?\s*\])?\s*"
    rf"(?:{_CLAUSE}(?:\s*,\s*{_CLAUSE})*|\(\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*\))?\s*"
    r"(?:;\s*(?P<marker>\S.*))?",
    re.ASCII,
)
_URL = re.compile(
    rf"\s*{_NAME}\s*(?:\[[^\]]*\])?\s*@\s*(?:git\+)?(?:https|http|ssh)://\S+(?:\s+;.*)?", re.ASCII
)
_ADVICE = "write it as pip would: 'numpy', 'numpy==1.26' or 'jax[cuda12]>=0.4,<0.5'"


def check_requirements(packages: Sequence[str] | str) -> tuple[str, ...]:
    """Check requirements and return them without surrounding spaces.

    `packages` is a list of requirements, or the path of a requirements file ending in `.txt`. One
    error lists all problems.

    >>> check_requirements(["numpy ==1.26", "requests"])
    ('numpy ==1.26', 'requests')
    >>> check_requirements(["numpy=1.26"])
    Traceback (most recent call last):
    ...
    windlass.InvalidArgument: packages: 'numpy=1.26' is not a valid requirement; write it as \
pip would: 'numpy', 'numpy==1.26' or 'jax[cuda12]>=0.4,<0.5'
    """
    if isinstance(packages, (str, Path)):
        text = str(packages)
        if not text.endswith(".txt"):
            raise InvalidArgument(
                f"packages is the string {shown(text)}; it must be a list of requirements.",
                hint=f"Write packages=[{shown(text)}], or the path of a requirements file (.txt).",
            )
        packages = read_requirements(Path(text))
    if problems := requirement_problems(packages):
        raise InvalidArgument.of(problems, where="packages")
    return tuple(package.strip() for package in packages)


def requirement_problems(packages: Sequence[object]) -> list[str]:
    """Return the problems with requirements, one sentence per problem."""
    return [problem for package in packages if (problem := _problem(package))]


def read_requirements(path: Path) -> tuple[str, ...]:
    r"""Return the requirements in a requirements file, without comments or empty lines.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "requirements.txt"
    >>> _ = file.write_text("# what we need\nnumpy==1.26  # not 2\n\nrequests\n")
    >>> read_requirements(file)
    ('numpy==1.26', 'requests')
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidArgument(f"packages: {path} cannot be read: {reason}.") from error
    lines = re.sub(r"\\\r?\n", " ", text).splitlines()
    plain = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return tuple(line for line in plain if line)


def resolve_lock(packages: Sequence[str] | str, python_executable: str, cache_dir: Path) -> str:
    """Pin exact versions for requirements and return the text of a requirements file.

    uv chooses versions that suit the given interpreter. The result is cached.
    """
    import hashlib

    requirements = check_requirements(packages)
    if not requirements:
        return ""
    # The result depends on these variables. For example, a different index may have other versions.
    settings = sorted(item for item in os.environ.items() if item[0].startswith(("UV_", "PIP_")))
    parts = (sorted(requirements), _interpreter(python_executable), sys.platform, settings)
    key = hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:32]
    file = os.path.join(str(cache_dir), "locks", key)
    try:
        with open(file, encoding="utf-8") as opened:
            if lock := opened.read():
                return lock
    except (OSError, UnicodeDecodeError):
        pass  # not cached yet
    lock = compile_requirements(requirements, python_executable)
    write_cache(file, lock.encode())
    return lock


def find_uv() -> str:
    """Return the path of the uv program."""
    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        import shutil

        if path := shutil.which("uv"):
            return path
    raise WindlassError(
        "packages= needs the program uv, which is not installed.",
        hint="Install it: pip install uv",
    )


def _problem(requirement: object) -> str:
    if not isinstance(requirement, str):
        return f"{shown(requirement)} is not a string; {_ADVICE}"
    text = requirement.strip()
    if not text:
        return f"an empty string is not a requirement; {_ADVICE}"
    if "\n" in text or "\0" in text:
        return f"{shown(requirement)} has more than one line; write one requirement per string"
    if text.startswith("-"):
        return f"{shown(text)} is an option of pip; write requirements only, {_ADVICE}"
    is_path = text.startswith((".", "/", "~", "file:")) or "file://" in text
    if is_path or (text.endswith((".whl", ".tar.gz", ".zip")) and "://" not in text):
        return (
            f"{shown(text)} is a path, which may not exist where the job runs. Put the "
            "code into the project, or name a package from an index"
        )
    if _URL.fullmatch(text):
        return ""
    if not _REQUIREMENT.fullmatch(text):
        return f"{shown(text)} is not a valid requirement; {_ADVICE}"
    return ""


def _interpreter(executable: str) -> str:
    """Return text that identifies an interpreter.

    Interpreters with the same text need the same package versions.
    """
    if not executable or os.path.realpath(executable) == os.path.realpath(sys.executable):
        return f"{sys.implementation.cache_tag} {os.uname().machine}"
    try:
        status = os.stat(executable)
    except OSError as error:
        raise InvalidArgument(
            f"The interpreter {executable!r} cannot be found: {error.strerror}."
        ) from error
    return f"{os.path.realpath(executable)} {status.st_mtime_ns} {status.st_size}"


def compile_requirements(requirements: Sequence[str], executable: str, *options: str) -> str:
    """Let uv choose exact versions for requirements and return its output.

    The versions suit the Python interpreter `executable`.
    """
    import subprocess

    command = [
        find_uv(), "pip", "compile", "-", "--python", executable or sys.executable,
        "--no-header", "--no-annotate", "--quiet", "--color", "never", *options,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            input="\n".join(requirements) + "\n",
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            cwd="/",  # so that uv ignores the user's uv.toml and pyproject.toml
        )
    except subprocess.TimeoutExpired as error:
        raise WindlassError(
            f"uv did not find versions for packages={list(requirements)} within {_PATIENCE:.0f} s.",
            hint="Check that the package index can be reached, then try again.",
        ) from error
    except OSError as error:
        raise WindlassError(f"uv cannot be started: {error.strerror}.") from error
    if done.returncode == 0:
        return done.stdout
    raise _explained(requirements, done.stderr)


def _explained(requirements: Sequence[str], output: str) -> WindlassError:
    """Convert uv's error output to an exception."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", output)
    text = re.sub(r"^[^\w]*(?:error:|hint:)?", "", text, flags=re.MULTILINE)
    message = " ".join(text.split())
    message = message[:600] + ("…" if len(message) > 600 else "")
    if re.search(r"failed to fetch|error sending request|dns error|timed out", message.lower()):
        return WindlassError(
            f"The package index could not be reached for packages={list(requirements)}.",
            hint=f"Output of uv: {message}\n"
            "Check the network and the configured package index, then try again.",
        )
    return InvalidArgument(
        f"packages={list(requirements)} cannot be installed together, or not at all.",
        hint=f"Output of uv: {message}\n"
        "Check the names and versions, or loosen them: packages=['numpy'] takes the newest.",
    )
