"""Opens a connection to a cluster, and chooses its address, account and namespace.

Windlass uses the first of these that exists: the arguments, the stored login
(`kube/api/stored_login.py`), the files named in `KUBECONFIG`, `~/.kube/config`, and the service
account of the pod in which this process runs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import os
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from windlass.home import Home
from windlass.kube.api.client_package import load_kubernetes
from windlass.kube.api.json import read
from windlass.kube.api.login_commands import login_seconds
from windlass.kube.api.stored_login import (
    ConfigFileLogin,
    Login,
    Stamp,
    TokenLogin,
    authority_file,
    file_stamp,
    login_stamp,
    read_login,
)
from windlass.kube.errors.api_errors import no_api, raised_from_answer, raised_from_transport
from windlass.model.errors import KubernetesError

CONNECT_TIMEOUT = 10.0  # seconds until a connection attempt fails
READ_TIMEOUT = 60.0  # seconds without data until a response counts as lost

NO_CLUSTER = "NoCluster"  # the reason of the error if no cluster is configured
_AS_IT_WAS = (
    "The server uses the value of KUBECONFIG from its start. After a change, "
    "restart it: windlass server stop"
)

_READ_AGAIN = 2  # how often to reread files that changed during the read
_POD_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection to a cluster, using one account.

    `api` is the `kubernetes.client.ApiClient`, which several threads can use at the same time.
    """

    api: Any = field(repr=False)
    server: str  # the address of the API
    namespace: str  # the default namespace
    account: str  # the account, as far as it is known without a request
    source: str  # a description of the configuration's origin, for messages
    home: Home = field(repr=False)
    stamp: Stamp | None = field(repr=False, default=None)
    files: Mapping[str, Stamp | None] = field(repr=False, default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = READ_TIMEOUT,
        once: bool = False,
    ) -> Any:
        """Send a request and return the response as plain JSON.

        Raises `KubernetesError` if the cluster refuses the request. If the API server is busy, the
        request is repeated unless `once` is true.

        `connection.request("GET", "/api/v1/namespaces/lab/pods")["items"]`
        """
        from windlass.kube.api.retry import without_busy_retries  # urllib3 comes with the client

        with without_busy_retries() if once else nullcontext():
            response = self.open(
                method, path, body, query=query, content_type=content_type, timeout=timeout
            )
        with raised_from_transport(self.server):
            data = response.read()
        try:
            return read(data) if data else None
        except ValueError:
            raise no_api(self.server, data) from None

    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float | None = READ_TIMEOUT,
    ) -> Any:
        """Send a request and return the response without reading its body.

        Read the body with `.response.stream()` or `.read()`. If the timeout is None, the request
        waits forever.
        """
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        with raised_from_transport(self.server):
            serialized = self.api.param_serialize(
                method, path, header_params=headers, body=body,
                query_params=sorted((query or {}).items()), auth_settings=["BearerToken"],
            )  # fmt: skip
            reach = min(timeout or CONNECT_TIMEOUT, CONNECT_TIMEOUT)
            response = self.api.call_api(*serialized, _request_timeout=(reach, timeout))
            is_page = "text/html" in str(response.response.headers.get("Content-Type"))
            if response.status >= 300 or is_page:
                response.read()
        if response.status >= 300:
            raise raised_from_answer(
                response.status, response.data, method=method, path=path,
                account=self.account, server=self.server,
            )  # fmt: skip
        if is_page:
            raise no_api(self.server, response.data)
        return response

    @cached_property
    def address(self) -> str:
        """A text that identifies the cluster, even if an earlier cluster had the same address."""
        file = self.api.configuration.ssl_ca_cert if self.is_trusted else None
        try:
            authority = Path(file).read_bytes() if file else b""
        except OSError:
            authority = b""
        fingerprint = hashlib.sha256(authority).hexdigest()[:16] if authority else ""
        return f"{self.server} {fingerprint}".rstrip()

    @property
    def is_trusted(self) -> bool:
        """Whether the cluster's certificate is verified."""
        return bool(self.api.configuration.verify_ssl)

    @property
    def is_outdated(self) -> bool:
        """Whether the stored login or a kubeconfig file changed since this connection was opened.

        A new connection can use another account or a newer token.
        """
        if login_stamp(self.home) != self.stamp:
            return True
        return any(file_stamp(path) != stamp for path, stamp in self.files.items())

    def close(self) -> None:
        """Close the sockets of this connection."""
        self.api.rest_client.close()


def connect(
    context: str | None = None,
    namespace: str | None = None,
    *,
    config_file: str | None = None,
    home: Home | None = None,
    login_within: float = math.inf,
) -> Connection:
    """Return a connection to the configured cluster. No request is sent yet.

    `config_file` is the path of a kubeconfig file, and `context` is the name of a context in it. If
    a file changes while it is read, it is read again, because the result may mix old and new
    contents. A login program must finish within `login_within` seconds and within
    `login_seconds()`.
    """
    home = home or Home.find()
    login_within = min(login_within, login_seconds())
    for is_last in (*[False] * _READ_AGAIN, True):
        stamp = login_stamp(home)
        login = None if context or config_file else read_login(home)
        if config_file:
            login = ConfigFileLogin(path=config_file)
        files = _stamps(_config_files(login))
        try:
            connection = _connected(login, context, namespace, home, stamp, files, login_within)
        except KubernetesError:
            if is_last or files == _stamps(files):
                raise
            continue
        if is_last or not connection.is_outdated:
            break
        connection.close()
    return connection


def connection_settings(home: Home) -> Hashable:
    """Return a value that changes when the stored login or a kubeconfig file changes."""
    try:
        login = read_login(home)
    except KubernetesError:
        login = None
    return login_stamp(home), *_stamps(_config_files(login)).items()


def connect_with(login: Login, namespace: str | None = None) -> Connection:
    """Return a connection that uses a login. No request is sent, so the login is not verified."""
    files = _stamps(_config_files(login))
    return _connected(login, None, namespace, Home.find(), None, files, login_seconds())


def _config_files(login: Login | None) -> list[str]:
    """Return the kubeconfig files that a connection uses, or an empty list if it uses none."""
    if isinstance(login, TokenLogin):
        return []
    named = login.path if login else os.environ.get("KUBECONFIG")
    if named:
        return [os.path.expanduser(path) for path in named.split(os.pathsep)]
    usual = os.path.expanduser("~/.kube/config")
    return [usual] if os.path.exists(usual) else []


def _stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    return {path: file_stamp(path) for path in paths}


def _connected(
    login: Login | None,
    context: str | None,
    namespace: str | None,
    home: Home,
    stamp: Stamp | None,
    files: Mapping[str, Stamp | None],
    login_within: float,
) -> Connection:
    kubernetes = load_kubernetes()
    from windlass.kube.api.retry import retries  # urllib3 comes with the client

    configuration = kubernetes.client.Configuration()
    configuration.retries = retries()
    configured = _configured(
        kubernetes, configuration, login, context, home, list(files), login_within
    )
    if not configuration.verify_ssl:
        _never_prompt()
    return Connection(
        api=kubernetes.client.ApiClient(configuration),
        server=configuration.host,
        namespace=namespace or configured.namespace or "default",
        account=_account_of_token(configuration) or configured.account,
        source=configured.source,
        home=home,
        stamp=stamp,
        files=files,
    )


@dataclass(frozen=True)
class _ConfigurationSource:
    """The origin of a connection's configuration, and the account and namespace found there."""

    source: str
    account: str
    namespace: str = ""


def _configured(
    kubernetes: Any,
    configuration: Any,
    login: Login | None,
    context: str | None,
    home: Home,
    files: Sequence[str],
    login_within: float,
) -> _ConfigurationSource:
    """Fill in a client configuration from the first source that exists."""
    if isinstance(login, TokenLogin):
        configuration.host = login.server.rstrip("/")
        configuration.api_key["BearerToken"] = f"Bearer {login.token}"
        configuration.verify_ssl = not login.skip_tls
        if login.ca_cert:
            configuration.ssl_ca_cert = authority_file(home, login)
        source = f"the token of a login ({home.kubernetes_login})"
        namespace = _namespace_of_account(_account_of_token(configuration))
        return _ConfigurationSource(source, "the owner of the token", namespace)
    if files:
        return _from_config_file(kubernetes, configuration, files, context, login_within)
    if not context and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _from_pod(kubernetes, configuration)
    raise KubernetesError(
        "No Kubernetes cluster is configured: there is no kubeconfig file and no stored "
        "login, and this is not a pod.",
        hint="Log in: wl.TokenAuthentication(token=..., server=...).login()\n"
        "or name a file: wl.KubeConfigFileAuthentication(path).load_config()\n"
        "or create ~/.kube/config with the tool of your cluster's provider.\n" + _AS_IT_WAS,
        reason=NO_CLUSTER,
    )


def _from_config_file(
    kubernetes: Any,
    configuration: Any,
    files: Sequence[str],
    context: str | None,
    login_within: float,
) -> _ConfigurationSource:
    """Fill in a client configuration from one or more kubeconfig files."""
    from windlass.kube.api.kubeconfig import load_files  # this module needs the client

    config, paths = kubernetes.config, os.pathsep.join(files)
    if not any(map(os.path.exists, files)):
        raise KubernetesError(
            f"There is no kubeconfig file {paths!r}.",
            hint="Name an existing file: "
            "wl.KubeConfigFileAuthentication(path).load_config(), or set "
            f"KUBECONFIG.\n{_AS_IT_WAS}",
        )
    try:
        contexts, current = config.list_kube_config_contexts(config_file=paths)
        chosen = next((entry for entry in contexts if entry["name"] == context), current)
        if context and chosen["name"] != context:
            names = ", ".join(sorted(entry["name"] for entry in contexts))
            raise KubernetesError(
                f"{paths} has no context {context!r}.", hint=f"It has: {names or 'none'}."
            )
        load_files(paths, context, configuration, within=login_within)
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise _unusable(paths, str(e)) from None
    except KubernetesError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "yaml":
            raise
        raise _unusable(paths, str(error)) from None
    inner: Mapping[str, str] = chosen.get("context") or {}
    return _ConfigurationSource(
        source=f"{paths}, context {chosen['name']}",
        account=str(inner.get("user") or ""),
        namespace=str(inner.get("namespace") or ""),
    )


def _unusable(paths: str, why: str) -> KubernetesError:
    return KubernetesError(
        f"The kubeconfig file {paths} cannot be used: {why.rstrip('.')}.",
        hint="Check the file: kubectl config view. Choose another file with KUBECONFIG or "
        "wl.KubeConfigFileAuthentication(path).",
    )


def _from_pod(kubernetes: Any, configuration: Any) -> _ConfigurationSource:
    """Fill in a client configuration from the service account of this process's pod."""
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException as error:
        raise KubernetesError(
            f"This process runs in a pod, but the pod's service account cannot be used: {error}",
            hint="Check that automountServiceAccountToken is on. The pod of a server "
            "needs its service account.",
        ) from None
    try:
        with open(f"{_POD_ACCOUNT}/namespace") as file:
            namespace = file.read().strip()
    except OSError:
        namespace = ""
    return _ConfigurationSource("the account of this pod", "the account of this pod", namespace)


def _never_prompt() -> None:
    """Silence urllib3's warning about unverified certificates.

    The user has accepted such certificates with `skip_tls`.
    """
    import urllib3

    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


def _account_of_token(configuration: Any) -> str:
    """Return the account named in a token, or "" if the token names no account.

    Service account tokens are JWTs that name the account.

    >>> from types import SimpleNamespace as Of
    >>> claims = base64.urlsafe_b64encode(b'{"sub": "system:serviceaccount:lab:ada"}').decode()
    >>> _account_of_token(Of(api_key={"BearerToken": f"Bearer x.{claims.rstrip('=')}.y"}))
    'system:serviceaccount:lab:ada'
    """
    parts = str(configuration.api_key.get("BearerToken", "")).split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return ""
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else ""


def _namespace_of_account(account: str) -> str:
    """Return the namespace of a service account, or "" for a personal account.

    >>> _namespace_of_account("system:serviceaccount:lab:ada"), _namespace_of_account("ada")
    ('lab', '')
    """
    match = re.fullmatch(r"system:serviceaccount:([a-z0-9-]{1,63}):[^:]+", account)
    return match[1] if match else ""
