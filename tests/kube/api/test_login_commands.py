"""Login programs that hang: they have a time limit, and none of their processes is left."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, eventually
from kube.kubeconfig_files import write_kubeconfig
from kube.login_program import LoginProgram
from windlass.home import Home
from windlass.kube.api.connection import connect
from windlass.kube.check_cluster import examine


@pytest.fixture
def program(place: Path) -> LoginProgram:
    """The login program of the kubeconfig file of this machine."""
    made = LoginProgram(place / "program")
    write_kubeconfig(place / ".kube" / "config", "lab", exec=made.section)
    return made


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_LOGIN_SECONDS", "5")  # enough time to start on a busy machine


def test_a_program_logs_in_with_its_token(program: LoginProgram) -> None:
    assert connect().api.configuration.api_key == {"BearerToken": "Bearer a-token"}
    program.wait_gone()


def test_a_program_logs_in_with_a_certificate(program: LoginProgram) -> None:
    program.answer(clientCertificateData="a certificate", clientKeyData="a key")
    configuration = connect().api.configuration
    assert Path(configuration.cert_file).read_text() == "a certificate"
    assert Path(configuration.key_file).read_text() == "a key"


@pytest.mark.usefixtures("hurried")
def test_a_hanging_program_is_ended_with_its_children_and_reported(program: LoginProgram) -> None:
    program.hang()
    with pytest.raises(wl.KubernetesError) as caught:
        connect()
    assert f"{program.path} did not answer within 5 s" in caught.value.message
    assert "Run it by hand to see whether it waits for" in str(caught.value)
    assert program.started == 2
    program.wait_gone()


@pytest.mark.usefixtures("hurried")
@pytest.mark.thorough
def test_a_program_that_hangs_after_its_credential_expired_fails_the_request(
    program: LoginProgram,
) -> None:
    program.expire()
    connection = connect()
    before = program.started
    program.hang()

    def why_not(_number: int) -> str:
        with pytest.raises(wl.KubernetesError) as caught:
            connection.request("GET", "/version")
        return caught.value.message

    with ThreadPoolExecutor(8) as askers:
        messages = set(askers.map(why_not, range(8)))
    assert len(messages) == 1 and f"{program.path} did not answer within 5 s" in messages.pop()
    assert program.started == before + 2, "it was asked once for all"
    program.wait_gone()


def test_an_expired_credential_is_requested_again(program: LoginProgram) -> None:
    program.expire()
    connection = connect()
    program.answer("new")
    with pytest.raises(wl.KubernetesError, match="cannot be reached"):
        connection.request("GET", "/version")  # no such machine exists
    assert connection.api.configuration.api_key == {"BearerToken": "Bearer new"}


@pytest.mark.parametrize("answer", ["a-secret", "{}", '["a-secret"]', '{"status": "a-secret"}'])
def test_an_invalid_response_is_reported_without_its_contents(
    program: LoginProgram, answer: str
) -> None:
    (program.path.parent / "answer").write_text(answer)
    with pytest.raises(wl.KubernetesError, match="gave no ExecCredential") as caught:
        connect()
    assert "a-secret" not in str(caught.value)


def test_a_missing_program_is_named(program: LoginProgram) -> None:
    program.path.unlink()
    with pytest.raises(wl.KubernetesError, match="log-me-in cannot be run"):
        connect()


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan"])
def test_an_invalid_limit_is_refused(
    program: LoginProgram, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv("WINDLASS_LOGIN_SECONDS", seconds)
    with pytest.raises(wl.KubernetesError, match="not a valid number of seconds"):
        connect()


@pytest.mark.thorough
def test_a_check_that_gives_up_leaves_no_program_running(program: LoginProgram) -> None:
    program.hang()
    seen = examine(Home.find(), url="http://127.0.0.1:1", within=10.0)
    assert seen.is_configured and not seen.server
    [finding] = seen.findings
    assert f"{program.path} did not answer within 8 s" in finding.text
    program.wait_gone()


def test_ctrl_c_during_a_check_leaves_no_program_running(
    program: LoginProgram,
) -> None:
    program.hang()
    checking = subprocess.Popen(
        [BIN / "windlass", "kubernetes", "check"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    eventually(lambda: program.started == 2, "it is to log in")
    checking.send_signal(signal.SIGINT)
    checking.communicate(timeout=PATIENCE)
    assert checking.returncode != 0
    program.wait_gone()
