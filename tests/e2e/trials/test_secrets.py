"""Secrets reach only the process: no log, no record, no file that stays."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from steps import newest

import windlass as wl
from harness import BIN, Project, eventually, traces


def secret() -> str:
    """A unique value."""
    return "s3cret-" + secrets.token_hex(8)


def test_secrets_reach_the_process_and_leave_no_trace(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name, by_value, in_lines = secret(), secret(), f"-----BEGIN\n{secret()}\n-----END"
    monkeypatch.setenv("API_KEY", by_name)
    monkeypatch.setenv("OTHER", by_value)
    monkeypatch.setenv("PEM", in_lines)
    project.write(
        "train.py",
        """
        import os
        import sys
        import windlass as wl


        @wl.run(secrets={"TOKEN": os.environ["OTHER"], "PEM": os.environ["PEM"]}, env={"MOOD": "x"})
        def train(depth, note):
            if depth:
                return train(depth - 1, note)
            print("the token is", os.environ["TOKEN"])
            print("halves:", os.environ["TOKEN"][:9], end="", flush=True)
            print(os.environ["TOKEN"][9:])
            print(os.environ["PEM"])
            print("to stderr", os.environ["TOKEN"], file=sys.stderr)
            return len(os.environ["TOKEN"]), note


        @wl.run(secrets=["API_KEY", "OTHER"])
        def use():
            print("the key is", os.environ["API_KEY"])
            return len(os.environ["API_KEY"])


        print(train(1, "for " + "me"), use())
        """,
    )
    done = project.python("train.py", "--token", by_value)
    assert done.returncode == 0, done.stderr
    length = len(by_value)
    assert done.stdout.endswith(f"({length}, 'for me') {length}\n")
    second, first = wl.list_trials(sort_by="-id", limit=2)
    lines = ["the token is ***", "halves: ***", "***", "to stderr ***"]
    assert sorted(first.logs()) == sorted(lines)
    assert list(second.logs()) == ["the key is ***"]
    assert first.record.spec.secret_names == ("TOKEN", "PEM")
    assert second.record.spec.secret_names == ("API_KEY", "OTHER")

    shown = [done.stdout, done.stderr]
    for trial, *extra in ((first,), (second, "--json")):
        shown.append(msgspec.json.encode(trial.record).decode())
        output = project.run(BIN / "windlass", "show", str(trial.id), *extra)
        assert output.returncode == 0, output.stderr
        shown.append(output.stdout)
    values = (by_name, by_value, in_lines.splitlines()[1])
    assert not [text for text in shown if any(value in text for value in values)]
    assert "API_KEY" in shown[-1], "the name of a secret is not secret"

    eventually(lambda: not os.listdir(home / "private"), "the private files are erased")
    assert traces(home, *values) == []
    assert "windlass.db-wal" in traces(home, "API_KEY"), "the database was looked into"


def test_secrets_are_masked_in_parameters_errors_and_previews_of_values(home: Path) -> None:
    value = secret()

    @wl.run(secrets={"TOKEN": value})
    def login(url: str, fail: bool) -> Any:
        if fail:
            raise PermissionError(f"{os.environ['TOKEN']} was refused by {url}")
        return {"used": os.environ["TOKEN"]}

    before = newest()
    assert login(f"https://me:{value}@host", fail=False) == {"used": value}
    with pytest.raises(PermissionError, match=value):
        login("https://host", fail=True)
    for trial in wl.list_trials():
        if trial.id > before:
            assert value not in msgspec.json.encode(trial.record).decode()
    good, bad = wl.get_trial(before + 1), wl.get_trial(before + 2)
    assert good.params["url"] == "https://me:***@host"
    assert good.record.result is not None
    assert good.record.result.text == "{'used': '***'}"
    assert bad.error is not None
    assert bad.error.message == "*** was refused by https://host"
    assert "***" in bad.error.traceback
    # Values that the function itself returns contain the secret, and nothing else does.
    passed_on = [
        good.record.spec.roles[0].executable.payload,  # type: ignore[union-attr]
        good.record.result.digest,
        bad.error.pickle or "",
    ]
    kept = [f"blobs/{digest[:2]}/{digest}" for digest in passed_on]
    attempts = [f"trials/{good.id}/main-0/1/result.pkl", f"trials/{bad.id}/main-0/1/error.pkl"]
    # The payload contains the argument, and is first a row of the database.
    database = {"windlass.db", "windlass.db-wal"}
    assert set(traces(home, value)) <= {*kept, *attempts, *database}
    assert set(_tables_with(home, value)) <= {"unwritten_blobs"}


def _tables_with(home: Path, value: str) -> Iterator[str]:
    """Yield the tables of the database that contain a text in any column."""
    with closing(sqlite3.connect(home / "windlass.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"')
            cells = [cell for row in rows for cell in row]
            texts = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells]
            if any(value.encode() in text for text in texts):
                yield table


def test_a_secret_is_in_a_private_file_and_erased_at_the_end(home: Path, tmp_path: Path) -> None:
    value = secret()

    @wl.run(secrets={"TOKEN": value})
    def work(path: str) -> bool:
        from steps import wait_for

        wait_for(path)
        return True

    trial = work.submit(str(tmp_path / "go"))
    [file] = traces(home, value)
    path = home / file
    assert path == home / "private" / trial.record.uid
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "go").touch()
    assert trial.result() is True
    eventually(lambda: not path.exists(), "the private file is erased")
    assert traces(home, value) == []


def test_a_stopped_or_failed_trial_leaves_no_secret(home: Path, tmp_path: Path) -> None:
    value = secret()

    @wl.run(secrets={"TOKEN": value}, cpus=0.25)
    def work(path: str) -> None:
        from steps import wait_for

        wait_for(path)
        os.abort()

    stopped = work.submit(str(tmp_path / "never"))
    (tmp_path / "now").touch()
    died = work.submit(str(tmp_path / "now"))
    assert died.wait().state == "FAILED"
    assert stopped.stop(grace=0).wait().state == "STOPPED"
    eventually(lambda: traces(home, value) == [], "everything is erased")


def test_a_secret_that_is_not_set_is_refused_before_anything_is_stored(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    before = newest()
    use = wl.run(secrets=["NO_SUCH_SECRET", "NOR_THIS"])(lambda: None)
    for call in (use, use.submit):
        with pytest.raises(wl.InvalidArgument) as caught:
            call()
        assert "secret 'NO_SUCH_SECRET' is not set in this environment" in str(caught.value)
        assert "secret 'NOR_THIS' is not set" in str(caught.value)
    assert newest() == before


def test_a_secret_in_a_recorded_name_or_variable_is_refused(home: Path) -> None:
    value, before = secret(), newest()
    kept = {"TOKEN": value}
    plain = wl.Job(wl.Command(["true"]), secrets=kept)
    for call, where in (
        (wl.run(secrets=kept, env={"COPY": value})(lambda: None), "env=, which is"),
        (
            wl.run(secrets=kept, name=f"of-{value}")(lambda: None),
            "name= or experiment=",
        ),
        (
            wl.run(secrets=kept, experiment=value)(lambda: None).submit,
            "name= or experiment=",
        ),
        (replace(plain, name=f"of-{value}").submit, "name= or experiment="),
        (replace(plain, experiment=value).run, "name= or experiment="),
    ):
        with pytest.raises(wl.InvalidArgument) as caught:
            call()
        assert f"The value of the secret TOKEN is in {where}" in str(caught.value)
        assert value not in str(caught.value)
    assert newest() == before
    assert traces(home, value) == []
