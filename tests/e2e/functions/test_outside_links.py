"""Links that lead out of the project are links in the trial, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import windlass as wl
from harness import Project, windlass

pytestmark = pytest.mark.finding("U21")
SHARES_HOME = True


def test_a_trial_reads_files_behind_a_link_that_leads_out_of_the_project(
    home: Path, project: Project, tmp_path: Path
) -> None:
    data = tmp_path / "datasets"
    data.mkdir()
    (data / "a.txt").write_text("behind the link")
    (project.path / "data").symlink_to(data)
    project.write("train.py", "import sys; print(open('data/a.txt').read(), *sys.argv[1:])\n")
    project.write(
        "main.py",
        """
        import windlass as wl

        print(wl.Job(wl.PythonScript("train.py")).submit().wait().id)
        """,
    )
    runs = [project.python("main.py"), project.python("main.py")]
    first, second = (wl.get_trial(int(run.stdout.split()[-1])) for run in runs)
    assert f"data -> {data}" in runs[0].stderr
    assert runs[1].stderr == ""  # the note comes once
    assert windlass("logs", second.id).stdout == "behind the link\n"
    work = home / "trials" / str(first.id) / "main-0" / "work"
    assert not os.path.lexists(work / "data")
    assert (data / "a.txt").read_text() == "behind the link"

    assert (
        f"data → {data} (the files behind it are not recorded)" in windlass("show", first.id).stdout
    )
    text = windlass("diff", first.id, second.id).stdout
    assert "Nothing differs in what was recorded" in text or "Same code" in text
    assert f"The files behind the link data → {data} are not recorded." in text
    code = first.download_code(tmp_path / "code")
    assert os.readlink(code / "data") == str(data)


def test_a_trial_names_links_without_a_target(home: Path, project: Project, tmp_path: Path) -> None:
    data = tmp_path / "datasets"
    data.mkdir()
    (project.path / "data").symlink_to(data)
    project.write("train.py", "import os; print(os.path.lexists('data'), os.path.exists('data'))\n")
    submit = "import windlass as wl; print(wl.Job(wl.PythonScript('train.py')).submit().wait().id)"
    first = wl.get_trial(int(project.python("-c", submit).stdout.split()[-1]))
    data.rmdir()
    again = first.rerun().wait()
    logs = windlass("logs", again.id)
    assert logs.stdout == "True False\n"
    assert f"windlass: data is a link to {data}, which does not exist here" in logs.stderr


def test_a_working_directory_behind_a_link_is_refused(
    home: Path, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "datasets").mkdir()
    (project.path / "data").symlink_to(tmp_path / "datasets")
    project.write("train.py", "print(1)\n")
    submit = "import windlass as wl; print(wl.Job(wl.PythonScript('train.py')).submit().wait().id)"
    record = wl.get_trial(int(project.python("-c", submit).stdout.split()[-1])).record
    from msgspec.structs import replace

    from windlass.authoring.rerun.rerun import Changes, prepare_rerun
    from windlass.client.client import default_client

    client = default_client()
    request = prepare_rerun(client, record, Changes()).draft.request
    spec = replace(request.spec, code=replace(request.spec.code, workdir="data/deeper"))
    created = client.transport.ask(
        "POST", "/trials", type(record), body=replace(request, spec=spec)
    )
    trial = wl.get_trial(created.id).wait()
    assert trial.state == "FAILED"
    assert "behind a link that leaves the code" in trial.message
    assert list((tmp_path / "datasets").iterdir()) == []
