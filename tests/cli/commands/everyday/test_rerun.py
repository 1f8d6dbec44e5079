"""`windlass rerun`, and the lineage, labels and notes in `show` and `ls`."""

from __future__ import annotations

import json
import re

import pytest

from cli.shells import Shell
from windlass.model.job import ProcessCall

SCRIPT = """
    import os
    import sys

    print(sys.argv[1:], os.environ.get("MOOD"))
    sys.exit(3 if "--fail" in sys.argv else 0)
    """

JOB = """
    script = "tell.py"
    executor = { cpus = 0.5 }
    args = { lr = 0.1, amp = true, model = { depth = 3 } }
    """

FUNCTION = """
    import windlass as wl


    @wl.run
    def train(lr, layers=(64, 32)):
        print("trains with", lr)
        return [lr, layers]


    trial = train.submit(0.1)
    trial.wait()
    print(trial.id)
    """

ROLES = """
    import windlass as wl

    half = wl.Local(cpus=0.5)
    echo = wl.Command(["echo"])
    group = wl.JobGroup(
        learner=wl.Job(echo, args={"lr": 1}, executor=half),
        actor=wl.Job(echo, args={"eps": 1}, executor=half),
    )
    print(group.submit().wait().id)
    """

NOTED = """
    import windlass as wl

    experiment = wl.create_experiment("noted", labels=["paper"], description="How it matters.")
    experiment.set_config({"dataset": "v3", "layers": [64, 32]}).set_notes("First.\\n\\nSecond.\\n")
    experiment.add_link("paper", "https://arxiv.org/abs/1412.6980").add_artifact("me.py", __file__)
    trial = experiment.add(wl.Job(wl.Command(["true"])), labels=["baseline", "a, b"])
    trial.wait()
    print(trial.id)
    """


def argv(shell: Shell, trial_id: int | str) -> tuple[str, ...]:
    executable = shell.trial(trial_id).spec.roles[0].executable
    assert isinstance(executable, ProcessCall)
    return executable.argv[2:]


def python(shell: Shell, name: str, text: str) -> str:
    """Return the output of a program."""
    import sys

    shell.write(name, text)
    done = shell.start(sys.executable, name)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rerun_works_like_run(shell: Shell) -> None:
    shell.write("tell.py", SCRIPT)
    trial_id = shell.submit("--env", "MOOD=fine", "tell.py", "--lr", "0.1")
    shell.write("tell.py", "print('another program')")
    done = shell("rerun", str(trial_id))
    assert (done.returncode, done.stdout) == (0, "['--lr', '0.1'] fine\n"), done.stderr
    assert done.stderr == ""
    assert shell.newest().recipe.origin_id == trial_id
    done = shell("rerun", str(trial_id), "--env", "MOOD=grim", "--", "--fail")
    assert done.returncode == 3
    assert done.stdout == "['--fail'] grim\n"
    assert "failed: exit code 3" in done.stderr


def test_words_after_a_command_are_its_arguments(shell: Shell) -> None:
    trial_id = str(shell.submit("--", "echo", "--lr", "0.1", "data"))
    assert shell.good("rerun", trial_id, "--", "--lr", "0.2") == "--lr 0.2\n"
    assert shell.good("rerun", trial_id, "--") == "\n"
    assert shell.good("rerun", trial_id, "--arg", "seed=1") == "--lr 0.1 data --seed=1\n"
    done = shell("rerun", trial_id, "--arg", "lr=0.2")
    assert done.returncode == 1
    assert f"windlass rerun {trial_id} -- --lr=0.2 data" in done.stderr


def test_a_detached_rerun_prints_the_id_of_its_trial(shell: Shell) -> None:
    trial_id = shell.submit("--", "echo", "x")
    output = shell.good("rerun", str(trial_id), "--detach", "--name", "again", "--label", "a")
    newest = shell.newest()
    assert f"Trial {newest.id} (again) is submitted." in output
    assert newest.labels == ("a",)
    record = json.loads(shell.good("rerun", str(trial_id), "-d", "--json", "--cpus", "0.5"))
    assert record["recipe"]["origin_id"] == trial_id
    assert record["spec"]["roles"][0]["resources"]["cpus"] == 0.5


def test_arguments_are_changed_by_name(shell: Shell) -> None:
    shell.write("tell.py", SCRIPT)
    shell.write("named.toml", JOB)
    trial_id = str(json.loads(shell.good("run", "-f", "named.toml", "-d", "--json"))["id"])
    shell.good(
        "rerun", trial_id, "--arg", "lr=0.2", "--arg", "amp=null", "--arg", "model.depth=4",
        "--arg", "tag=[1, 2]", "--arg", "name=a b",
    )  # fmt: skip
    expected = ("--lr=0.2", "--model.depth=4", "--tag=1", "--tag=2", "--name=a b")
    assert argv(shell, shell.newest().id) == expected


def test_arguments_of_a_function_are_changed_by_name(shell: Shell) -> None:
    trial_id = python(shell, "function.py", FUNCTION)
    assert shell.good("rerun", trial_id, "--arg", "lr=0.5", "--arg", "layers=[1]") == (
        "trains with 0.5\n"
    )
    assert shell.good("result", str(shell.newest().id)) == "[0.5, [1]]\n"
    done = shell("rerun", trial_id, "--arg", "lrr=1")
    assert done.returncode == 1
    assert "there is no argument 'lrr'; did you mean 'lr'?" in done.stderr


def test_arguments_of_several_roles_are_prefixed_with_the_role(shell: Shell) -> None:
    trial_id = python(shell, "roles.py", ROLES)
    output = shell.good("rerun", trial_id, "--arg", "learner.lr=2", "--env", "actor.MOOD=x")
    assert "--lr=2" in output and "--eps=1" in output
    learner, actor = shell.newest().spec.roles
    assert (learner.env, actor.env) == ({}, {"MOOD": "x"})
    done = shell("rerun", trial_id, "--arg", "lr=2")
    assert done.returncode == 2
    assert "does not name a role (learner, actor)" in done.stderr
    assert "--arg learner.lr=2" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lr=0.1"], "To change an argument, use --arg NAME=VALUE"),
        (["--arg", "lr"], "'lr' is not NAME=VALUE"),
        (["--arg", "a=1", "--arg", "a=2"], "a is set twice"),
        (["--arg", "a=1", "--", "x"], "Use one"),
        (["--json"], "--json needs --detach"),
    ],
)
def test_an_invalid_command_line_is_reported(words: list[str], message: str, shell: Shell) -> None:
    trial_id = shell.submit("--", "echo", "x")
    done = shell("rerun", str(trial_id), *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_advice_names_command_line_options(shell: Shell) -> None:
    trial_id = str(shell.submit("--", "echo", "x"))
    done = shell("rerun", trial_id, "--environment", "recoded")
    assert done.returncode == 1
    assert "Did you mean 'recorded'?" in done.stderr
    assert "--environment recorded" in done.stderr
    missing = shell("rerun", "999999")
    assert missing.returncode == 1 and "There is no trial 999999" in missing.stderr
    assert "recorded" in shell.complete(f"windlass rerun {trial_id} --environment ")


def test_show_draws_the_lineage(shell: Shell) -> None:
    first = int(python(shell, "function.py", FUNCTION))
    shell.good("rerun", str(first), "--arg", "lr=0.2", "--cpus", "0.5")
    second = shell.newest().id
    shell.good("rerun", str(second), "--arg", "layers=[8]")
    third = shell.newest().id
    shell.good("rerun", str(first))
    fourth = shell.newest().id
    tree = [
        "Lineage",
        f"  {first}  train  SUCCEEDED",
        f"  ├─ {second}  train  SUCCEEDED  lr 0.1 → 0.2, cpus 1.0 → 0.5",
        f"  │  └─ {third}  train  SUCCEEDED  layers [64, 32] → [8]",
        f"  └─ {fourth}  train  SUCCEEDED  the same again",
    ]
    for trial_id in (first, third):
        shown = shell.good("show", str(trial_id))
        marked = [
            line + ("  ← this one" if re.search(rf" {trial_id}  train", line) else "")
            for line in tree
        ]
        assert "\n".join(marked) + "\n\n" in shown
    with shell.terminal("show", str(third), columns=100).closing() as terminal:
        assert terminal.end() == 0
    assert any(line.endswith("← this one") for line in terminal.lines)
    assert "\x1b[1m← this one" in terminal.raw
    plain = shell.good("show", str(third), PYTHONIOENCODING="ascii")
    assert f"  |  `- {third}  train  SUCCEEDED  layers [64, 32] -> [8]  <- this one" in plain


def test_a_trial_without_reruns_has_no_lineage(shell: Shell) -> None:
    trial_id = shell.submit("--", "true")
    assert "Lineage" not in shell.good("show", str(trial_id))


def test_labels_are_shown_and_filtered(own_shell: Shell) -> None:
    shell = own_shell
    plain = shell.submit("--", "true")
    assert "LABELS" not in shell.good("ls")
    labelled = python(shell, "noted.py", NOTED)
    assert "labels       baseline, a, b" in shell.good("show", labelled)
    head, *rows = shell.good("ls").splitlines()
    assert head.endswith("LABELS")
    assert rows[0].endswith("baseline, a, b")
    assert [t["id"] for t in shell.json("ls", "-l", "baseline", "-l", "a, b")] == [int(labelled)]
    assert shell.json("ls", "--label", "other") == []
    assert "No trial matches" in shell("ls", "--label", "other").stderr
    head, *rows = shell.good("ls", "--experiments").splitlines()
    assert head.endswith("LABELS")
    assert [row.endswith("paper") for row in rows] == [True, False]
    assert [e["name"] for e in shell.json("ls", "--experiments", "--label", "paper")] == ["noted"]
    assert shell.trial(plain).labels == ()


def test_notes_of_an_experiment_are_shown(shell: Shell) -> None:
    python(shell, "noted.py", NOTED)
    shown = shell.good("show", "-e", "noted")
    head, warning, *rest = shown.splitlines()
    assert re.fullmatch(r"Experiment \d+  noted  1 succeeded", head)
    assert warning == "  How it matters."
    text = "\n".join(rest)
    for part in (
        "  labels       paper",
        "  trials       1\n",
        'Configuration\n  dataset      "v3"\n  layers       [64, 32]',
        "Links\n  paper        https://arxiv.org/abs/1412.6980",
        "Artifacts\n  me.py        ",
        "Notes\n  First.\n\n  Second.\n",
    ):
        assert part in text, text
    record = shell.json("show", "-e", "noted")
    assert (record["name"], record["labels"]) == ("noted", ["paper"])
    assert shell("show").returncode == 2
    assert shell("show", "1", "-e", "noted").returncode == 2
    assert "There is no experiment 'notde'" in shell("show", "-e", "notde").stderr


def test_a_rerun_in_a_terminal_shows_its_progress(shell: Shell) -> None:
    trial_id = shell.submit("--", "echo", "hello")
    with shell.terminal("rerun", str(trial_id)).closing() as terminal:
        assert terminal.end() == 0
    assert "hello" in terminal.lines
    assert any("succeeded in" in line for line in terminal.lines)
