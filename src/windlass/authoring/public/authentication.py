"""Configures the server's login to a Kubernetes cluster from a script.

Scripts need this module only if Windlass has no kubeconfig file and does not run in a pod with a
service account. Each login is tested at once. `kube/api/stored_login.py` then stores it in the home
for all later jobs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.authoring.checks.options import suggest_fields
from windlass.client.arguments.user_calls import users_call
from windlass.home import Home
from windlass.model.errors import InvalidArgument, KubernetesError, Unsupported, shown

if TYPE_CHECKING:
    from windlass.kube.api.stored_login import Login


@suggest_fields
@dataclass(frozen=True)
class TokenAuthentication:
    """A token for a Kubernetes cluster, and the cluster's address.

    ```python
    auth = wl.TokenAuthentication(token="sha256~Qx7…", server="https://api.lab.example:6443")
    ```

    After `auth.login()`, all jobs run in this cluster until `auth.logout()`. The token is stored in
    the Windlass home, in a file that only you can read.

    Args:
        token: the token, as printed by `oc whoami -t` or `kubectl create token`.
        server: the address of the cluster's API, such as `"https://api.lab.example:6443"`.
        skip_tls: accept any certificate. Use this only for tests.
        ca_cert_path: a file with the certificate of the authority that signed the cluster's
            certificate. Only needed if this machine does not trust the authority.
    """

    token: str = field(repr=False)
    server: str
    skip_tls: bool = False
    ca_cert_path: str | os.PathLike[str] | None = None

    @users_call("TokenAuthentication.login")
    def login(self) -> str:
        """Test this login and use it for all jobs from now on.

        ```python
        auth.login()  # 'Logged in to https://api.lab.example:6443 as ada.'
        ```

        If the address does not respond, the certificate is not trusted or the token is rejected,
        this method raises `wl.KubernetesError` and changes nothing.
        """
        from windlass.kube.api.stored_login import TokenLogin

        _check_server_is_here()
        problems = [*self._problems()]
        if problems:
            raise InvalidArgument.of(problems, where="wl.TokenAuthentication")
        return _log_in(
            TokenLogin(
                server=self.server.rstrip("/"),
                token=self.token.strip(),
                skip_tls=self.skip_tls,
                ca_cert=_read_certificates(self.ca_cert_path),
            )
        )

    @users_call("TokenAuthentication.logout")
    def logout(self) -> str:
        """Delete the stored token. Jobs then use the kubeconfig file, if it exists.

        ```python
        auth.logout()  # 'Logged out of https://api.lab.example:6443.'
        ```
        """
        from windlass.kube.api.stored_login import TokenLogin, forget_login, read_login

        home = Home.find()
        kept = read_login(home)
        if not isinstance(kept, TokenLogin) or kept.server != self.server.rstrip("/"):
            return f"Nobody was logged in to {self.server}."
        forget_login(home)
        return f"Logged out of {self.server}."

    def _problems(self) -> list[str]:
        problems = []
        token, server = str(self.token or "").strip(), str(self.server or "")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            problems.append("token is not valid; it must be one word without a line break")
        if "://" not in server:
            problems.append(
                f"server is {shown(self.server)}, which is not a valid address; "
                f"write server={shown('https://' + (server or 'api.lab.example:6443'))}"
            )
        elif not server.startswith(("https://", "http://")):
            problems.append(f"server is {shown(self.server)}; it must start with https://")
        if self.skip_tls and self.ca_cert_path is not None:
            problems.append(
                "skip_tls=True accepts every certificate, so ca_cert_path= has no effect; "
                "remove one of them"
            )
        if self.ca_cert_path is not None and not os.path.isfile(self.ca_cert_path):
            problems.append(f"ca_cert_path: there is no file {shown(os.fspath(self.ca_cert_path))}")
        return problems


@suggest_fields
@dataclass(frozen=True)
class KubeConfigFileAuthentication:
    """A kubeconfig file outside the default locations `KUBECONFIG` and `~/.kube/config`.

    ```python
    auth = wl.KubeConfigFileAuthentication("lab/kubeconfig")
    ```

    After `auth.load_config()`, all jobs use the file until `auth.logout()`.

    Args:
        path: the path of the file, which is read again whenever the server connects.
    """

    path: str | os.PathLike[str]

    @users_call("KubeConfigFileAuthentication.load_config")
    def load_config(self) -> str:
        """Test the kubeconfig file and use it for all jobs from now on.

        ```python
        auth.load_config()  # 'Logged in to https://api.lab.example:6443 as ada.'
        ```

        If the file is invalid, the cluster is unreachable or the credentials are rejected, this
        method raises `wl.KubernetesError` and changes nothing.
        """
        from windlass.kube.api.stored_login import ConfigFileLogin

        _check_server_is_here()
        return _log_in(ConfigFileLogin(path=self._full_path()))

    @users_call("KubeConfigFileAuthentication.logout")
    def logout(self) -> str:
        """Stop using the kubeconfig file. The file itself is not changed.

        ```python
        auth.logout()  # 'lab/kubeconfig is no longer used.'
        ```
        """
        from windlass.kube.api.stored_login import ConfigFileLogin, forget_login, read_login

        home = Home.find()
        kept = read_login(home)
        if not isinstance(kept, ConfigFileLogin) or kept.path != self._full_path():
            return f"{os.fspath(self.path)} was not in use."
        forget_login(home)
        return f"{os.fspath(self.path)} is no longer used."

    def _full_path(self) -> str:
        return os.path.abspath(os.path.expanduser(os.fspath(self.path)))


def _log_in(login: Login) -> str:
    from windlass.kube.api.connection import connect_with
    from windlass.kube.api.stored_login import forget_strays, write_login
    from windlass.kube.permissions.check import account_name, check_account

    connection = connect_with(login)
    try:
        check_account(connection)
        account = account_name(connection)
        write_login(Home.find(), login)
    finally:
        connection.close()
        forget_strays(Home.find())
    return f"Logged in to {connection.server} as {account}."


def _check_server_is_here() -> None:
    named = os.environ.get("WINDLASS_SERVER")
    if named:
        raise Unsupported(
            f"WINDLASS_SERVER names {named}, which uses its own account in its cluster.",
            hint="To log in from this machine, unset WINDLASS_SERVER.",
        )


def _read_certificates(path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return ""
    import ssl

    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
        ssl.create_default_context(cadata=text)
    except (OSError, UnicodeDecodeError, ssl.SSLError) as error:
        raise KubernetesError(
            f"{os.fspath(path)} contains no certificates: {error}",
            hint="The file must have the PEM format: -----BEGIN CERTIFICATE-----",
        ) from None
    return text
