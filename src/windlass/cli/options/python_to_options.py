"""Replaces Python argument names in messages with command-line options."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord

# Python arguments whose command-line options have different names.
_CALLED = {
    "active_deadline": "timeout",
    "labels": "label",
    "packages": "package",
    "secrets": "secret",
    "volumes": "volume",
}
_PLAIN = (
    "accelerator", "backend", "backoff_limit", "clean_policy", "cluster", "container_image", "cpus",
    "env", "environment", "experiment", "framework", "keep_best", "keep_last", "memory", "name",
    "namespace", "priority", "priority_class", "queue", "replicas", "restart_policy",
    "restart_scope", "retries", "service_account", "spot", "stop_on_repeat", "success_policy",
    "suspend", "timeout", "ttl_after_finished",
)  # fmt: skip
_NAME = "|".join(sorted((*_CALLED, *_PLAIN), key=len, reverse=True))
_LIST = re.compile(r"\b(packages|secrets)=\[([^\]]*)\]")
_EXECUTOR = re.compile(rf"\b(?:executor=)?wl\.(?:Local|Kubernetes)\(((?:{_NAME})=[^)]*)\)")
_OF_CLUSTER = re.compile(rf"\b({_NAME})= of wl\.Kubernetes\b")
_VOLUMES = re.compile(r'\bvolumes=\{"([^"]*)": "([^"]*)"\}')
_GIVEN_SECRET = re.compile(r", or pass the value: secrets=\{[^}]*\}")
_ARGUMENT = re.compile(rf"(?<![\w-])({_NAME})=(?:\"([^\"]*)\"|'([^']*)'|([\w.]+))?")
_SETTING = re.compile(rf"(?<![\w-])({_NAME}) \"([^\"]*)\"")
_HEADING = re.compile(rf"^(\s*- |windlass run: )?(?:executor: )?({_NAME}): ", re.MULTILINE)
_REMOVED = re.compile(rf"\b([Rr]emove) ({_NAME})\b(?!=)")
_COMPOUND = re.compile(rf"(?<![\w-])({'|'.join(n for n in _PLAIN if '_' in n)})(?![\w=])")
_FLAG = re.compile(r"\b(code|overwrite)=True\b")
_METHOD = re.compile(r"\btrial\.\w+\([^)]*\), or (?=windlass )")
_QUOTED = re.compile(r"""['"]([^'"]+)['"]""")


def as_options(text: str) -> str:
    """Replace Python arguments in a message with options of `windlass run`.

    >>> as_options('Tip: install it for the trial: packages=["scikit-learn"]')
    'Tip: install it for the trial: --package scikit-learn'
    >>> as_options('reserve memory: memory="8GB", or give it longer: timeout=')
    'reserve memory: --memory 8GB, or give it longer: --timeout'
    >>> as_options("Request less: executor=wl.Local(cpus=0.5), or fewer replicas.")
    'Request less: --cpus 0.5, or fewer replicas.'
    >>> as_options("Name a priority class of the cluster: wl.Kubernetes(priority_class=...)")
    'Name a priority class of the cluster: --priority-class ...'
    >>> as_options("Choose another (namespace= of wl.Kubernetes).")
    'Choose another (--namespace).'
    >>> as_options("Once more: trial.rerun(), or windlass rerun 7")
    'Once more: windlass rerun 7'
    >>> as_options("windlass run: restart_policy: 'Sometimes' is not a valid value")
    "windlass run: --restart-policy: 'Sometimes' is not a valid value"
    """
    text = _GIVEN_SECRET.sub("", text)
    text = _EXECUTOR.sub(r"\1", text)
    text = _OF_CLUSTER.sub(r"\1=", text)
    text = _METHOD.sub("", text)
    text = text.replace("stop_on_repeat=False", "--no-stop-on-repeat")
    text = _FLAG.sub(r"--\1", text)
    text = _LIST.sub(_repeat_option, text)
    text = _VOLUMES.sub(r"--volume \1=\2", text)
    text = _ARGUMENT.sub(lambda m: _option(m[1], m[2] or m[3] or m[4]), text)
    text = _SETTING.sub(lambda m: _option(m[1], m[2]), text)
    text = _HEADING.sub(lambda m: f"{m[1] or ''}{_option(m[2])}: ", text)
    text = _REMOVED.sub(lambda m: f"{m[1]} {_option(m[2])}", text)
    return _COMPOUND.sub(lambda m: _option(m[1]), text)


def as_submitted(text: str, trial: TrialRecord) -> str:
    """Replace Python arguments in a tip with options, if `windlass run` submitted the trial."""
    argv = trial.provenance.argv
    return as_options(text) if argv and posixpath.basename(argv[0]) == "windlass" else text


@contextmanager
def errors_as_options() -> Iterator[None]:
    """Replace Python arguments with options in errors raised in the `with` block."""
    try:
        yield
    except WindlassError as error:
        error.message = as_options(error.message)
        error.hint = as_options(error.hint) if error.hint else None
        raise


def _repeat_option(match: re.Match[str]) -> str:
    return " ".join(_option(match[1], value) for value in _QUOTED.findall(match[2]))


def _option(name: str, value: str | None = None) -> str:
    option = "--" + _CALLED.get(name, name).replace("_", "-")
    return f"{option} {value}" if value else option
