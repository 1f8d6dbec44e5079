from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trees import git, paths, settle, snapshot_of, write

from windlass.packaging.project_files.ignore import Patterns, quote_path


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.log", ["a.log", "x/a.log"], ["a.logs"]),
        ("/a", ["a"], ["x/a"]),
        ("x/a", ["x/a"], ["y/x/a"]),
        ("**/a", ["a", "x/y/a"], ["ba"]),
        ("x/**", ["x/a", "x/y/a"], ["x"]),
        ("x/**/a", ["x/a", "x/y/z/a"], ["a"]),
        ("x/*/a", ["x/y/a"], ["x/a", "x/y/z/a"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[a-c]d", ["ad", "x/cd"], ["dd"]),
        ("[!a-c]d", ["dd"], ["ad"]),
        ("[[:digit:]]x", ["1x"], ["ax"]),
        ("[]a]", ["]", "a"], ["b"]),
        (r"\#a", ["#a"], ["a"]),
        (r"\!a", ["!a"], ["a"]),
        (r"a\*", ["a*"], ["ab"]),
        ("a ", ["a"], ["a "]),
        ("a\\ ", ["a "], ["a"]),
        ("a\r", ["a"], ["a\r"]),
        ("[a", [], ["[a", "a"]),
    ],
)
def test_a_pattern_has_the_meaning_of_git(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    patterns = Patterns(pattern + "\n")
    assert [path for path in matching if not patterns.verdict(path, False)] == []
    assert [path for path in other if patterns.verdict(path, False)] == []


pattern_texts = st.text("ab*?[]!/\\-^ .#", min_size=1, max_size=8)
path_texts = st.lists(st.text("ab.-", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)


@pytest.fixture(scope="module")
def empty_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patterns")
    git(folder, "init", "-q")
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pattern_texts, min_size=1, max_size=4), st.lists(path_texts, min_size=1))
def test_patterns_agree_with_git_itself(
    empty_repository: Path, lines: list[str], candidates: list[str]
) -> None:
    candidates = sorted({path for path in candidates if not {".", ".."} & set(path.split("/"))})
    candidates = [path for path in candidates if not path.startswith(".git")]
    if not candidates:
        return
    (empty_repository / ".gitignore").write_text("\n".join(lines) + "\n")
    completed = subprocess.run(
        ["git", "-C", str(empty_repository), "check-ignore", "-z", "--stdin"],
        input="\0".join(candidates),
        capture_output=True,
        text=True,
    )
    by_git = {path for path in completed.stdout.split("\0") if path}
    patterns = Patterns("\n".join(lines) + "\n")

    def is_ignored(path: str) -> bool:
        folders = path.split("/")[:-1]
        above = ["/".join(folders[: depth + 1]) for depth in range(len(folders))]
        return any(patterns.verdict(parent, True) for parent in above) or bool(
            patterns.verdict(path, False)
        )

    assert {path for path in candidates if is_ignored(path)} == by_git


@given(st.text("ab*?[]!/\\ #", min_size=1, max_size=10))
def test_a_quoted_path_matches_itself_and_nothing_else(path: str) -> None:
    plain = "/".join(part for part in path.split("/") if part)
    if plain:
        patterns = Patterns(quote_path(plain) + "\n")
        assert patterns.verdict(plain, False) is True
        assert patterns.verdict(plain + "x", False) is None


FILES: dict[str, str | bytes] = {
    ".gitignore": "*.log\n/build/\ndata/*\n!data/keep.csv\n",
    "a.py": "",
    "a.log": "",
    "build/x.py": "",
    "data/big.bin": "",
    "data/keep.csv": "",
    "sub/.gitignore": "!b.log\nsecret\n",
    "sub/b.log": "",
    "sub/c.log": "",
    "sub/secret": "",
    "sub/build/y.py": "",
}
KEPT = [".gitignore", "a.py", "data/keep.csv", "sub/.gitignore", "sub/b.log", "sub/build/y.py"]


def test_gitignore_files_apply_with_and_without_git(tree: Path, cache: Path) -> None:
    write(tree, FILES)
    assert paths(snapshot_of(tree, cache)) == KEPT
    git(tree, "init", "-q")
    assert paths(snapshot_of(tree, cache)) == KEPT


def test_a_repository_is_read_without_the_git_program(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, FILES)
    monkeypatch.setenv("PATH", "")
    assert paths(snapshot_of(repository, cache)) == KEPT


def test_a_tracked_file_is_included_even_if_it_is_ignored(repository: Path, cache: Path) -> None:
    write(repository, FILES)
    before = snapshot_of(repository, cache)
    git(repository, "add", "-f", "build/x.py", "a.log")
    assert set(paths(snapshot_of(repository, cache))) - set(paths(before)) == {
        "a.log",
        "build/x.py",
    }
    git(repository, "rm", "-q", "--cached", "a.log")
    assert "a.log" not in paths(snapshot_of(repository, cache))


def test_a_tracked_but_deleted_file_is_not_included(repository: Path, cache: Path) -> None:
    write(repository, {"a.py": "", "b.py": ""})
    git(repository, "add", "-A")
    (repository / "a.py").unlink()
    assert paths(snapshot_of(repository, cache)) == ["b.py"]


def test_the_private_and_global_excludes_of_git_apply(
    repository: Path, cache: Path, tmp_path: Path
) -> None:
    write(repository, {"a.py": "", "b.tmp": "", "c.bak": ""})
    assert len(paths(snapshot_of(repository, cache))) == 3
    (repository / ".git/info/exclude").write_text("*.tmp\n")
    assert paths(snapshot_of(repository, cache)) == ["a.py", "c.bak"]
    (tmp_path / "my-excludes").write_text("*.bak\n")
    git(repository, "config", "core.excludesFile", str(tmp_path / "my-excludes"))
    assert paths(snapshot_of(repository, cache)) == ["a.py"]
    (tmp_path / "my-excludes").write_text("a.py\n")
    assert paths(snapshot_of(repository, cache)) == ["c.bak"]


def test_changes_of_git_settings_elsewhere_are_detected(
    repository: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {"a.py": "", "b.tmp": "", "c.bak": ""})
    home = tmp_path / "home"
    write(home, {"tmp": "*.tmp\n", "bak": "*.bak\n", ".gitconfig": "[include]\npath = more\n"})
    assert len(paths(settle(repository, cache))) == 3
    (home / "more").write_text("[core]\nexcludesFile = ~/tmp\n")
    assert paths(settle(repository, cache)) == ["a.py", "c.bak"]
    (home / "more").write_text("[core]\nexcludesFile = ~/bak\n")
    assert paths(settle(repository, cache)) == ["a.py", "b.tmp"]
    (home / "other").write_text("[core]\nexcludesFile = ~/tmp\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "other"))
    assert paths(settle(repository, cache)) == ["a.py", "c.bak"]
    (home / "other").write_text("")
    assert len(paths(settle(repository, cache))) == 3


def test_submodules_and_nested_repositories_follow_their_own_rules(
    repository: Path, cache: Path
) -> None:
    write(
        repository, {"a.py": "", "inner/b.py": "", "inner/b.tmp": "", "inner/.gitignore": "*.tmp"}
    )
    git(repository / "inner", "init", "-q")
    assert paths(snapshot_of(repository, cache)) == ["a.py", "inner/.gitignore", "inner/b.py"]
    git(repository / "inner", "add", "-A")
    git(repository / "inner", "commit", "-qm", "inner")
    git(repository, "add", "inner")  # now it is tracked like a submodule
    assert paths(snapshot_of(repository, cache)) == ["a.py", "inner/.gitignore", "inner/b.py"]
    write(repository, {"inner/c.py": "", "inner/c.tmp": ""})
    assert "inner/c.py" in paths(snapshot_of(repository, cache))
    assert "inner/c.tmp" not in paths(snapshot_of(repository, cache))


@pytest.mark.parametrize("is_repository", [True, False])
def test_windlassignore_overrides_everything(tree: Path, cache: Path, is_repository: bool) -> None:
    if is_repository:
        git(tree, "init", "-q")
    write(
        tree,
        {
            ".gitignore": "*.csv\n/data/\n/models/\n/logs/\n",
            ".windlassignore": "*.md\n!keep.csv\n!data/small/\n!/models/best.bin\n!*.npy\n",
            "a.py": "",
            "README.md": "",
            "keep.csv": "",
            "other.csv": "",
            "data/big.bin": "",
            "logs/array.npy": "",
            "data/small/x.bin": "",
            "models/best.bin": "",
            "models/other.bin": "",
            "docs/.windlassignore": "*.svg\n!important.md\n",
            "docs/a.svg": "",
            "docs/important.md": "",
        },
    )
    assert paths(snapshot_of(tree, cache)) == [
        ".gitignore",
        ".windlassignore",
        "a.py",
        "data/small/x.bin",
        "docs/.windlassignore",
        "docs/important.md",
        "keep.csv",
        "models/best.bin",
    ]


def test_some_files_are_never_included(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(tree / "state"))
    write(
        tree,
        {
            "a.py": "",
            "a.pyc": "",
            "__pycache__/a.cpython-311.pyc": "",
            ".venv/pyvenv.cfg": "",
            ".venv/lib/x.py": "",
            "venv/made_by_hand.py": "",
            "deep/env39/pyvenv.cfg": "",
            "elsewhere/token": "another server's",
            "elsewhere/server.lock": "",
            "elsewhere/windlass.db": "",
            "elsewhere/trials/1/log": "",
            "node_modules/x.js": "",
            ".mypy_cache/x": "",
            ".ruff_cache/x": "",
            ".pytest_cache/x": "",
            ".hypothesis/x": "",
            ".ipynb_checkpoints/x": "",
            ".DS_Store": "",
            "p.egg-info/PKG-INFO": "",
            "state/token": "secret",
            "state2/notes": "",
        },
    )
    assert paths(snapshot_of(tree, cache)) == ["a.py", "state2/notes", "venv/made_by_hand.py"]
