"""Converts network and API errors to a `KubernetesError` that names a remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from windlass.kube.errors.refusals import refusal
from windlass.kube.explanation import Explanation, in_a_line
from windlass.kube.permission import requested_permission
from windlass.model.errors import KubernetesError

_NOT_FOUND = 404
_OURS = "/apis/kubeflow.org/"
_UNREADABLE = re.compile(
    r'(?P<kind>\w+) in version "[^"]+" cannot be handled as a \w+: (?P<what>.+)'
)


class Fault(msgspec.Struct, frozen=True):
    """An invalid field of an object that the API rejected."""

    field: str  # such as "spec.containers[1].name"; empty if the API names no field
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidObject(KubernetesError):
    """Raised if the API rejected an object as invalid for its kind.

    Rejections by quotas and webhooks raise other errors, because the same object may be accepted
    later.
    """

    def __init__(self, error: KubernetesError, kind: str, faults: Sequence[Fault]) -> None:
        super().__init__(error.message, hint=error.hint, status=error.status, reason=error.reason)
        self.kind = kind  # "Pod"
        self.faults = tuple(faults)


@contextmanager
def raised_from_transport(server: str) -> Iterator[None]:
    """Convert address, network and certificate errors to a `KubernetesError`."""
    import urllib3
    from kubernetes.client.exceptions import ApiException

    try:
        yield
    except ApiException as error:  # the client uses this class for TLS failures
        raise unanswered(server, str(error.reason or error)) from None
    except urllib3.exceptions.HTTPError as error:
        cause: BaseException = error
        if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
            cause = error.reason
        raise unanswered(server, str(cause), is_slow=_is_slow(cause)) from None
    except OSError as error:
        raise unanswered(server, str(error)) from None


def _is_slow(cause: BaseException) -> bool:
    from urllib3 import exceptions

    # In urllib3, a refused connection is a kind of timeout.
    is_refusal = isinstance(cause, exceptions.NewConnectionError)
    return isinstance(cause, exceptions.TimeoutError) and not is_refusal


def unanswered(server: str, why: str, *, is_slow: bool = False) -> KubernetesError:
    """Return the error for an address that sent no response.

    >>> print(unanswered("https://lab:6443", "[Errno 111] Connection refused"))
    The Kubernetes API at https://lab:6443 cannot be reached: Connection refused
      Check that the cluster runs and that the address is right. Try: curl -k https://lab:6443/version
    >>> print(unanswered("https://lab:6443", "certificate verify failed: self signed (_ssl.c:9)"))
    The certificate of https://lab:6443 is not trusted: self signed
      Set the certificate of its authority: ca_cert_path= of wl.TokenAuthentication, or \
certificate-authority in the kubeconfig file. skip_tls=True accepts any certificate; use \
it only for tests.
    """
    text = _plain(why)
    if "CERTIFICATE_VERIFY_FAILED" in why or "certificate verify failed" in why:
        detail = text.partition("certificate verify failed:")[2].strip() or text
        return KubernetesError(
            f"The certificate of {server} is not trusted: {detail}",
            hint="Set the certificate of its authority: ca_cert_path= of wl.TokenAuthentication, "
            "or certificate-authority in the kubeconfig file. skip_tls=True accepts any "
            "certificate; use it only for tests.",
            reason="Untrusted",
        )
    ways = "Check that the cluster runs and that the address is right."
    if is_slow:
        ways = "Check whether you need a VPN or a proxy."
    elif "WRONG_VERSION_NUMBER" in why or "wrong version number" in why:
        ways = "The server does not use TLS at this port. Check the port, or use http://."
    elif "resolve" in why or "Name or service not known" in why or "nodename nor" in why:
        ways = "The host name cannot be resolved. Check the address."
    return KubernetesError(
        f"The Kubernetes API at {server} cannot be reached: {text}",
        hint=f"{ways} Try: curl -k {server}/version",
        reason="Unreachable",
    )


def no_api(server: str, data: bytes | str | None) -> KubernetesError:
    """Return the error for a response that is not from a Kubernetes API.

    >>> print(no_api("https://lab:6443", b"<html> <h1>Log in</h1>").message)
    The response of https://lab:6443 is not from a Kubernetes API: <html> <h1>Log in</h1>
    """
    return KubernetesError(
        f"The response of {server} is not from a Kubernetes API: {_in_a_line(data)[:80]}",
        hint="A proxy may answer in its place, with a login page. See its response: curl "
        f"-k {server}/version",
        reason="NoApi",
    )


def raised_from_answer(
    status: int, data: bytes | str | None, *, method: str, path: str, account: str, server: str
) -> KubernetesError:
    """Return the error for a response with status 300 or above.

    Only a response from the API itself proves that an object does not exist. A proxy without a
    route also responds with 404. Objects must not count as deleted because of such a response.

    >>> ours = {"method": "GET", "account": "ada", "server": "https://lab:6443"}
    >>> path = "/api/v1/namespaces/lab/pods/train-0"
    >>> raised_from_answer(404, b"404 page not found", path=path, **ours).status
    0
    >>> path = "/apis/kubeflow.org/v1/namespaces/lab/tfjobs/train"
    >>> raised_from_answer(404, b"404 page not found", path=path, **ours).status
    0
    """
    status_object = _status_object(data)
    if (
        status == _NOT_FOUND
        and path.startswith("/api/v1/")
        and status_object.get("kind") != "Status"
    ):
        return no_api(server, data)
    if status == _NOT_FOUND and path.startswith(_OURS) and status_object.get("kind") != "Status":
        return KubernetesError(
            "The cluster does not have the kinds TFJob and PyTorchJob yet.",
            hint="An administrator of the cluster can install them: windlass operator install",
            reason="NotInstalled",
        )
    message = str(status_object.get("message") or "")
    explanation = refusal(
        status, str(status_object.get("reason") or ""), message,
        permission=requested_permission(method, path), account=account, server=server,
    )  # fmt: skip
    error = _error(explanation, status)
    kind, faults = (
        _faults(status_object) if explanation.reason == status_object.get("reason") else ("", ())
    )
    return InvalidObject(error, kind, faults) if faults else error


def raised_from_exception(error: Any, *, account: str, server: str) -> KubernetesError:
    """Return the error for an `ApiException` that the client raised."""
    if not error.status:
        return unanswered(server, str(error.reason or error))
    status_object = _status_object(error.body)
    reason = str(status_object.get("reason") or "")
    explanation = refusal(
        int(error.status), reason, str(status_object.get("message") or error.reason or ""),
        permission=None, account=account, server=server,
    )  # fmt: skip
    return _error(explanation, int(error.status))


def _faults(status_object: dict[str, Any]) -> tuple[str, Sequence[Fault]]:
    """Return the kind and the invalid fields of an object that the API rejected.

    Rejections by policies give the same reason, but name a resource such as "pods" and no fields.

    >>> causes = [{"field": "spec.containers[1].name", "message": 'Duplicate value: "a"'}]
    >>> _faults({"reason": "Invalid", "details": {"kind": "Pod", "causes": causes}})
    ('Pod', [Fault(field='spec.containers[1].name', message='Duplicate value: "a"')])
    >>> what = "json: cannot unmarshal string into Go struct field PodSpec.spec.priority"
    >>> message = f'Pod in version "v1" cannot be handled as a Pod: {what}'
    >>> _faults({"reason": "BadRequest", "message": message}) == ("Pod", [Fault("", what)])
    True
    """
    if status_object.get("reason") == "BadRequest":
        match = _UNREADABLE.match(str(status_object.get("message")))
        return (match["kind"], [Fault("", match["what"])]) if match else ("", ())
    details = status_object.get("details")
    if status_object.get("reason") != "Invalid" or not isinstance(details, dict):
        return "", ()
    causes = [cause for cause in details.get("causes") or () if isinstance(cause, dict)]
    faults = [
        Fault(in_a_line(str(cause["field"])), in_a_line(str(cause.get("message") or "")))
        for cause in causes
        if cause.get("field")
    ]
    kind = str(details.get("kind") or "")
    return (kind, faults) if kind[:1].isupper() and len(faults) == len(causes) else ("", ())


def _error(explanation: Explanation, status: int) -> KubernetesError:
    hint = explanation.remedy or None
    return KubernetesError(
        explanation.sentence, hint=hint, status=status, reason=explanation.reason
    )


def _status_object(data: bytes | str | None) -> dict[str, Any]:
    """Return the `Status` object in a response body.

    If the body is something else, such as a proxy's error page, the result contains only `message`,
    set to the text of the body.
    """
    try:
        parsed = json.loads(data or b"")
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        return {**parsed, "message": in_a_line(str(parsed.get("message") or ""))}
    return {"message": _in_a_line(data)}


def _in_a_line(data: bytes | str | None) -> str:
    return in_a_line(data.decode(errors="replace") if isinstance(data, bytes) else (data or ""))


def _plain(why: str) -> str:
    """Remove Python details, such as error numbers and object addresses, from a message."""
    text = why.rpartition(">: ")[2] if ">: " in why else why
    for sign in ("HTTPSConnectionPool", "HTTPConnectionPool"):
        if text.startswith(sign):
            text = text.rpartition("): ")[2] or text
    text = text.partition(" (_ssl.c")[0]
    if "[Errno" in text:
        text = text.rpartition("] ")[2]
    return text.strip().rstrip(")").strip()
