"""Implements `exp.search`, which checks and records the settings, then runs the search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.client.connection.transport import request_path
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import ExperimentRecord
from windlass.model.requests import ChangeExperiment
from windlass.model.text.quantities import parse_duration
from windlass.search.settings import DEFAULT_TRIALS, Settings, check_same, check_settings
from windlass.search.spaces import flatten
from windlass.search.study import load_optuna

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.search.result import SearchResult

_LONGEST_NAME = 100


def search(
    client: Client, experiment: ExperimentRecord, job: Any, *,
    space: Mapping[str, Any], metric: str, mode: str, method: str, trials: int | None,
    concurrent: int, name: str, seed: int | None, timeout: float | str | None, args: Any,
    min_steps: int = 1, reduction: int = 4, labels: Sequence[str] = (), to_continue: str = "",
) -> SearchResult:  # fmt: skip
    """Run a search until it ends. If the search already exists, continue it.

    `to_continue` explains how to continue an interrupted search. The default is a Python call.
    """
    load_optuna()
    from windlass.search.driver import Driver
    from windlass.search.hopeless import how_to_continue
    from windlass.search.launcher import Launcher

    spaces = flatten(space)
    number = check_settings(
        space=spaces, metric=metric, mode=mode, method=method, trials=trials, seed=seed,
        min_steps=min_steps, reduction=reduction,
    )  # fmt: skip
    _check_way(name, concurrent)
    seconds = None if timeout is None else parse_duration(timeout)
    launcher = Launcher(client, experiment, name, job, args, spaces, labels)
    launcher.check({name: axis.example for name, axis in spaces.items()})
    if number is None:
        before = experiment_now(client, experiment).searches.get(name, {})
        number = before.get("trials", DEFAULT_TRIALS)
    requested = Settings(
        space=spaces, metric=metric, mode=mode, method=method,  # type: ignore[arg-type]  # checked
        seed=_any_seed() if seed is None else seed, trials=number,
        min_steps=min_steps, reduction=reduction, job=launcher.job_name, args=_recorded(args),
    )  # fmt: skip
    settings = _claim(client, experiment, name, requested, is_seeded=seed is not None)
    launcher.package()
    driver = Driver(
        client, experiment, launcher, name, settings, concurrent=concurrent, timeout=seconds,
        to_continue=to_continue or how_to_continue(experiment.id),
    )  # fmt: skip
    return driver.run()


def experiment_now(client: Client, experiment: ExperimentRecord) -> ExperimentRecord:
    """Return an experiment's current record from the server."""
    path = request_path("experiments", experiment.id)
    return client.transport.ask("GET", path, ExperimentRecord)


def _claim(
    client: Client, experiment: ExperimentRecord, name: str, requested: Settings, *, is_seeded: bool
) -> Settings:
    """Record a search's settings and return the settings to use.

    If the search is already recorded, its recorded settings are used. An error is raised if the
    requested settings differ.
    """
    # The PATCH below may increase the number of trials, so check all other settings first.
    before = experiment_now(client, experiment).searches.get(name)
    if before is not None:
        check_same(name, before, requested, is_seeded=is_seeded)
    path = request_path("experiments", experiment.id)
    change = ChangeExperiment(put_searches={name: msgspec.to_builtins(requested)})
    record = client.transport.ask("PATCH", path, ExperimentRecord, body=change)
    return check_same(name, record.searches[name], requested, is_seeded=is_seeded)


def _check_way(name: object, concurrent: object) -> None:
    problems = []
    if not isinstance(name, str) or not name or not name.isprintable() or "/" in name:
        problems.append(f"name is {shown(name)}; it must be a string without slashes.")
    elif len(name) > _LONGEST_NAME:
        problems.append(f"name is too long: it has at most {_LONGEST_NAME} characters.")
    if isinstance(concurrent, bool) or not isinstance(concurrent, int) or concurrent < 1:
        problems.append(
            f"concurrent is {shown(concurrent)}; it must be a number of trials, 1 or more."
        )
    if problems:
        raise InvalidArgument.of(problems, where="exp.search")


def _recorded(args: Any) -> Any:
    """Convert arguments to JSON for recording and comparison.

    A value that JSON cannot represent is replaced with its repr.

    >>> _recorded({"data": object(), "kinds": {"b", "a"}})
    {'data': '<object object>', 'kinds': ['a', 'b']}
    """
    try:
        return msgspec.json.decode(
            msgspec.json.encode(args, enc_hook=_describe, order="deterministic")
        )
    except (TypeError, ValueError, msgspec.MsgspecError):  # for example, keys that are not strings
        return _describe(args)


def _describe(value: object) -> str:
    """Return a value's repr without memory addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", shown(value))


def _any_seed() -> int:
    import secrets

    return secrets.randbelow(2**32)
