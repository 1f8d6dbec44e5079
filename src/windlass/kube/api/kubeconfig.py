"""Reads kubeconfig files with the official Kubernetes client.

Like the client, this module is imported only inside functions. Windlass runs login programs itself
(`login_commands.py`). The client itself would wait for them without a time limit, both when it
connects and in any later request that finds an expired credential.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from windlass.kube.api.login_commands import LoginFailed, run_login_command
from windlass.kube.api.shared_attempt import SharedAttempt
from windlass.model.errors import KubernetesError

_NEVER = "Never"  # the `interactiveMode` of programs that never use a terminal
_OWN_EXTENSION = (
    "client.authentication.k8s.io/exec"  # the cluster extension that is passed to login programs
)


def load_files(paths: str, context: str | None, configuration: Any, *, within: float) -> None:
    """Fill in a client configuration from kubeconfig files.

    Each run of a login program can take `within` seconds.
    """
    config = KubeConfigMerger(paths).config
    if config is None:
        raise ConfigException("it is empty")
    _Loader(config, context, paths, within).load_and_set(configuration)


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # mypy does not analyze the client
    def __init__(self, config: Any, context: str | None, paths: str, within: float) -> None:
        super().__init__(config_dict=config, active_context=context, config_base_path=None)
        self._paths = paths
        self._within = within
        # Requests in several threads may notice at the same time that a credential has expired.
        self._logging_in = SharedAttempt(self._log_in)

    def _load_from_exec_plugin(self) -> bool | None:
        """Run the kubeconfig's login program, in place of the client's method of the same name.

        The client's method has no time limit and only logs errors.
        """
        return self._logging_in.result() if "exec" in self._user else None

    def _log_in(self) -> bool:
        base = self._get_base_path(self._cluster.path)
        section = self._user["exec"]
        program = ExecProvider(section, base, self._cluster)
        try:
            self._take(
                _run_exec_plugin(program, section.safe_get("interactiveMode"), self._within), base
            )
        except LoginFailed as error:
            raise KubernetesError(
                f"The login program of {self._paths} failed: {program.args[0]} {error}",
                hint=error.hint,
            ) from None
        return True

    def _take(self, status: dict[str, Any], base: str) -> None:
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        elif "clientCertificateData" in status and "clientKeyData" in status:
            self.cert_file = _file_of(status, "clientCertificateData", base)
            self.key_file = _file_of(status, "clientKeyData", base)
        else:
            raise LoginFailed("gave neither a token nor a certificate with its key")
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])


def _run_exec_plugin(program: Any, mode: str | None, within: float) -> dict[str, Any]:
    """Run a login program and return the `status` of the `ExecCredential` that it prints."""
    is_interactive = mode != _NEVER and _has_terminal()
    spec: dict[str, Any] = {"interactive": is_interactive}
    if program.cluster:  # the kubeconfig file requests that the program gets the cluster
        spec["cluster"] = _cluster_info(program.cluster.value)
    request = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    env = {**program.env, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    output = run_login_command(
        program.args, env=env, cwd=program.cwd, within=within, is_interactive=is_interactive
    )
    try:
        answer = json.loads(output)
        version, status = answer["apiVersion"], dict(answer["status"])
    except (ValueError, KeyError, TypeError):
        # Do not show the output, because it may contain a token.
        raise LoginFailed("gave no ExecCredential") from None
    if version != program.api_version:
        raise LoginFailed(f"speaks {version}, and the file says {program.api_version}")
    return status


def _has_terminal() -> bool:
    # A server process may have closed these streams or may have none.
    ends = (sys.stdin, sys.stdout)
    return all(end is not None and not end.closed and end.isatty() for end in ends)


def _cluster_info(cluster: dict[str, Any]) -> dict[str, Any]:
    own = (
        extension["extension"]
        for extension in cluster.get("extensions") or ()
        if extension["name"] == _OWN_EXTENSION
    )
    config = next(own, None)
    return cluster if config is None else {**cluster, "config": config}


def _file_of(status: dict[str, Any], key: str, base: str) -> str:
    data = FileOrData(
        status, None, data_key_name=key, file_base_path=base, base64_file_content=False
    )
    return str(data.as_file())
