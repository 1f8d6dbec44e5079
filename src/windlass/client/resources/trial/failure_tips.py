"""Tips for trial failures that have a known cause."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence

from windlass.client.resources.trial.crash_output import CRASHES, describe_crash
from windlass.client.resources.trial.replica_names import has_several
from windlass.model.job import FunctionCall, JobSpec, RestartPolicy
from windlass.model.records import TrialRecord
from windlass.model.text.quantities import format_duration
from windlass.worker.blobs.written_files import WORK

# From a trial's output, a tip quotes only names, so it contains no escape sequences.
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.-]+)'")
_IMPORT_NAME = re.compile(r"ImportError: cannot import name '([^']+)' from '([\w.-]+)'")
_PORT_TAKEN = re.compile(r"Address already in use|EADDRINUSE", re.IGNORECASE)
_MISSING_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '([^']+)'")
_TOP_FOLDER = re.compile(r"(\.\./)*[\w.-]*\w(?=/)")
_ABOVE = re.compile(r"(\.\./)+[\w.-]*\w(?=/|$)")
_MISSING_PYTHON = re.compile(r"there is no program /\S*/python[\d.]*$")
_NO_KEYBOARD = re.compile(r"EOFError: EOF when reading a line|bdb\.BdbQuit")
_GPU_MEMORY = re.compile(r"CUDA out of memory|OutOfMemoryError: CUDA")

# Package names for modules whose import names differ.
_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}

_GUARD_NEEDED = (
    "put the calls in the script below the line 'if __name__ == \"__main__\":', because each "
    "process that multiprocessing spawns runs the rest of the script again"
)
_USUAL_LIMIT = 6  # a job's default number of restarts


def tip_for(trial: TrialRecord, text: str) -> str | None:
    """Return a tip for a trial failure with a known cause, or None.

    `text` contains the last lines of the log and the error.

    >>> from windlass.model.job import JobSpec, ProcessCall, Role
    >>> trial = TrialRecord(
    ...     id=1,
    ...     uid="",
    ...     name="t",
    ...     experiment="t",
    ...     experiment_id=1,
    ...     project="p",
    ...     state="FAILED",
    ...     spec=JobSpec(roles=(Role(executable=ProcessCall(argv=("x",))),)),
    ... )
    >>> print(tip_for(trial, "ModuleNotFoundError: No module named 'sklearn'"))
    Tip: install it for the trial: packages=["scikit-learn"]
    """
    tips = [_tip_for_cause(trial, text), _restarts(trial)]
    return "\n".join(tip for tip in tips if tip) or None


def is_function(spec: JobSpec) -> bool:
    """Return whether a trial calls a function decorated with `@wl.run`.

    Tips for such a trial use the names of `@wl.run` options, some of which differ in `wl.Job`.

    For example, `timeout` of a function is called `active_deadline` in a job.
    """
    return len(spec.roles) == 1 and isinstance(spec.roles[0].executable, FunctionCall)


def limit_name(spec: JobSpec) -> str:
    """Return the name of the option that sets a trial's time limit."""
    return "timeout" if is_function(spec) else "deadline"


def _restarts(trial: TrialRecord) -> str | None:
    """Return a tip on how to turn off restarts, if the job restarts by default."""
    spec = trial.spec
    if trial.reason == "RepeatedFailure":
        return (
            'Tip: to restart it after the same exception, too, set restart_policy="OnFailure" '
            "or stop_on_repeat=False"
        )
    if trial.reason != "BackoffLimitExceeded" or not spec.backoff_limit:
        return None
    is_retried = is_function(spec) and spec.backoff_limit != _USUAL_LIMIT
    if is_retried or not (spec.framework or has_several(trial)):
        return None  # the user requested the restarts
    failed = trial.cause.role if trial.cause else spec.roles[0].name
    policy = {role.name: role.restart_policy for role in spec.roles}.get(failed)
    if policy in (None, RestartPolicy.NEVER):
        return None
    return (
        f'Tip: it restarts because of restart_policy="{policy.value}"; '
        'restart_policy="Never" fails at once'
    )


def _tip_for_cause(trial: TrialRecord, text: str) -> str | None:
    """Return a tip for the cause of failure found in the log or the record, or None."""
    if trial.reason == "DeadlineExceeded":
        deadline = trial.spec.active_deadline
        limit = f" (it was {format_duration(deadline)})" if deadline else ""
        option = "timeout=" if is_function(trial.spec) else "active_deadline="
        return f"Tip: give it longer{limit}: {option}"
    if _MISSING_PYTHON.search(trial.message):
        return (
            "Tip: its virtual environment was moved or deleted after the submission: submit it "
            "again from the environment that exists now"
        )
    if "damaged in the store" in trial.message:
        return (
            "Tip: submit it again: its code and its call are sent again. "
            "To check all other contents: windlass doctor --contents"
        )
    if trial.signal in CRASHES and (crash := describe_crash(text)):
        return f"Tip: C code crashed, called from Python: {crash}"
    if match := _MISSING_MODULE.search(text):
        return _missing_module(match[1])
    if match := _IMPORT_NAME.search(text):
        return (
            f"Tip: {match[2]!r} exists but has no {match[1]!r}: another version of it? "
            f'Pin one: packages=["{_package(match[2])}==..."]'
        )
    if _NO_KEYBOARD.search(text):
        here = "call the function here: .local(...)"
        if not is_function(trial.spec):
            here = "run the program here by itself"
        return f"Tip: a trial has no keyboard; to debug, {here}"
    if "has finished its bootstrapping phase" in text:
        return f"Tip: {_GUARD_NEEDED}"
    if _is_broken_pool(trial, text):
        return (
            "Tip: a process of the pool ended early; its own error is in the log. If the pool uses "
            f"spawn or forkserver, {_GUARD_NEEDED}"
        )
    if _GPU_MEMORY.search(text):
        return "Tip: the accelerator ran out of memory: a smaller batch, or a larger accelerator="
    if _PORT_TAKEN.search(text):
        if trial.spec.framework or has_several(trial):
            return (
                "Tip: the port of a replica is reserved: bind it with SO_REUSEADDR. "
                "For other ports, use port 0, then read the assigned port"
            )
        return (
            "Tip: the port is taken, perhaps by another trial on this machine: use port 0 and "
            "ask for the one you got"
        )
    if trial.signal == "SIGKILL" or "MemoryError" in text:
        is_sure = "memory" in trial.message or "MemoryError" in text
        return _out_of_memory(trial, is_sure=is_sure)
    if match := _MISSING_FILE.search(text):
        return _missing_file(trial, match[1])
    return None


def _is_broken_pool(trial: TrialRecord, text: str) -> bool:
    """Return whether a process pool failed, perhaps because its script has no guard."""
    executable = trial.spec.roles[0].executable
    main = executable.main if isinstance(executable, FunctionCall) else None
    is_unguarded = main is not None and main.path != "" and not main.is_run
    return is_unguarded and "BrokenProcessPool" in text


def last_lines(lines: Sequence[str], count: int = 20) -> list[str]:
    """Return the last log lines, for errors. Each progress bar is shown in its last state.

    >>> last_lines(["10%\\r20%", "bye"])
    ['20%', 'bye']
    """
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines][-count:]


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return _PACKAGES.get(top, top)


def _missing_module(module: str) -> str:
    return f'Tip: install it for the trial: packages=["{_package(module)}"]'


def _out_of_memory(trial: TrialRecord, *, is_sure: bool) -> str:
    failed = trial.cause.role if trial.cause else ""
    roles = {role.name: role for role in trial.spec.roles}
    memory = roles.get(failed, trial.spec.roles[0]).resources.memory
    more = "request more: memory=" if memory else 'reserve memory: memory="8GB"'
    what = "it used more memory than its limit" if is_sure else "perhaps it ran out of memory"
    return f"Tip: {what}: {more}, or make the work smaller"


def _missing_file(trial: TrialRecord, path: str) -> str | None:
    inside = _path_in_project(trial, path)
    if inside is None:
        return None
    base = _folder_here(trial, is_root=path.startswith("/"))
    if base is not None and not os.path.exists(os.path.join(base, inside)):
        return f"Tip: {inside!r} does not exist in {base} either: check the path"
    if base is not None and (match := _ABOVE.match(inside)) and _is_outside(trial, match[0]):
        return (
            f"Tip: {inside!r} is outside of the project, so it was not in the code snapshot. "
            f'Bring it along with volumes={{"{match[0]}": "{match[0]}"}}'
        )
    folder = match[0] if (match := _TOP_FOLDER.match(inside)) else "data"
    return (
        f"Tip: {inside!r} was not in the code snapshot; is it ignored by .gitignore? Bring it "
        f'along with volumes={{"{folder}": "/path/to/{folder.rpartition("/")[2]}"}}, or use an '
        "absolute path outside of the project"
    )


def _folder_here(trial: TrialRecord, *, is_root: bool) -> str | None:
    """Return the project's folder in which the program would have run without Windlass.

    With `is_root`, return the project's root. Return None if the project is not on this machine.
    """
    code = trial.spec.code
    if not code.root or trial.provenance.host != os.uname().nodename:
        return None
    folder = os.path.normpath(os.path.join(code.root, "." if is_root else code.workdir))
    return folder if os.path.isdir(folder) else None


def _is_outside(trial: TrialRecord, path: str) -> bool:
    """Return whether a relative path leads out of the project, for a trial on this machine.

    In pods and on other machines, a volume needs another source.
    """
    here = os.uname().nodename
    if any(attempt.pod is not None or attempt.node != here for attempt in trial.attempts):
        return False
    return posixpath.normpath(posixpath.join(trial.spec.code.workdir, path)).startswith("../")


def _path_in_project(trial: TrialRecord, path: str) -> str | None:
    """Return a path relative to the project, or None if it is outside of the project.

    An absolute path may be in the trial's copy of the project or in the project itself.
    """
    if not path.startswith("/"):
        return path
    path = posixpath.normpath(path)
    if match := re.search(rf"/trials/{trial.id}/[^/]+-\d+/{WORK}/(.+)", path):
        return match[1]
    codes = (trial.spec.code, *(role.code for role in trial.spec.roles if role.code))
    for root in (code.root.rstrip("/") + "/" for code in codes if code.root):
        if path.startswith(root):
            return path[len(root) :]
    return None
