"""Configures the server's login to a Kubernetes cluster from a script.

A kubeconfig file or the account of a pod is picked up without any of this. What is said here is
tried at once, and kept in the home for all jobs from then on: `kube/api/stored_login.py`.
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
    """A token that opens a Kubernetes cluster, and the address it is for.

    ```python
    auth = wl.TokenAuthentication(token="sha256~Qx7…", server="https://api.lab.example:6443")
    ```

    `auth.login()` has all jobs run there from then on, until `auth.logout()`. The token is kept in
    a file of the home that only you can read.

    Args:
        token: the token, as `oc whoami -t` or `kubectl create token` print one.
        server: the address of the cluster's API: `"https://api.lab.example:6443"`.
        skip_tls: talk to whoever answers there, whatever certificate it has: only for a try.
        ca_cert_path: a file with the certificate of the authority that the cluster's own is
            signed by, if machines do not know it anyway.
    """

    token: str = field(repr=False)
    server: str
    skip_tls: bool = False
    ca_cert_path: str | os.PathLike[str] | None = None

    @users_call("TokenAuthentication.login")
    def login(self) -> str:
        """Have all jobs use it from now on, once it is seen to work.

        ```python
        auth.login()  # 'Logged in to https://api.lab.example:6443 as ada.'
        ```

        An address that does not answer, a certificate that is not trusted and a token that is
        not accepted are a `wl.KubernetesError`; then nothing has changed.
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
        """Forget the token. Jobs then use the kubeconfig file, if there is one.

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
            problems.append("token is no token; it is one word, without a line break")
        if "://" not in server:
            problems.append(
                f"server is {shown(self.server)}, which is no address; "
                f"write server={shown('https://' + (server or 'api.lab.example:6443'))}"
            )
        elif not server.startswith(("https://", "http://")):
            problems.append(f"server is {shown(self.server)}; it must begin with https://")
        if self.skip_tls and self.ca_cert_path is not None:
            problems.append("skip_tls=True trusts anybody, so that ca_cert_path= does nothing")
        if self.ca_cert_path is not None and not os.path.isfile(self.ca_cert_path):
            problems.append(f"ca_cert_path: there is no file {shown(os.fspath(self.ca_cert_path))}")
        return problems


@suggest_fields
@dataclass(frozen=True)
class KubeConfigFileAuthentication:
    """A kubeconfig file that is not where it is looked for: `KUBECONFIG`, `~/.kube/config`.

    ```python
    auth = wl.KubeConfigFileAuthentication("lab/kubeconfig")
    ```

    `auth.load_config()` has all jobs use it from then on, until `auth.logout()`.

    Args:
        path: where the file is. It is read anew whenever the server connects.
    """

    path: str | os.PathLike[str]

    @users_call("KubeConfigFileAuthentication.load_config")
    def load_config(self) -> str:
        """Have all jobs use the file from now on, once it is seen to work.

        ```python
        auth.load_config()  # 'Logged in to https://api.lab.example:6443 as ada.'
        ```

        A file that says nothing of use, and a cluster that cannot be reached or does not accept
        who it says, are a `wl.KubernetesError`; then nothing has changed.
        """
        from windlass.kube.api.stored_login import ConfigFileLogin

        _check_server_is_here()
        return _log_in(ConfigFileLogin(path=self._full_path()))

    @users_call("KubeConfigFileAuthentication.logout")
    def logout(self) -> str:
        """Forget the file, which stays as it is.

        ```python
        auth.logout()  # 'lab/kubeconfig is not used any more.'
        ```
        """
        from windlass.kube.api.stored_login import ConfigFileLogin, forget_login, read_login

        home = Home.find()
        kept = read_login(home)
        if not isinstance(kept, ConfigFileLogin) or kept.path != self._full_path():
            return f"{os.fspath(self.path)} was not in use."
        forget_login(home)
        return f"{os.fspath(self.path)} is not used any more."

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
            f"WINDLASS_SERVER names {named}, which talks to its cluster by an account of its own.",
            hint="Logging in is for the server of this machine: unset WINDLASS_SERVER",
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
            f"{os.fspath(path)} holds no certificates: {error}",
            hint="It must be in the PEM form: -----BEGIN CERTIFICATE-----",
        ) from None
    return text
