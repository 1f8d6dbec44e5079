"""The differences between two trials, from their records."""

from __future__ import annotations

import json

import msgspec
import pytest

from compared_records import record, summary, with_role, with_spec
from windlass.comparison.trials import Diff, Materials, diff_trials, wanted_lists
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import Code, FunctionCall, ProcessCall, Python, RestartPolicy, Role
from windlass.model.records import (
    ErrorInfo,
    Git,
    Provenance,
    ResultInfo,
    TrialRecord,
    TrialState,
)


def diff(before: TrialRecord, after: TrialRecord, **blobs: bytes) -> Diff:
    return diff_trials(before, after, Materials(blobs=blobs))


def difference_lines(before: TrialRecord, after: TrialRecord) -> list[str]:
    """The printed differences, without the headings of both trials."""
    return str(diff(before, after)).split("\n")[3:]


def test_equal_trials_are_reported_as_equal() -> None:
    difference = diff(record(1, params={"lr": 0.1}), record(2, params={"lr": 0.1}, started=1.0))
    assert difference.is_same and difference.is_same_setup
    assert str(difference).splitlines() == [
        "Trial 1  train  SUCCEEDED  2.5s",
        "Trial 2  train  SUCCEEDED  11.5s",
        "",
        "Nothing differs: same code, arguments, environment, packages, resources, metrics and "
        "outcome.",
    ]
    assert difference.to_dict()["is_same"] is True


def test_running_trials_are_reported_as_equal_so_far() -> None:
    running = record(2, state=TrialState.RUNNING, ended=None)
    assert "Nothing differs so far" in str(diff(running, msgspec.structs.replace(running, id=3)))


def test_only_differing_arguments_are_shown() -> None:
    before = record(params={"lr": 0.1, "model": {"depth": 3, "norm": True}, "seed": 1, "tag": "1"})
    after = record(2, params={"lr": 0.3, "model": {"depth": 3, "norm": False}, "n": 5, "tag": 1})
    assert difference_lines(before, after) == [
        "Arguments",
        "    lr          0.1 → 0.3",
        "    model.norm  True → False",
        "  - seed        1",
        "    tag         '1' → 1",
        "  + n           5",
    ]


def test_the_command_is_shown_if_no_argument_explains_the_difference() -> None:
    before = with_role(record(), executable=ProcessCall(argv=("python", "train.py", "a b")))
    after = with_role(record(2), executable=ProcessCall(argv=("python", "train.py", "c")))
    assert difference_lines(before, after) == [
        "Resources and rules",
        "  command  python train.py 'a b' → python train.py c",
    ]
    before, after = (
        msgspec.structs.replace(side, params={"args": [side.id]}) for side in (before, after)
    )
    assert difference_lines(before, after) == ["Arguments", "  args  [1] → [2]"]
    other = with_role(after, executable=ProcessCall(argv=("python", "other.py", "c")))
    assert difference_lines(before, other)[-1] == "  program  train.py → other.py"


def test_resources_and_rules_of_a_single_role_are_shown_without_its_name() -> None:
    resources = Resources(cpus=4, memory=2 * 10**9, accelerator=Accelerator(kind="a100", count=2))
    after = with_role(record(2), replicas=3, resources=resources, env={"A": "x y"})
    after = with_spec(after, framework="torch", active_deadline=5400.0, priority=2)
    assert difference_lines(record(), after) == [
        "Environment",
        "  + env A  x y",
        "",
        "Resources and rules",
        "    priority     0 → 2",
        "    replicas     1 → 3",
        "    cpus         1 → 4",
        "  + framework    torch",
        "  + deadline     1h 30m",
        "  + memory       2.0 GB",
        "  + accelerator  a100x2",
    ]


def test_each_of_several_roles_is_shown_with_its_name() -> None:
    def roles(replicas: int, *more: str) -> tuple[Role, ...]:
        call = ProcessCall(argv=("python", "train.py"))
        names = ("learner", "actor", *more)
        return tuple(
            Role(executable=call, name=name, replicas=replicas if name == "actor" else 1)
            for name in names
        )

    difference = diff(
        with_spec(record(), roles=roles(2)), with_spec(record(2), roles=roles(8, "watch"))
    )
    assert [(change.name, change.before, change.after) for change in difference.settings][:3] == [
        ("actor: replicas", 2, 8),
        ("watch: command", None, "python train.py"),
        ("watch: role", None, "watch"),
    ]


def test_restart_rules_are_shown_only_if_something_may_restart() -> None:
    assert not diff(record(), with_spec(record(2), backoff_limit=1)).settings
    restarting = with_role(record(2), restart_policy=RestartPolicy.ON_FAILURE)
    names = [change.name for change in diff(record(), restarting).settings]
    assert names == ["restart policy", "restart scope", "backoff limit"]


def test_the_host_and_the_commit_of_a_trial_are_shown() -> None:
    before = record(provenance=Provenance(python="3.11.7", host="a", git=Git(commit="1" * 40)))
    git = Git(commit="2" * 40, branch="main", dirty=True)
    after = record(2, provenance=Provenance(python="3.12.1", host="a", git=git))
    assert difference_lines(before, after) == [
        "Git",
        "    commit               111111111111 → 222222222222",
        "    uncommitted changes  False → True",
        "  + branch               main",
        "",
        "Environment",
        "  Python  3.11.7 → 3.12.1",
    ]


def test_packages_are_shown_as_added_removed_and_changed() -> None:
    one, two, lock = "1" * 64, "2" * 64, "3" * 64
    before = record(provenance=Provenance(packages=one))
    after = with_spec(
        record(2, provenance=Provenance(packages=two)), python=Python(packages=("x",), lock=lock)
    )
    assert wanted_lists(before, after) == [one, two, lock]
    blobs = {one: b"numpy==1.26\nold==1\nsame==2\n", two: b"numpy==1.26\nsame==2\n",
             lock: b"numpy==2.1 ; extra\nx==3\n"}  # fmt: skip
    difference = diff(before, after, **blobs)
    assert [(c.name, c.kind, c.before, c.after) for c in difference.packages] == [
        ("numpy", "changed", "1.26", "2.1"),
        ("old", "removed", "1", None),
        ("x", "added", None, "3"),
    ]
    assert "  + x      3" in str(difference).splitlines()
    assert wanted_lists(before, record(2, provenance=Provenance(packages=one))) == []


def test_missing_information_is_reported_without_guesses() -> None:
    one, two = "1" * 64, "2" * 64
    before = with_spec(record(provenance=Provenance(packages=one)), code=Code(tree=one))
    after = with_spec(record(2, provenance=Provenance(packages=two)), code=Code(tree=two))
    difference = diff(before, after, **{one: b"numpy==1\n"})
    assert difference.packages == () and difference.code == ()
    assert not difference.is_same
    assert difference.notes == (
        "The code of trial 1 no longer exists, so it is not compared.",
        "The code of trial 2 no longer exists, so it is not compared.",
        "The packages of trial 2 are unknown.",
    )
    bare = diff(before, with_spec(record(2, provenance=Provenance(packages=one)), code=Code()))
    assert bare.notes == ("Trial 2 has no recorded code.",)


def test_calls_with_hidden_differences_are_not_reported_as_equal() -> None:
    before = with_role(record(), executable=FunctionCall(payload="1" * 64, qualname="f"))
    after = with_role(record(2), executable=FunctionCall(payload="2" * 64, qualname="f"))
    assert diff(before, after).notes == (
        "The pickled calls differ, but the recorded arguments do not.",
    )
    other = msgspec.structs.replace(after, params={"x": 1})
    assert diff(before, other).notes == ()


def test_metrics_are_shown_side_by_side() -> None:
    before = record(3, metrics={"loss": summary(0.5, 0.25), "same": summary(1), "old": summary(2)})
    after = record(7, metrics={"loss": summary(0.4, 0.125), "same": summary(1)})
    assert difference_lines(before, after) == [
        "Same code, arguments, environment and resources.",
        "",
        "Metrics",
        "               3      7  change",
        "  loss      0.25  0.125  -0.125",
        "  loss min  0.25  0.125  -0.125",
        "  loss max   0.5    0.4    -0.1",
        "  old          2      -",
    ]
    [loss, old] = diff(before, after).metrics
    assert (loss.change, old.change, old.after) == (-0.125, None, None)


def test_an_equal_minimum_or_maximum_of_a_metric_is_not_shown() -> None:
    before = record(3, metrics={"loss": summary(0.5, 0.25)})
    after = record(7, metrics={"loss": summary(0.5, 0.125)})
    assert difference_lines(before, after)[3:] == [
        "               3      7  change",
        "  loss      0.25  0.125  -0.125",
        "  loss min  0.25  0.125  -0.125",
    ]


def test_outcomes_are_shown_and_values_that_only_look_alike_differ() -> None:
    failed = record(
        2, state=TrialState.FAILED, exit_code=1, error=ErrorInfo(type="E", message="no\nway")
    )
    good = record(exit_code=0, result=ResultInfo(digest="1" * 64, size=9, text="[0, 1, …]"))
    assert difference_lines(good, failed)[2:] == [
        "Outcome",
        "    state      SUCCEEDED → FAILED",
        "    exit code  0 → 1",
        "  - result     [0, 1, …]",
        "  + error      'E: no\\nway'",
    ]
    alike = record(2, exit_code=0, result=ResultInfo(digest="2" * 64, size=9, text="[0, 1, …]"))
    assert [change.name for change in diff(good, alike).outcome] == ["value"]


def test_terminal_control_sequences_are_shown_as_text() -> None:
    tree, other = "1" * 64, "2" * 64
    before = with_spec(record(params={"x\x1b[2J": "\x1b]0;gone\x07"}), code=Code(tree=tree))
    after = with_spec(record(2, name="\x1b[31m"), code=Code(tree=other))
    trees = {tree: [], other: [("odd\x1b[2J\n", "f", "3" * 64, 9)]}
    materials = Materials(trees=trees, blobs={"3" * 64: b"\x1b[2Jline\n"})
    text = str(diff_trials(before, after, materials))
    assert "\x1b" not in text and "\x07" not in text
    assert "A 'odd\\x1b[2J\\n'" in text
    assert "+\\x1b[2Jline" in text


def test_code_of_roles_is_compared_role_by_role_if_they_differ() -> None:
    def trial(number: int, *trees: str) -> TrialRecord:
        call = ProcessCall(argv=("python", "train.py"))
        roles = tuple(
            Role(executable=call, name=name, code=Code(tree=tree))
            for name, tree in zip(("learner", "actor"), trees, strict=True)
        )
        return with_spec(record(number), roles=roles, code=Code(tree=trees[0]))

    a, b, c = "a" * 64, "b" * 64, "c" * 64
    trees = {a: [("x", "f", a, 1)], b: [("x", "f", b, 1)], c: [("x", "f", c, 1)]}
    materials = Materials(trees=trees, blobs={a: b"1", b: b"2", c: b"3"})
    difference = diff_trials(trial(1, a, b), trial(2, a, c), materials)
    assert [(change.role, change.path) for change in difference.code] == [("actor", "x")]
    assert "  M x (actor)  +1 -1" in str(difference).splitlines()
    shared = diff_trials(trial(1, a, a), trial(2, b, b), materials)
    assert [(change.role, change.path) for change in shared.code] == [("", "x")]


def test_a_difference_is_plain_json() -> None:
    before = record(params={"a": 1}, metrics={"loss": summary(1.0)})
    plain = diff(before, record(2, params={"a": [1, {"b": None}]})).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["arguments"] == [
        {"name": "a", "kind": "changed", "before": 1, "after": [1, {"b": None}]}
    ]
    assert plain["metrics"][0]["after"] is None


@pytest.mark.parametrize("width", [20, 40, 80])
def test_values_fit_the_width_and_show_differences_in_long_values(width: int) -> None:
    from windlass.comparison.diff_text import diff_lines
    from windlass.model.text.display import width_of

    before = record(params={"path": "/data/" + "x" * 300 + "/one", "n": "y" * 300})
    after = record(2, params={"path": "/data/" + "x" * 300 + "/two"})
    lines = [
        "".join(piece.text for piece in line)
        for line in diff_lines(diff(before, after), width=width)
    ]
    changed = [line for line in lines if "→" in line or line.startswith("  - ")]
    assert len(changed) == 2
    assert all(width_of(line) <= max(width, 30) for line in changed), changed
    if width >= 40:
        assert "one" in changed[0] and "two" in changed[0]
