"""Every policy has a meaning, and text that is not a policy is refused when a job is read."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from windlass.engine.restart_policy import Verdict, exit_verdict
from windlass.model.job import JobSpec, ProcessCall, RestartPolicy, Role
from windlass.model.thread_safe_types import learned

EXIT_CODES = (0, 1, 127, 128, 137, None)
DONE, FAILED, RESTART = Verdict.DONE, Verdict.FAILED, Verdict.RESTART


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [
        (RestartPolicy.NEVER, [DONE, FAILED, FAILED, FAILED, FAILED, FAILED]),
        (RestartPolicy.ON_FAILURE, [DONE, RESTART, RESTART, RESTART, RESTART, RESTART]),
        (RestartPolicy.ALWAYS, [RESTART, RESTART, RESTART, RESTART, RESTART, RESTART]),
        (RestartPolicy.EXIT_CODE, [DONE, FAILED, FAILED, RESTART, RESTART, RESTART]),
    ],
)
def test_a_restart_policy_decides_by_the_exit_code(
    policy: RestartPolicy, verdicts: list[Verdict]
) -> None:
    assert [exit_verdict(policy, exit_code) for exit_code in EXIT_CODES] == verdicts


def test_an_unknown_restart_policy_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no case covers 'Sometimes'"):
        exit_verdict(cast("RestartPolicy", "Sometimes"), 137)


@pytest.mark.parametrize(
    ("where", "field"),
    [
        ("role", "restart_policy"),
        ("job", "restart_scope"),
        ("job", "clean_policy"),
        ("job", "success_policy"),
    ],
)
def test_a_job_with_an_unknown_policy_cannot_be_read(where: str, field: str) -> None:
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    written: dict[str, Any] = msgspec.to_builtins(spec)
    (written["roles"][0] if where == "role" else written)[field] = "Sometimes"
    with pytest.raises(msgspec.ValidationError, match=f"'Sometimes'.*{field}"):
        msgspec.convert(written, learned(JobSpec))
