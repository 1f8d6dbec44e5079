"""`windlass kubernetes check` without a cluster: its output, and the settings of this shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.shells import Shell
from kube.kubeconfig_files import write_kubeconfig

INDENT = " " * 15  # the column in which the text of a finding begins


@pytest.fixture
def nowhere(own_shell: Shell, tmp_path: Path) -> Shell:
    """A shell without a cluster."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        own_shell.env.pop(name, None)
    own_shell.env["HOME"] = str(tmp_path)
    return own_shell


@pytest.fixture
def served(nowhere: Shell, tmp_path: Path) -> Shell:
    """The same shell with a server that another shell started, whose cluster is unreachable."""
    config = write_kubeconfig(tmp_path / "of-the-server", "lab")
    config.write_text(config.read_text().replace("lab.example:6443", "127.0.0.1:1"))
    nowhere.good("server", "start", KUBECONFIG=str(config))
    return nowhere


def this_shell(shell: Shell, **env: str) -> list[dict[str, str]]:
    """Return the findings about this shell."""
    findings = json.loads(shell("kubernetes", "check", "--json", **env).stdout)
    return [finding for finding in findings if finding["check"] == "this shell"]


def unbroken(lines: list[str]) -> str:
    """Return the text of findings without line breaks."""
    return " ".join(" ".join(lines).split())


def test_findings_wrap_under_their_text_to_fit_a_terminal(nowhere: Shell) -> None:
    terminal = nowhere.terminal("kubernetes", "check", columns=80, NO_COLOR="1")
    assert terminal.end() == 1
    first, *others = terminal.lines
    assert first.startswith("✗ cluster      No Kubernetes cluster is configured")
    assert max(map(len, terminal.lines)) <= 80
    assert others and all(line.startswith(INDENT) and line[15] != " " for line in others)
    login = "wl.TokenAuthentication(token=..., server=...).login()"
    assert any(line.endswith(login) for line in others), "it is copied as one"
    piped = nowhere("kubernetes", "check").stdout.splitlines()
    assert len(piped) == 5 and max(map(len, piped)) > 80, "a line is a line"
    assert unbroken(piped) == unbroken(terminal.lines)


def test_a_command_to_copy_is_never_wrapped(nowhere: Shell) -> None:
    nowhere.home.mkdir()
    nowhere.home.chmod(0o755)
    terminal = nowhere.terminal("doctor", columns=40, NO_COLOR="1")
    assert terminal.end() == 0
    at = terminal.lines.index(f"{INDENT}Make it private:")
    assert terminal.lines[at + 1] == f"{INDENT}chmod go-rwx {nowhere.home}"
    piped = nowhere.good("doctor").splitlines()
    assert f"{INDENT}Make it private: chmod go-rwx {nowhere.home}" in piped


def test_a_missing_kubeconfig_of_this_shell_is_reported_while_a_server_runs(
    served: Shell, tmp_path: Path
) -> None:
    assert this_shell(served) == [], "it says nothing of a cluster"
    gone = str(tmp_path / "gone")
    [finding] = this_shell(served, KUBECONFIG=gone)
    assert finding["level"] == "warning"
    assert f"it has no usable cluster: There is no kubeconfig file '{gone}'." in (finding["text"])
    assert "Jobs run on the cluster of the server: https://127.0.0.1:1" in finding["text"]
    assert "unset KUBECONFIG" in finding["remedy"]
    rights = served("kubernetes", "rights", "--account", "ada", KUBECONFIG=gone)
    assert "namespace: of-lab" in rights.stdout
    assert "Warning: this shell has no usable cluster: " in rights.stderr


def test_an_unreadable_kubeconfig_of_this_shell_is_reported(served: Shell, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.write_text("{")
    [finding] = this_shell(served, KUBECONFIG=str(torn))
    assert f"The kubeconfig file {torn} cannot be used" in finding["text"]
    assert "unset KUBECONFIG" in finding["remedy"]
    served.good("server", "stop")
    served.good("server", "start", KUBECONFIG=str(torn))
    assert this_shell(served, KUBECONFIG=str(torn)) == [], "the server is reported already"


@pytest.mark.parametrize("is_served", [True, False])
def test_a_manifest_comes_with_a_warning_about_an_unusable_kubeconfig(
    nowhere: Shell, tmp_path: Path, is_served: bool
) -> None:
    if is_served:
        nowhere.good("server", "start")
    nowhere.write("job.toml", 'command = ["true"]\nexecutor = { backend = "kubernetes" }\n')
    words = ("kubernetes", "manifest", "job.toml")
    gone = str(tmp_path / "gone")
    done = nowhere(*words, KUBECONFIG=gone)
    assert done.returncode == 0 and done.stdout == nowhere(*words).stdout
    assert "Warning: this shell has no usable cluster: " in done.stderr
    assert f"There is no kubeconfig file '{gone}'" in done.stderr
    assert ("Jobs run on the cluster of the server: no cluster" in done.stderr) is is_served
    assert nowhere(*words).stderr == ""
