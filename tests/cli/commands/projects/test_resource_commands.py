"""`windlass workspace`, `project`, `model`, `template` and `edit`."""

from __future__ import annotations

import uuid

import pytest

from cli.shells import Shell


def unique(what: str) -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def test_workspaces_and_projects_are_created_changed_listed_and_deleted(shell: Shell) -> None:
    lab, hall = unique("lab"), unique("hall")
    assert f"Workspace {lab} is created." in shell.good("workspace", "create", lab)
    assert f"Project {lab}/vision is created." in shell.good("project", "create", f"{lab}/vision")
    assert shell.good("project", "rename", f"{lab}/vision", "sight").endswith(f"{lab}/sight now.\n")
    shell.good("workspace", "rename", lab, hall)
    [project] = shell.json("project", "ls", hall)
    assert (project["name"], project["workspace"], project["experiments"]) == ("sight", hall, 0)
    assert f"{hall}/sight" in shell.good("project", "ls")
    done = shell("workspace", "rm", hall, "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "contains 1 project, so it cannot be deleted" in done.stderr
    shell.good("project", "archive", f"{hall}/sight")
    assert f"{hall}/sight" not in shell.good("project", "ls")
    assert f"{hall}/sight" in shell.good("project", "ls", "--archived")
    shell.good("project", "unarchive", f"{hall}/sight")
    moved = unique("sight")
    shell.good("project", "rename", f"{hall}/sight", moved)
    assert shell.good("project", "move", f"{hall}/{moved}", "default").endswith(f" {moved} now.\n")
    assert shell.good("project", "rm", moved, "-y") == f"Project {moved} is deleted.\n"
    assert shell.good("workspace", "rm", hall, "-y") == f"Workspace {hall} is deleted.\n"
    assert hall not in shell.good("workspace", "ls")


def test_an_experiment_is_moved_archived_and_annotated(shell: Shell) -> None:
    name, place = unique("noted"), unique("vision")
    trial_id = shell.submit("--experiment", name, "--", "true")
    shell.good("logs", str(trial_id), "-f")
    output = shell.good(
        "edit", "-e", name, "--project", place, "--description", "About.", "--label", "paper",
        "--notes", "Line one\nLine two", "--priority", "4",
    )  # fmt: skip
    assert output.endswith(f"({name}) is in the project {place}.\n")
    page = shell.good("show", "--experiment", name)
    for text in (place, "About.", "paper", "Notes\n  Line one\n  Line two", "priority     4"):
        assert text in page
    assert [trial["id"] for trial in shell.json("ls", "-p", place)] == [trial_id]
    shell.good("edit", str(trial_id), "--name", "first", "--notes", "Mine.", "-l", "kept")
    shown = shell.good("show", str(trial_id))
    for text in ("first", "Notes\n  Mine.", "kept", f"{name} (project {place})"):
        assert text in shown
    assert "is archived" in shell.good("edit", "-e", name, "--archive")
    assert shell.json("ls", "-p", place) == []
    assert [trial["id"] for trial in shell.json("ls", "-e", name)] == [trial_id], "it is asked for"
    assert [trial["id"] for trial in shell.json("ls", "-p", place, "--archived")] == [trial_id]
    assert [
        experiment["name"]
        for experiment in shell.json("ls", "--experiments", "--archived", "-p", place)
    ]
    shell.good("edit", "-e", name, "--unarchive", "--remove-label", "paper")
    [experiment] = shell.json("ls", "--experiments", "-p", place)
    assert (experiment["labels"], experiment["archived"]) == ([], False)


def test_the_number_of_matches_is_shown_before_they_are_deleted(shell: Shell) -> None:
    name = unique("several")
    ids = [shell.submit("--experiment", name, "--name", "it", "--", "true") for _ in range(2)]
    for trial_id in ids:
        shell.good("logs", str(trial_id), "-f")
    words = ("rm", "-e", name, "--where", "state = 'SUCCEEDED'")
    with shell.terminal(*words, columns=200).closing() as terminal:
        terminal.until(f"Delete 2 trials: trial {ids[0]} (it), trial {ids[1]} (it)? [y/N]:")
        assert terminal.type("y\n").end() == 0
    assert f"Trial {ids[1]} (it) is deleted." in terminal.text
    assert shell.json("ls", "-e", name) == []


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
@pytest.mark.parametrize("what", ["trial", "workspace"])
def test_interrupting_the_confirmation_deletes_nothing(shell: Shell, what: str, key: str) -> None:
    if what == "trial":
        thing = str(shell.submit("--", "true"))
        shell.good("logs", thing, "-f")
        words, ask = ["rm", thing], ["show", thing]
    else:
        thing = unique("lab")
        shell.good("workspace", "create", thing)
        words, ask = ["workspace", "rm", thing], ["project", "ls", thing]
    with shell.terminal(*words).closing() as terminal:
        terminal.until("[y/N]:").wait_until_it_reads().type(key)
        assert terminal.end() == 130
    assert terminal.text.endswith("\r\nNothing is deleted.\r\n")
    assert "Traceback" not in terminal.text
    shell.good(*ask)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["edit", "1"], "Name a change"),
        (["edit", "--name", "x"], "Name the trials by their ids"),
        (["edit", "1", "-e", "x", "--name", "x"], "Name the trials by their ids"),
        (["edit", "1", "--archive"], "--archive applies to experiments"),
        (["edit", "1", "--project", "x"], "--project applies to experiments"),
        (["model", "alias", "net", "best"], "Name a version, or add --remove"),
        (["template", "create", "x", "cpus"], "'cpus' is not FIELD=VALUE"),
        (["template", "rm"], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_command_line_is_refused(shell: Shell, args: list[str], why: str) -> None:
    done = shell(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_nothing_is_deleted_without_a_terminal_for_the_confirmation(shell: Shell) -> None:
    name = unique("kept")
    shell.good("workspace", "create", name)
    done = shell("workspace", "rm", name)
    assert done.returncode == 2 and "Add --yes." in done.stderr
    assert name in shell.good("workspace", "ls")


def test_a_template_is_created_used_changed_and_deleted(shell: Shell) -> None:
    name = unique("small")
    shell.good("template", "create", name, "cpus=0.5", "timeout=4h", "env.SEED=7", 'labels=["a"]')
    [record] = [template for template in shell.json("template", "ls") if template["name"] == name]
    assert record["fields"] == {
        "cpus": 0.5, "timeout": "4h", "env": {"SEED": "7"}, "labels": ["a"],
    }  # fmt: skip
    trial_id = shell.submit("--template", name, "--env", "MORE=1", "--", "env")
    shown = shell.good("show", str(trial_id))
    for text in (f"template     {name}", "0.5 CPUs", "deadline     4h", "SEED=7", "MORE=1"):
        assert text in shown
    assert f"template     {name}" in shell.good("run", "--dry-run", "--template", name, "--", "env")
    shell.write("job.toml", f'command = ["env"]\ntemplate = "{name}"\nbackoff_limit = 1\n')
    by_file = int(shell.json("run", "-f", "job.toml", "--detach")["id"])
    assert f"template     {name}" in shell.good("show", str(by_file))
    output = shell.good("template", "set", name, "env.SEED=", "priority=3", "labels=")
    assert output == f"Template {name} is: cpus=0.5 timeout=4h priority=3\n"
    assert "priority     3" in shell.good("template", "show", name)
    done = shell("template", "set", name, "cpu=1")
    assert done.returncode == 1 and "There is no option 'cpu'; did you mean 'cpus'?" in done.stderr
    done = shell("run", "--template", name[:-1], "--", "env")
    assert done.returncode == 1 and f"Did you mean '{name}'?" in done.stderr
    assert shell.complete(f"windlass run --template {name[:-2]}") == [name]
    shell.good("template", "rm", name, "--yes")
    assert name not in shell.good("template", "ls")


SAVE = """
import windlass as wl
from pathlib import Path

Path("model.txt").write_text("weights")
wl.save_checkpoint("model.txt", step=3)
"""


@pytest.mark.parametrize(
    ("noun", "look"),
    [("workspace", "ls"), ("project", "ls"), ("model", "show twice"), ("template", "show twice")],
)
def test_a_taken_name_is_reported_with_a_command(shell: Shell, noun: str, look: str) -> None:
    shell.good(noun, "create", "twice")
    done = shell(noun, "create", "twice")
    assert done.returncode == 1
    assert f"To see the existing one, run: windlass {noun} {look}\n" in done.stderr


def test_an_invalid_field_of_a_template_is_reported_by_name(shell: Shell) -> None:
    assert "Error: cpus: " in shell("template", "create", "odd", "cpus=lots").stderr


def test_checkpoints_and_templates_are_completed(shell: Shell) -> None:
    shell.write("save.py", SAVE)
    trial_id = shell.submit("save.py")
    shell.good("logs", str(trial_id), "-f")
    [checkpoint] = shell.client.get_trial(trial_id).list_checkpoints()
    number, name = str(checkpoint.id), unique("small")
    for begun in (
        "checkpoint show ",
        "checkpoint download ",
        "checkpoint rm 0 ",
        "model register x ",
    ):
        assert number in shell.complete(f"windlass {begun}")
    assert shell.complete(f"windlass continue {trial_id} --checkpoint ") == [number]
    shell.good("template", "create", name, "cpus=0.5")
    for begun in ("run --template ", "template show ", "template rm "):
        assert name in shell.complete(f"windlass {begun}small")


def test_a_model_and_its_versions_are_annotated(shell: Shell) -> None:
    name, new = unique("noted"), unique("renamed")
    shell.write("save.py", SAVE)
    trial_id = shell.submit("save.py")
    shell.good("logs", str(trial_id), "-f")
    [checkpoint] = shell.client.get_trial(trial_id).list_checkpoints()
    shell.good("model", "create", name, "-m", "team=vision")
    noted = ["--notes", "The first.", "--metadata", "accuracy=0.9", "-m", "sizes=[3, 4]"]
    version = shell.json("model", "register", name, str(checkpoint.id), *noted)
    assert (version["notes"], version["metadata"]) == (
        "The first.",
        {"accuracy": 0.9, "sizes": [3, 4]},
    )
    again = shell("model", "register", name, str(checkpoint.id), "--notes", "Other.")
    assert "which stays unchanged" in again.stderr
    assert f"windlass model edit {name}@1" in again.stderr
    shell.good(
        "model", "edit", f"{name}@1", "--name", "one", "--notes", "Other.", "-l", "kept",
        "-m", "accuracy=0.95", "--remove-metadata", "sizes",
    )  # fmt: skip
    version = shell.json("model", "show", f"{name}@1")
    assert [version[key] for key in ("name", "notes", "labels", "metadata")] == [
        "one", "Other.", ["kept"], {"accuracy": 0.95},
    ]  # fmt: skip
    output = shell.good(
        "model", "edit", name, "--name", new, "--description", "Cats.", "--notes", "Why.",
        "-m", "team=null", "-l", "a", "-l", "b",
    )  # fmt: skip
    assert output == f"Model {new} is changed.\n"
    shell.good("model", "edit", new, "--remove-label", "a")
    model = shell.json("model", "show", new)
    assert [model[key] for key in ("description", "notes", "labels", "metadata")] == [
        "Cats.", "Why.", ["b"], {"team": None},
    ]  # fmt: skip
    for wrong, what in (
        (["edit", new], "Name a change"),
        (["edit", f"{new}@1", "--description", "x"], "A version has no description"),
        (["edit", new, "-m", "accuracy"], "is not NAME=VALUE"),
        (["register", new, str(checkpoint.id), "-m", "=1"], "is not NAME=VALUE"),
    ):
        done = shell("model", *wrong)
        assert done.returncode == 2 and what in done.stderr


def test_a_model_is_registered_named_shown_downloaded_and_deleted(shell: Shell) -> None:
    name = unique("net")
    shell.write("save.py", SAVE)
    trial_id = shell.submit("save.py")
    shell.good("logs", str(trial_id), "-f")
    [checkpoint] = shell.client.get_trial(trial_id).list_checkpoints()
    shell.good("model", "create", name, "--description", "Cats or dogs.", "-l", "vision")
    version = shell.json("model", "register", name, str(checkpoint.id), "--alias", "best")
    assert (version["version"], version["aliases"], version["step"]) == (1, ["best"], 3)
    output = shell.good("model", "register", name, str(checkpoint.id))
    assert output == f"Checkpoint {checkpoint.id} is version 1 of {name}.\n"
    output = shell.good("model", "alias", name, "production", "1")
    assert output == f"production is version 1 of {name}.\n"
    output = shell.good("model", "alias", name, "staging", "production")
    assert output == f"staging is version 1 of {name}.\n"
    shell.good("model", "alias", name, "staging", "--remove")
    assert f"{name} " in shell.good("model", "ls", "-l", "vision")
    page = shell.good("model", "show", name)
    for text in ("Cats or dogs.", "best is 1, production is 1", "CHECKPOINT"):
        assert text in page
    assert f"(trial {trial_id}, step 3)" in shell.good("model", "show", f"{name}@best")
    assert shell.json("model", "show", name)["newest"][0]["checkpoint_id"] == checkpoint.id
    done = shell("model", "download", f"{name}@production", "--to", "fetched")
    assert done.stdout == f"Version 1 of {name} is in fetched/model.txt\n"
    assert done.stderr.endswith("unless .windlassignore has a line: /fetched/\n")
    done = shell("checkpoint", "download", str(checkpoint.id), "--to", "got")
    assert done.stderr.endswith("unless .windlassignore has a line: /got/\n")
    (shell.folder / ".windlassignore").write_text("/got/\n")
    done = shell("checkpoint", "download", str(checkpoint.id), "--to", "got")
    assert done.stderr == f"Checkpoint {checkpoint.id} is in got/model.txt\n"
    (shell.folder / ".windlassignore").unlink()
    shell.good("model", "download", f"{name}@production", "as-before")
    shell.good("model", "download", name)
    for folder in ("fetched", "as-before", f"{name}-1"):
        assert (shell.folder / folder / "model.txt").read_text() == "weights"
    done = shell("model", "download", name, "one", "--to", "other")
    assert done.returncode == 2 and "Name the folder once" in done.stderr
    done = shell("model", "rm", f"{name}@1", "--yes")
    assert done.returncode == 1 and "Version 1 is 'best', 'production'" in done.stderr
    done = shell("model", "show", f"{name}@2")
    assert done.returncode == 1 and "The latest is 1" in done.stderr
    shell.good("model", "alias", name, "best", "--remove")
    shell.good("model", "archive", name)
    assert name not in shell.good("model", "ls")
    shell.good("model", "unarchive", name)
    new, place = unique("network"), unique("vision")
    shell.good("model", "rename", name, new)
    shell.good("model", "move", new, place)
    assert shell.good("project", "ls").count(place) == 1
    assert "with 1 version is deleted" in shell.good("model", "rm", new, "-y")
    checkpoint.delete()
