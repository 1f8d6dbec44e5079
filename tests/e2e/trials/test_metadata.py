"""Metadata of experiments and trials: editable at any time and by several clients at once."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from steps import double

import windlass as wl
from harness import PATIENCE, Project
from server_requests import API, Server
from windlass.client.client import default_client
from windlass.client.resources.metadata import Described, Labelled
from windlass.model.records import ExperimentRecord
from windlass.model.requests import CreateExperiment

SHARES_HOME = True


def make(name: str = "noted", **fields: Any) -> wl.Experiment:
    """A new experiment, whose name may be taken."""
    transport = default_client().transport
    request = CreateExperiment(key=uuid.uuid4().hex, name=name, **fields)
    return wl.Experiment(
        transport, transport.ask("POST", "/experiments", ExperimentRecord, body=request)
    )


def again(experiment: wl.Experiment) -> wl.Experiment:
    """The same experiment, loaded again."""
    return wl.get_experiment(experiment.id)


def test_metadata_of_an_experiment_is_stored(home: Path) -> None:
    experiment = make()
    assert (experiment.labels, experiment.notes, experiment.description) == ((), "", "")
    assert (experiment.config, experiment.links, experiment.artifacts) == ({}, (), ())
    experiment.set_description("How much it matters.").set_notes("0.3 diverges.\n")
    experiment.set_config({"dataset": "v3", "layers": (64, 32), "model": {"depth": 3}})
    experiment.set_labels(["paper", "sweep"])
    experiment.add_link("paper", "https://arxiv.org/abs/1412.6980")
    for copy in (experiment, again(experiment)):
        assert copy.description == "How much it matters."
        assert copy.notes == "0.3 diverges.\n"
        assert copy.config == {"dataset": "v3", "layers": [64, 32], "model": {"depth": 3}}
        assert copy.labels == ("paper", "sweep")
        assert [(link.name, link.url) for link in copy.links] == [
            ("paper", "https://arxiv.org/abs/1412.6980")
        ]


def test_labels_are_added_and_removed_one_by_one(home: Path) -> None:
    experiment = make(labels=("first",))
    experiment.add_label("second", "third").add_label("second")
    assert again(experiment).labels == ("first", "second", "third")
    experiment.remove_label("first", "never there")
    assert again(experiment).labels == ("second", "third")
    experiment.set_labels([])
    assert again(experiment).labels == ()


def test_links_are_replaced_by_name_and_removed(home: Path) -> None:
    experiment = make().add_link("board", "http://localhost:6006/#scalars")
    experiment.add_link("paper", "s3://bucket/paper.pdf").add_link("board", "http://other:6006")
    assert [(link.name, link.url) for link in again(experiment).links] == [
        ("board", "http://other:6006"),
        ("paper", "s3://bucket/paper.pdf"),
    ]
    experiment.remove_link("board")
    assert [link.name for link in again(experiment).links] == ["paper"]
    with pytest.raises(wl.NotFound, match=r"no link 'papr'\.\n  Did you mean 'paper'\?"):
        experiment.remove_link("papr")


def test_an_attached_file_is_stored_and_returned_unchanged(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    content = os.urandom(3 << 20)
    file.write_bytes(content)
    experiment = make().add_artifact("model.pt", file)
    file.write_bytes(b"other")
    [artifact] = again(experiment).artifacts
    assert (artifact.name, artifact.size) == ("model.pt", len(content))
    downloaded = again(experiment).download_artifact("model.pt", tmp_path / "new" / "folder")
    assert downloaded == tmp_path / "new" / "folder" / "model.pt"
    assert downloaded.read_bytes() == content
    assert downloaded.stat().st_mode & 0o777 == file.stat().st_mode & 0o777
    assert os.listdir(downloaded.parent) == ["model.pt"]
    again(experiment).add_artifact("model.pt", file).add_artifact("same.pt", str(file))
    assert experiment.download_artifact("model.pt", tmp_path / "new").read_bytes() == b"other"
    experiment.remove_artifact("model.pt")
    assert [artifact.name for artifact in again(experiment).artifacts] == ["same.pt"]
    with pytest.raises(wl.NotFound, match=r"There is no artifact 'model\.pt'"):
        experiment.download_artifact("model.pt", tmp_path)


def test_an_empty_file_can_be_attached(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    experiment = make().add_artifact("empty", tmp_path / "empty")
    assert experiment.download_artifact("empty", tmp_path / "there").read_bytes() == b""


def refusals(tmp_path: Path) -> dict[str, tuple[Callable[[wl.Experiment], Any], str]]:
    """Return invalid metadata and the errors that it raises."""
    return {
        "label no text": (lambda e: e.add_label(3), "labels: 3 is not a valid label"),
        "label text": (
            lambda e: e.set_labels("paper"),
            r"labels: write a list: labels=\['paper'\]",
        ),
        "label empty": (lambda e: e.add_label(" "), "labels: ' ' is not a valid label"),
        "label long": (lambda e: e.add_label("x" * 201), "at most 200 characters"),
        "labels many": (
            lambda e: e.set_labels([str(n) for n in range(101)]),
            "at most 100 are allowed",
        ),
        "notes": (lambda e: e.set_notes(3), "notes: 3 is not a string"),
        "notes long": (lambda e: e.set_notes("x" * 100_001), "100001 characters are too many"),
        "url": (lambda e: e.add_link("p", "arxiv.org/abs/1"), "'https://arxiv.org/abs/1'"),
        "url host": (lambda e: e.add_link("p", "localhost:6006"), "'localhost:6006' is not a URL"),
        "url path": (lambda e: e.add_link("p", "/tmp/x"), "add_artifact"),
        "url script": (lambda e: e.add_link("p", "javascript://x"), "is a script"),
        "link name": (lambda e: e.add_link("a\nb", "http://x"), "is not a valid link"),
        "config": (lambda e: e.set_config([1]), r"config: \[1\] is not a mapping"),
        "config nan": (
            lambda e: e.set_config({"a": {"b": [0, float("nan")]}}),
            r"config: a.b\[1\] is nan, which cannot be recorded",
        ),
        "config kind": (
            lambda e: e.set_config({"model": {"act": len}}),
            r"config: model.act is <built-in function len>, which cannot be recorded",
        ),
        "config key": (
            lambda e: e.set_config({"a": {1: 2}}),
            "a has the key 1, which is not a string",
        ),
        "config big": (lambda e: e.set_config({"a": 2**64}), "a is 18446744073709551616"),
        "config long": (lambda e: e.set_config({"a": ["x" * 1000] * 2000}), "too large"),
        "no file": (lambda e: e.add_artifact("x", tmp_path / "x"), "No such file"),
        "folder": (lambda e: e.add_artifact("x", tmp_path), "is a folder; an artifact is one file"),
        "pipe": (lambda e: e.add_artifact("x", "/dev/null"), "'/dev/null' is not a file"),
        "slash": (lambda e: e.add_artifact("a/b", __file__), "Write the name without folders: 'b'"),
        "dots": (lambda e: e.add_artifact("..", __file__), "'..' is not a valid file name"),
    }


@pytest.mark.parametrize("which", sorted(refusals(Path())))
def test_invalid_metadata_is_refused_with_the_reason(
    which: str, home: Path, tmp_path: Path
) -> None:
    experiment = make()
    attempt, message = refusals(tmp_path)[which]
    with pytest.raises(wl.InvalidArgument, match=message):
        attempt(experiment)
    assert again(experiment).record == experiment.record


@pytest.mark.parametrize(
    "body",
    [
        '{"put_links": {"p": "no url"}}',
        '{"put_links": {"p": "javascript://%0aalert(1)"}}',
        '{"put_links": {"": "http://x"}}',
        '{"put_artifacts": {"../x": "' + "0" * 64 + '"}}',
        '{"put_artifacts": {"x": "../../token"}}',
        '{"add_labels": ["a\\u0000b"]}',
        '{"notes": "' + "x" * 100_001 + '"}',
        '{"config": [1]}',
    ],
)
def test_the_server_itself_refuses_malformed_metadata(body: str, home: Path) -> None:
    experiment = make()
    path = f"{API}/experiments/{experiment.id}"
    status, fault = Server(home).ask("PATCH", path, body.encode(), Content_Type="application/json")
    assert (status, fault["code"]) == (400, "invalid_argument")
    assert again(experiment).record == experiment.record


def test_the_amount_of_metadata_is_limited(home: Path) -> None:
    experiment = make().set_labels([str(number) for number in range(100)])
    with pytest.raises(wl.InvalidArgument, match=r"This would make 101 labels\. The limit is 100"):
        experiment.add_label("one more")
    assert len(again(experiment).labels) == 100


def test_metadata_of_an_unknown_experiment_is_refused(home: Path) -> None:
    experiment = make()
    status, fault = Server(home).ask(
        "PATCH", f"{API}/experiments/{2**70}", b'{"notes": "x"}', Content_Type="application/json"
    )
    assert (status, fault["code"]) == (404, "not_found")
    assert again(experiment).notes == ""


NOTING = """
    import sys
    import windlass as wl

    experiment, trial = wl.get_experiment(int(sys.argv[1])), wl.get_trial(int(sys.argv[2]))
    me = sys.argv[3]
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        experiment.add_label(f"{me}-{number}")
        experiment.add_link(f"{me}-{number}", f"http://{me}/{number}")
        trial.add_label(f"{me}-{number}")
        if number % 2:
            experiment.remove_label(f"{me}-{number}")
            trial.remove_label(f"{me}-{number}")
    """


@pytest.mark.thorough
def test_concurrent_writers_of_metadata_lose_nothing(home: Path, project: Project) -> None:
    experiment, trial = make(), wl.get_trial(double.submit(1).id)
    script = project.write("noting.py", NOTING)
    writers = [
        subprocess.Popen(
            [sys.executable, str(script), str(experiment.id), str(trial.id), name],
            cwd=project.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("ada", "bob")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:  # as concurrently as possible
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(timeout=PATIENCE) for writer in writers] == [0, 0]
    left = {f"{name}-{number}" for name in ("ada", "bob") for number in range(0, 20, 2)}
    assert set(again(experiment).labels) == left
    assert len(again(experiment).links) == 40
    assert set(trial.refresh().labels) == left


def test_metadata_survives_a_killed_server(home: Path, tmp_path: Path) -> None:
    from harness import kill_server

    (tmp_path / "x").write_text("kept")
    experiment = make().add_label("kept").add_artifact("x", tmp_path / "x")
    kill_server(home)
    assert again(experiment).labels == ("kept",)
    assert experiment.download_artifact("x", tmp_path / "there").read_text() == "kept"


def test_labels_of_a_trial_change_while_it_runs_and_after(home: Path) -> None:
    trial = double.submit(2)
    trial.add_label("early")
    assert trial.result() == 4
    assert trial.labels == ("early",)
    trial.add_label("late").remove_label("early")
    assert wl.get_trial(trial.id).labels == ("late",)
    assert (trial.state, wl.get_trial(trial.id).result()) == ("SUCCEEDED", 4)
    assert trial.set_labels(["a", "b"]).labels == ("a", "b")
    with pytest.raises(wl.InvalidArgument, match="is not a valid label"):
        trial.add_label("")


def test_trials_and_experiments_are_found_by_their_labels(home: Path) -> None:
    odd = f'a, "b" {uuid.uuid4().hex}'
    one, both = double.submit(1).add_label(odd), double.submit(2).set_labels([odd, "more"])
    assert [trial.id for trial in wl.list_trials(labels=odd)] == [one.id, both.id]
    assert [trial.id for trial in wl.list_trials(labels=[odd, "more"])] == [both.id]
    assert [trial.id for trial in wl.list_trials(labels=[odd, "none has it"])] == []
    experiment = make(labels=(odd,))
    make(labels=("more",))
    assert [experiment.id for experiment in wl.list_experiments(labels=[odd])] == [experiment.id]
    in_it = wl.get_experiment(one.record.experiment_id)
    assert [trial.id for trial in in_it.list_trials(labels=[odd, "more"])] == [both.id]
    status, page = Server(home).ask("GET", f"{API}/experiments?labels=more&limit=500")
    assert status == 200 and experiment.id not in [item["id"] for item in page["items"]]
    status, fault = Server(home).ask("GET", f"{API}/trials?labels=[1]")
    assert (status, fault["code"]) == (400, "invalid_argument")


def examples() -> list[Any]:
    """Return the examples in the docstrings of the metadata methods."""
    of_experiments = (
        "set_priority", "archive", "move_to", "set_config", "add_link", "remove_link",
        "add_artifact", "download_artifact", "remove_artifact",
    )  # fmt: skip
    members = [
        *vars(Labelled).items(),
        *vars(Described).items(),
        *((name, getattr(wl.Experiment, name)) for name in of_experiments),
    ]
    return [
        pytest.param(block, id=name)
        for name, member in members
        for block in re.findall(r"```python\n(.*?)```", inspect.getdoc(member) or "", re.DOTALL)
    ]


def test_the_docstring_examples_of_metadata_run(home: Path, project: Project) -> None:
    blocks = [inspect.cleandoc(example.values[0]) for example in examples()]
    assert len(blocks) == 16
    head = "import windlass as wl\n\n@wl.run\ndef train(lr):\n    return 1 - lr\n\n"
    head += "list(train.map([0.1, 0.2, 0.3]))\n"
    project.write("examples.py", head + "\n".join(blocks))
    done = project.python("examples.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "labels",
        "description",
        "notes",
        "config",
        "links",
        "artifacts",
        "priority",
        "project",
        "archived",
    ],
)
def test_an_assignment_to_an_attribute_is_refused_with_the_method_to_use(
    home: Path, name: str
) -> None:
    experiment = wl.create_experiment("assigned")
    with pytest.raises(AttributeError, match=r"Write: exp\.(set_|add_|move_to|archive)"):
        setattr(experiment, name, "x")
