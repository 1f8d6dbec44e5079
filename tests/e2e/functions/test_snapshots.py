"""The code of a trial: snapshot, uploaded once, restored elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import windlass as wl
from harness import Project, eventually

SHARES_HOME = True

LISTING = """
import os, stat, sys
import windlass as wl

def look(folder):
    found = {}
    for base, folders, files in os.walk(folder):
        for name in files + [each for each in folders if os.path.islink(os.path.join(base, each))]:
            path = os.path.join(base, name)
            here = os.fsencode(os.path.relpath(path, folder))
            if os.path.islink(path):
                found[here] = ("link", os.readlink(path))
            else:
                kind = "program" if os.stat(path).st_mode & stat.S_IXUSR else "file"
                found[here] = (kind, open(path, "rb").read())
    return found

@wl.run
def listing():
    return look(".")
"""

ODD_NAMES = [
    b"a name with spaces",
    b"-dash",
    b"new\nline",
    b"caf\xc3\xa9",
    b"not-utf8-\xff",
    b"'\"$(x)",
]


def write_odd_tree(project: Project) -> None:
    """Write a tree with all kinds of files."""
    project.write("listing.py", LISTING)
    project.write("kept/deep/down.txt", "kept\n")
    (project.path / "empty").touch()
    (project.path / "binary").write_bytes(bytes(range(256)) * 300)
    project.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project.path / "link").symlink_to("kept/deep/down.txt")
    (project.path / "folder-link").symlink_to("kept")
    (project.path / "dangling").symlink_to("nowhere")
    for name in ODD_NAMES:
        Path(os.fsdecode(os.fsencode(project.path) + b"/" + name)).write_bytes(b"odd " + name)
    project.write("ignored.log", "by .gitignore\n")
    project.write("build/out.o", "by .gitignore\n")
    project.write("notes/secret.txt", "by .windlassignore\n")
    project.write("notes/public.txt", "public\n")
    project.write("data/needed.log", "taken back\n")
    project.write(".gitignore", "*.log\nbuild/\n")
    project.write(".windlassignore", "secret.txt\n!data/needed.log\n")


@pytest.mark.parametrize("is_repository", [False, True])
def test_a_trial_gets_the_whole_tree_except_ignored_files(
    project: Project, home: Path, is_repository: bool
) -> None:
    write_odd_tree(project)
    if is_repository:
        subprocess.run(["git", "init", "-q", project.path], check=True)
    project.write(
        "main.py",
        """
        import sys, listing
        there, here = listing.listing(), listing.look(".")
        there = {name: what for name, what in there.items() if b"__pycache__/" not in name}
        ignored = {name for name in here if name not in there}
        ignored = {name for name in ignored if not name.startswith((b".git/", b"__pycache__/"))}
        assert ignored == {b"ignored.log", b"build/out.o", b"notes/secret.txt"}, ignored
        for name in there:
            assert there[name] == here[name], (name, there[name], here[name])
        for name in (b"data/needed.log", b"notes/public.txt", b".gitignore", b".windlassignore"):
            assert name in there, name
        assert there[b"run.sh"][0] == "program" and there[b"empty"] == ("file", b"")
        assert there[b"link"] == ("link", "kept/deep/down.txt")
        assert there[b"folder-link"] == ("link", "kept")
        assert there[b"not-utf8-\\xff"] == ("file", b"odd not-utf8-\\xff")
        print(len(there))
        """,
    )
    done = project.python("main.py")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15


def blobs(home: Path) -> set[str]:
    """The digests of all stored blobs."""
    return {path.name for path in (home / "blobs").glob("??/*")}


def test_one_request_sends_only_the_missing_blobs(project: Project, home: Path) -> None:
    wl.Client().server_info()
    project.write("work.py", "import windlass as wl\n\n@wl.run\ndef work(n):\n    pass\n")
    project.write("main.py", "import sys, work\nwork.work(int(sys.argv[1]))\n")
    for number in range(30):
        project.write(f"data/{number}.txt", f"content {number}\n")
    with CountingProxy(home) as proxy:
        env = {"WINDLASS_SERVER": proxy.url, "WINDLASS_TOKEN": (home / "token").read_text().strip()}

        def run(number: int) -> tuple[set[str], wl.Trial[None]]:
            """Return the blobs that a call adds, and its trial."""
            before = blobs(home)
            proxy.requests.clear()
            done = project.python("main.py", str(number), env=env)
            assert done.returncode == 0, done.stderr
            return blobs(home) - before, next(wl.list_trials(sort_by="-id"))

        added, _ = run(1)
        assert len(added) > 32
        assert proxy.requests == ["/trials", "/snapshots", "/blobs", "/trials"]

        project.write("data/7.txt", "changed\n")
        added, trial = run(2)
        payload = trial.record.spec.roles[0].executable.payload
        content = hashlib.sha256(b"changed\n").hexdigest()
        assert added == {content, trial.code.tree, payload}
        assert proxy.requests == ["/trials", "/snapshots", "/blobs", "/trials"]

        added, trial = run(3)
        assert added == {trial.record.spec.roles[0].executable.payload}
        assert proxy.requests == ["/trials"]  # a known tree needs no request at all


class CountingProxy:
    """Forwards bytes to the server and records each POST."""

    def __init__(self, home: Path) -> None:
        self._port = int(json.loads((home / "server.json").read_text())["url"].rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CountingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(
                target=self._pass_on, args=(server, client, False), daemon=True
            ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        try:
            while data := source.recv(1 << 20):
                if is_asking and data.startswith(b"POST /api/v1"):
                    line = data.split(b" ", 2)[1].decode()
                    self.requests.append(line.removeprefix("/api/v1").partition("?")[0])
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()


def test_a_tree_over_the_limit_is_refused_with_its_largest_files_and_a_remedy(
    project: Project, home: Path
) -> None:
    project.write("listing.py", LISTING)
    project.write(
        "main.py",
        """
        import windlass as wl
        from listing import listing
        try:
            listing()
        except wl.SnapshotError as error:
            print(error)
        """,
    )
    (project.path / "data" / "raw").mkdir(parents=True)
    with (project.path / "data" / "raw" / "video.bin").open("wb") as file:
        file.truncate(300_000_000)  # sparse: it takes no disk space
    before = [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)]
    done = project.python("main.py")
    assert done.returncode == 0, done.stderr
    assert "is 300.0 MB in 3 files. A snapshot may have at most 200.0 MB" in done.stdout
    assert "300.0 MB  data/raw/video.bin" in done.stdout
    assert f"Add lines to {project.path}/.windlassignore" in done.stdout
    assert [trial.id for trial in wl.list_trials(sort_by="-id", limit=1)] == before
    line = done.stdout.splitlines()[-1].strip()
    project.write(".windlassignore", f"{line}\n")  # the advice works
    done = project.python("main.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_files_written_by_a_trial_stay_and_the_rest_of_its_tree_is_deleted(
    project: Project, home: Path
) -> None:
    project.write(
        "train.py",
        """
        import os, windlass as wl

        @wl.run
        def train():
            assert open("config.txt").read() == "lr = 0.1\\n"
            open("model.bin", "w").write("weights")
            open("log.txt", "a").write("more\\n")
            os.makedirs("out/deep")
            open("out/deep/curve.csv", "w").write("1,2\\n")
            os.remove("gone.txt")
            return os.getcwd()

        print(train())
        """,
    )
    project.write("config.txt", "lr = 0.1\n")
    project.write("log.txt", "before\n")
    project.write("gone.txt", "still here\n")
    project.write("lib/helper.py", "x = 1\n")
    before = {path: path.read_bytes() for path in project.path.rglob("*") if path.is_file()}
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    assert {p: p.read_bytes() for p in project.path.rglob("*") if p.is_file()} == before

    trial = next(wl.list_trials(sort_by="-id"))
    work = Path(done.stdout.strip())
    assert work == Path(trial.directory) / "main-0" / "work"
    eventually(lambda: not (work / "config.txt").exists(), "what did not change is cleared away")
    eventually(lambda: not (work / "lib").exists(), "and so are folders that are empty then")
    left = {str(p.relative_to(work)): p.read_text() for p in work.rglob("*") if p.is_file()}
    assert left == {
        "model.bin": "weights",
        "log.txt": "before\nmore\n",
        "out/deep/curve.csv": "1,2\n",
    }
