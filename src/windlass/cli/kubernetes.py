"""`windlass kubernetes`: is the cluster ready for trials, and what is needed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.groups import Group
from windlass.cli.parameters import json_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.cli.meant_cluster import Asked
    from windlass.home import Home

_EXAMPLES = """Examples:

\b
  windlass kubernetes check
  windlass kubernetes check --namespace research
  windlass kubernetes rights --namespace research --account ada | kubectl apply -f -
  windlass kubernetes manifest job.toml
"""


@click.group(
    cls=Group,
    short_help="Check a Kubernetes cluster, and show what is needed there.",
    epilog=_EXAMPLES,
)
def command() -> None:
    """Check a Kubernetes cluster, and show what is needed there.

    The cluster is the one that jobs with backend="kubernetes" use: that of the last login from a
    script, of KUBECONFIG, of ~/.kube/config, or the one this runs in. The server runs the jobs, so
    it is asked, if one runs: it has the KUBECONFIG that it was started with. That this shell means
    another cluster is told. With --context, this shell's is looked at.
    """


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster and namespace is meant."""
    options = (
        click.option("--context", metavar="NAME", help="A context of the kubeconfig file."),
        click.option("-n", "--namespace", metavar="NAME", help="The namespace (the context's)."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(short_help="Check that jobs can run on the cluster.")
@_where
@json_option
def check(context: str | None, namespace: str | None, as_json: bool) -> int:
    """Check that jobs can run on the cluster, and say how to mend what is wrong.

    Looked at: that it can be reached, who we are there, the namespace, each right that is needed,
    the accelerators of its machines. Nothing is created. Exit code 1: something must be mended.
    """
    from windlass.cli.cluster_findings import look_at_cluster
    from windlass.cli.findings import tell
    from windlass.home import Home

    return tell(look_at_cluster(Home.find(), context, namespace), as_json=as_json)


@command.command(short_help="Print the role that an account needs.")
@_where
@click.option("--account", metavar="NAME", help="Whom it is for (who we are).")
@json_option
def rights(context: str | None, namespace: str | None, account: str | None, as_json: bool) -> None:
    """Print a role with all that Windlass needs in a namespace, bound to an account.

    For somebody who may grant it: pipe it to kubectl apply -f -. The account is a user, or a
    service account as the cluster writes it: system:serviceaccount:NAMESPACE:NAME.
    """
    from windlass.cli.machine import print_json
    from windlass.cli.meant_cluster import who_and_where
    from windlass.home import Home
    from windlass.kube.manifests import as_yaml
    from windlass.kube.rights import role_manifests

    if not (namespace and account):
        home = Home.find()
        where, who, asked = who_and_where(home, context, namespace, account)
        _tell_apart(home, namespace, asked)
        namespace, account = where, who
    manifests = role_manifests(namespace, account)
    print_json(manifests) if as_json else print(as_yaml(manifests), end="")


def _tell_apart(home: Home, namespace: str | None, asked: Asked) -> None:
    """Say beside the output that this shell means another cluster, if it does."""
    from windlass.cli.meant_cluster import told_apart
    from windlass.cli.text import say

    for finding in told_apart(home, namespace, asked):
        say(f"Warning: {finding.check} {finding.text.removeprefix('it ')}\n{finding.mend}")


@command.command(short_help="Print what would be created for a job.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False), metavar="JOB.TOML")
@_where
@json_option
def manifest(file: str, context: str | None, namespace: str | None, as_json: bool) -> None:
    """Print what would be created in the cluster for the job that a file describes.

    Nothing is created or submitted. Its trial has no number yet, so that names have a 0 in its
    place, and what the secret holds is left out. Without a cluster at hand, accelerators become
    what is in common use.
    """
    import sys

    import msgspec

    from windlass.authoring.jobfile import read_job
    from windlass.authoring.outlines import outline_of
    from windlass.cli.machine import print_json
    from windlass.cli.meant_cluster import manifests
    from windlass.home import Home
    from windlass.kube.manifests import as_yaml
    from windlass.model.errors import InvalidArgument
    from windlass.model.findings import ShowManifests
    from windlass.model.job import Python
    from windlass.model.kubernetes import KubernetesOptions

    python = Python(version=f"{sys.version_info.major}.{sys.version_info.minor}")
    spec = msgspec.structs.replace(outline_of(read_job(file)), python=python)
    if spec.is_local:
        raise InvalidArgument(
            f"{file}: the job runs on the server's machine, in no pods.",
            hint='Have it run on a cluster: executor = { backend = "kubernetes" }',
        )
    named = (spec.roles[0].kubernetes or KubernetesOptions()).namespace
    if namespace and named and namespace != named:
        raise InvalidArgument(
            f"{file} says namespace {named}, and --namespace {namespace}.",
            hint="Leave one of them out.",
        )
    home = Home.find()
    found, asked = manifests(home, context, ShowManifests(spec=spec, namespace=namespace or ""))
    _tell_apart(home, namespace, asked)
    print_json(found) if as_json else print(as_yaml(found), end="")
