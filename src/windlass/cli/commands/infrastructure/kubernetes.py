"""Implements `windlass kubernetes`, which checks the cluster and prints roles and manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.lazy_groups import Group
from windlass.cli.options.parameters import json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.cli.options.which_cluster import ClusterCheckResult
    from windlass.home import Home

_EXAMPLES = examples(
    "windlass kubernetes check --namespace research",
    "windlass kubernetes rights --account ada | kubectl apply -f -",
    "windlass kubernetes manifest job.toml",
)


@click.group(
    cls=Group,
    short_help="Check a Kubernetes cluster, print roles and manifests.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Check the cluster for jobs with backend="kubernetes", or print roles and manifests.

    Windlass uses the first of these settings that exists: the last login from a script, KUBECONFIG,
    ~/.kube/config, the cluster that this process runs in. A running server keeps using the
    KUBECONFIG from when it started. The commands use the same settings as the server, and warn if
    this shell's settings differ. --context selects a context from this shell's settings.
    """


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a cluster and a namespace to a command."""
    options = (
        click.option("--context", metavar="NAME", help="Context of the kubeconfig file."),
        click.option("-n", "--namespace", metavar="NAME", help="Namespace (that of the context)."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(
    short_help="Check that jobs can run on the cluster.",
    epilog=examples(
        "windlass kubernetes check --namespace research",
    ),
)
@_where
@json_option
def check(context: str | None, namespace: str | None, as_json: bool) -> int:
    """Check that jobs can run on the cluster, and suggest fixes.

    The check covers the connection, the account, the namespace, all permissions and the
    accelerators. It creates nothing. The exit code is 1 if something needs fixing.
    """
    from windlass.cli.options.cluster_findings import check_cluster_findings
    from windlass.cli.output.findings import print_findings
    from windlass.home import Home

    return print_findings(check_cluster_findings(Home.find(), context, namespace), as_json=as_json)


@command.command(
    short_help="Print the role that an account needs.",
    epilog=examples(
        "windlass kubernetes rights --account ada | kubectl apply -f -",
    ),
)
@_where
@click.option("--account", metavar="NAME", help="Account of the role (the current one).")
@json_option
def rights(context: str | None, namespace: str | None, account: str | None, as_json: bool) -> None:
    """Print a role with all permissions that Windlass needs, and its binding to an account.

    Let an administrator apply the output with kubectl. The account is a user or a service account
    such as system:serviceaccount:NAMESPACE:NAME.
    """
    from windlass.cli.options.which_cluster import find_namespace_and_account
    from windlass.cli.output.json import print_json
    from windlass.home import Home
    from windlass.kube.api.yaml import as_yaml
    from windlass.kube.permissions.required import role_manifests

    if not (namespace and account):
        home = Home.find()
        where, who, check = find_namespace_and_account(home, context, namespace, account)
        _warn_of_cluster_mismatch(home, namespace, check)
        namespace, account = where, who
    manifests = role_manifests(namespace, account)
    print_json(manifests) if as_json else print(as_yaml(manifests), end="")


def _warn_of_cluster_mismatch(home: Home, namespace: str | None, check: ClusterCheckResult) -> None:
    """Print a warning if this shell's settings select a different cluster than the server uses."""
    from windlass.cli.options.which_cluster import find_cluster_mismatch
    from windlass.cli.output.text import print_message

    for finding in find_cluster_mismatch(home, namespace, check):
        print_message(
            f"Warning: {finding.check} {finding.text.removeprefix('it ')}\n{finding.remedy}"
        )


@command.command(
    short_help="Print the Kubernetes objects of a job.",
    epilog=examples(
        "windlass kubernetes manifest job.toml",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False), metavar="JOB.TOML")
@_where
@json_option
def manifest(file: str, context: str | None, namespace: str | None, as_json: bool) -> None:
    """Print the Kubernetes objects for a job file, without creating or submitting anything.

    Names contain 0 in place of the trial id, and secrets have no values. Without access to a
    cluster, accelerators are translated to common node labels.
    """
    import sys

    import msgspec

    from windlass.authoring.prepare.job_spec import build_outline
    from windlass.authoring.public.job_file import read_job
    from windlass.cli.options.which_cluster import preview_manifests
    from windlass.cli.output.json import print_json
    from windlass.home import Home
    from windlass.kube.api.yaml import as_yaml
    from windlass.model.backends import KUBERNETES
    from windlass.model.check_results import ShowManifests
    from windlass.model.errors import InvalidArgument
    from windlass.model.job import Python
    from windlass.model.kubernetes.job_options import KubernetesOptions

    python = Python(version=f"{sys.version_info.major}.{sys.version_info.minor}")
    spec = msgspec.structs.replace(build_outline(read_job(file)), python=python)
    if spec.backend != KUBERNETES:
        raise InvalidArgument(
            f"{file}: the job runs on the server's machine, not in pods.",
            hint='To run it on a cluster: executor = { backend = "kubernetes" }',
        )
    named = (spec.roles[0].kubernetes or KubernetesOptions()).namespace
    if namespace and named and namespace != named:
        raise InvalidArgument(
            f"{file} has namespace {named}, but --namespace is {namespace}.",
            hint="Remove one of them.",
        )
    home = Home.find()
    request = ShowManifests(spec=spec, namespace=namespace or "")
    objects, check = preview_manifests(home, context, request)
    _warn_of_cluster_mismatch(home, namespace, check)
    print_json(objects) if as_json else print(as_yaml(objects), end="")
