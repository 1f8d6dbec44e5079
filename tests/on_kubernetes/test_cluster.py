"""The test cluster itself: the features that other tests rely on."""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import threading
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.stream import portforward, stream

import published_crds
from harness import eventually
from on_kubernetes.cluster_access import Cluster, account_client
from on_kubernetes.fake_accelerators import accelerators
from on_kubernetes.pod_mounts import package_index, project_environment, source
from on_kubernetes.pods import Namespace

pytestmark = pytest.mark.thorough

SERVE = "python3 -u -m http.server 8000 --directory"


def test_a_pod_runs_and_its_logs_can_be_read(namespace: Namespace) -> None:
    namespace.python("hello", "print('hello from a pod')")
    assert namespace.output("hello") == "hello from a pod\n"


def test_a_failed_pod_reports_its_exit_code(namespace: Namespace) -> None:
    namespace.python("broken", "import sys; sys.exit(7)")
    eventually(lambda: namespace.phase("broken") == "Failed", "the pod fails")
    status = namespace.core.read_namespaced_pod_status("broken", namespace.name).status
    assert status.container_statuses[0].state.terminated.exit_code == 7


def test_a_command_runs_in_a_pod_by_exec(namespace: Namespace) -> None:
    namespace.pod("sleeper", "sleep", "1000")
    namespace.wait_running("sleeper")
    output = stream(
        namespace.core.connect_get_namespaced_pod_exec,
        "sleeper",
        namespace.name,
        command=["sh", "-c", "echo from inside; hostname 2>/dev/null || cat /etc/hostname"],
        stdout=True,
        stderr=True,
    )
    assert output.split("\n") == ["from inside", "sleeper", ""]


def test_a_port_of_a_pod_is_reached_by_port_forward(namespace: Namespace) -> None:
    namespace.pod("web", *SERVE.split(), "/etc/ssl")
    namespace.wait_running("web")
    eventually(lambda: "Serving" in namespace.logs("web"), "the server listens")
    assert "200 OK" in _get_forwarded(namespace, "web", 8000)


def test_names_of_a_headless_service_resolve_in_pods(namespace: Namespace) -> None:
    _make_service(namespace, "ring", headless=True)
    addresses = []
    for index in range(2):
        name = f"worker-{index}"
        labels = {"app": "ring"}
        namespace.pod(name, "sleep", "1000", labels=labels, hostname=name, subdomain="ring")
    addresses = [namespace.address(f"worker-{index}") for index in range(2)]
    wanted = {
        f"worker-0.ring.{namespace.name}.svc.cluster.local": addresses[:1],
        f"worker-1.ring.{namespace.name}.svc.cluster.local": addresses[1:],
        "worker-1.ring": addresses[1:],
        f"ring.{namespace.name}.svc.cluster.local": sorted(addresses),
        f"ring.{namespace.name}": sorted(addresses),
        "ring": sorted(addresses),
    }
    namespace.python("asker", _LOOK_UP.format(wanted=wanted))
    namespace.output("asker")


def test_a_service_leads_to_the_pods_behind_it(namespace: Namespace) -> None:
    _make_service(namespace, "web", headless=False)
    namespace.pod("server", *SERVE.split(), "/etc", labels={"app": "web"})
    fetch = """
import time, urllib.request
for _ in range(200):
    try:
        print(urllib.request.urlopen("http://web/hostname", timeout=5).read().decode())
        break
    except OSError:
        time.sleep(0.1)
"""
    namespace.python("caller", fetch)
    assert namespace.output("caller").strip() == "server"


def test_a_pod_calls_the_api_server_as_its_account(namespace: Namespace) -> None:
    _allow(namespace, "pods", client.RbacV1Subject(kind="ServiceAccount", name="default"))
    namespace.python("asker", _ASK_API_SERVER.format(namespace=namespace.name))
    assert namespace.output("asker").split() == ["asker"]


def test_a_pod_reaches_a_server_on_this_machine(
    namespace: Namespace, own_cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "greeting").write_text("hello from the machine")
    with _serving(own_cluster.machine_address, tmp_path) as url:
        fetch = f"import urllib.request as r; print(r.urlopen('{url}/greeting').read().decode())"
        namespace.python("caller", fetch)
        assert namespace.output("caller").strip() == "hello from the machine"


def test_a_user_needs_permissions(namespace: Namespace, own_cluster: Cluster) -> None:
    limited = client.CoreV1Api(own_cluster.user("limited"))
    with pytest.raises(client.ApiException) as refused:
        limited.list_namespaced_pod(namespace.name)
    record = json.loads(refused.value.body)["message"]
    assert 'User "limited" cannot list resource "pods"' in record
    _allow(namespace, "pods", client.RbacV1Subject(kind="User", name="limited"))
    eventually(lambda: _may(limited, "list", "pods", namespace.name), "the user may list pods")
    assert limited.list_namespaced_pod(namespace.name).items == []


def test_an_account_needs_permissions(namespace: Namespace, admin: client.ApiClient) -> None:
    robot = client.CoreV1Api(account_client(admin, namespace.name, "robot"))
    assert not _may(robot, "list", "pods", namespace.name)
    _allow(namespace, "pods", client.RbacV1Subject(kind="ServiceAccount", name="robot"))
    eventually(lambda: _may(robot, "list", "pods", namespace.name), "the account may list pods")
    assert robot.list_namespaced_pod(namespace.name).items == []


@published_crds.needed
def test_definitions_of_other_projects_are_accepted(
    namespace: Namespace, admin: client.ApiClient
) -> None:
    definition = published_crds.definition("tfjobs")
    group = "windlass-test.kubeflow.org"  # so that it does not affect other tests
    definition["spec"]["group"] = group
    definition["metadata"] = {"name": f"tfjobs.{group}"}
    definitions = client.ApiextensionsV1Api(admin)
    definitions.create_custom_resource_definition(definition)
    try:
        eventually(lambda: _is_established(definitions, f"tfjobs.{group}"), "it is established")
        objects = client.CustomObjectsApi(admin)
        container = {"name": "tensorflow", "image": "none"}
        replica = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
        job = {
            "apiVersion": f"{group}/v1",
            "kind": "TFJob",
            "metadata": {"name": "mnist"},
            "spec": {"tfReplicaSpecs": {"Worker": replica}},
        }
        objects.create_namespaced_custom_object(group, "v1", namespace.name, "tfjobs", job)
        stored = objects.get_namespaced_custom_object(
            group, "v1", namespace.name, "tfjobs", "mnist"
        )
        assert stored["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 1
    finally:
        definitions.delete_custom_resource_definition(f"tfjobs.{group}")


def test_owned_objects_are_deleted_with_their_owner(namespace: Namespace) -> None:
    core = namespace.core
    owner = core.create_namespaced_config_map(namespace.name, {"metadata": {"name": "job"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "job",
        "uid": owner.metadata.uid,
    }
    namespace.pod("owned", "sleep", "1000")
    patch = {"metadata": {"ownerReferences": [reference]}}
    core.patch_namespaced_pod("owned", namespace.name, patch)
    namespace.wait_running("owned")
    core.delete_namespaced_config_map("job", namespace.name)
    eventually(lambda: namespace.is_gone("owned"), "the pod is gone")


def test_a_pod_can_be_evicted(namespace: Namespace) -> None:
    namespace.pod("victim", "sleep", "1000")
    namespace.wait_running("victim")
    eviction = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": "victim", "namespace": namespace.name},
    }
    namespace.core.create_namespaced_pod_eviction(
        "victim", namespace.name, eviction, _preload_content=False
    )
    eventually(lambda: namespace.is_gone("victim"), "the pod is gone")


def test_a_pod_that_requests_too_much_gets_the_reason(namespace: Namespace) -> None:
    namespace.pod("greedy", "true", resources={"nvidia.com/gpu": "1"})
    eventually(
        lambda: "Insufficient nvidia.com/gpu" in _scheduling(namespace, "greedy"), "it waits"
    )


def test_accelerators_can_be_faked(namespace: Namespace, core: client.CoreV1Api) -> None:
    model = {"example.com/accelerator": "a100"}
    with accelerators(core, {"example.com/gpu": 4}, model) as node:
        namespace.pod("two", "true", resources={"example.com/gpu": "2"}, nodeSelector=model)
        namespace.output("two")
        namespace.pod("five", "true", resources={"example.com/gpu": "5"}, nodeSelector=model)
        wanted = "Insufficient example.com/gpu"
        eventually(lambda: wanted in _scheduling(namespace, "five"), "there are only four")
    after = core.read_node(node)
    assert "example.com/accelerator" not in after.metadata.labels
    assert "example.com/gpu" not in after.status.capacity


def test_a_volume_outlives_the_pods_that_write_to_it(
    namespace: Namespace, own_cluster: Cluster, tmp_path: Path
) -> None:
    volume = {"name": "kept", "hostPath": {"path": str(tmp_path)}}
    container = {
        "name": "main",
        "image": own_cluster.image,
        "command": ["sh", "-c", "echo kept > /kept/note"],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
    }
    namespace.pod("writer", volumes=[volume], containers=[container])
    namespace.output("writer")
    assert (tmp_path / "note").read_text() == "kept\n"


def test_packages_can_be_installed_in_a_pod(namespace: Namespace, own_cluster: Cluster) -> None:
    install = (
        "uv venv --quiet /tmp/env && "
        "uv pip install --quiet --python /tmp/env/bin/python cloudpickle && "
        "/tmp/env/bin/python -c 'import cloudpickle; print(cloudpickle.__name__)'"
    )
    namespace.pod("installer", "sh", "-c", install, mounts=package_index())
    assert namespace.output("installer").strip() == "cloudpickle"


def test_the_worker_runs_with_the_python_of_the_image(
    namespace: Namespace, own_cluster: Cluster
) -> None:
    program = "import windlass.worker.supervisor, sys; print(sys.executable, sys.version_info[:2])"
    namespace.python("worker", program, mounts=source())
    assert namespace.output("worker").strip() == "/usr/bin/python3 (3, 11)"


def test_the_environment_of_the_tests_runs_in_a_pod(
    namespace: Namespace, own_cluster: Cluster
) -> None:
    program = "import numpy, windlass.server, sys; print(sys.prefix)"
    namespace.pod("mounted", sys.executable, "-c", program, mounts=project_environment())
    assert namespace.output("mounted").strip() == sys.prefix


_LOOK_UP = """
import socket, sys, time
for name, wanted in {wanted!r}.items():
    found = None
    for _ in range(200):
        try:
            found = sorted(set(each[4][0] for each in socket.getaddrinfo(name, 80)))
        except socket.gaierror as error:
            found = error
        if found == wanted:
            break
        time.sleep(0.1)
    else:
        sys.exit("%s is %s, not %s" % (name, found, wanted))
"""

_ASK_API_SERVER = """
import json, ssl, time, urllib.request
own = "/var/run/secrets/kubernetes.io/serviceaccount/"
tls = ssl.create_default_context(cafile=own + "ca.crt")
url = "https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods"
headers = {{"Authorization": "Bearer " + open(own + "token").read()}}
for _ in range(100):
    try:
        request = urllib.request.Request(url, headers=headers)
        found = json.load(urllib.request.urlopen(request, context=tls, timeout=5))
        break
    except OSError as error:
        time.sleep(0.1)
else:
    raise error
print(*(each["metadata"]["name"] for each in found["items"]))
"""


class _serving:
    """A web server on this machine, with the files of a folder."""

    def __init__(self, address: str, folder: Path) -> None:
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: object, **more: object) -> None:
                super().__init__(*args, directory=str(folder), **more)  # type: ignore[arg-type]

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _make_service(namespace: Namespace, name: str, *, headless: bool) -> None:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8000}]}
    if headless:
        spec["clusterIP"] = "None"
    body = {"metadata": {"name": name}, "spec": spec}
    namespace.core.create_namespaced_service(namespace.name, body)


def _get_forwarded(namespace: Namespace, pod: str, port: int) -> str:
    """The response of a server in a pod through the API server."""
    connect = namespace.core.connect_get_namespaced_pod_portforward
    forward = portforward(connect, pod, namespace.name, ports=str(port))
    data = b""
    with contextlib.closing(forward.socket(port)) as connection:
        connection.settimeout(10)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while received := connection.recv(65536):
            data += received
    return data.decode()


def _allow(namespace: Namespace, resource: str, subject: client.RbacV1Subject) -> None:
    """Allow an account to list objects of a kind in the namespace."""
    rbac = client.RbacAuthorizationV1Api(namespace.core.api_client)
    rule = {"apiGroups": [""], "resources": [resource], "verbs": ["list"]}
    rbac.create_namespaced_role(namespace.name, {"metadata": {"name": "lister"}, "rules": [rule]})
    if subject.kind == "ServiceAccount":
        subject.namespace = namespace.name
    binding = client.V1RoleBinding(
        metadata=client.V1ObjectMeta(name="lister"),
        role_ref=client.V1RoleRef(
            api_group="rbac.authorization.k8s.io", kind="Role", name="lister"
        ),
        subjects=[subject],
    )
    rbac.create_namespaced_role_binding(namespace.name, binding)


def _may(core: client.CoreV1Api, verb: str, resource: str, namespace: str) -> bool:
    reviews = client.AuthorizationV1Api(core.api_client)
    attributes = {"verb": verb, "resource": resource, "namespace": namespace}
    review = {"spec": {"resourceAttributes": attributes}}
    return bool(reviews.create_self_subject_access_review(review).status.allowed)


def _is_established(definitions: client.ApiextensionsV1Api, name: str) -> bool:
    conditions = definitions.read_custom_resource_definition(name).status.conditions or ()
    return any(
        condition.type == "Established" and condition.status == "True" for condition in conditions
    )


def _scheduling(namespace: Namespace, pod: str) -> str:
    """The message of the scheduler about a pending pod."""
    status = namespace.core.read_namespaced_pod_status(pod, namespace.name).status
    return " ".join(condition.message or "" for condition in status.conditions or ())
