"""Access to the API of a Kubernetes cluster, for the Kubernetes runtime and the operator.

This package may import `model` and `home`. The official client, which the extra `kubernetes`
installs, is imported only inside functions. If the client is missing, an error names the extra.
Responses are plain JSON. If the cluster refuses a request, Windlass raises `wl.KubernetesError`.

Each subfolder may import all modules of this folder except `check_cluster`, and also these
subfolders:

- `errors`: no other subfolder
- `api`: `errors`
- `capacity`: `api`
- `permissions`: `api` and `errors`
- `diagnosis`: `api` and `capacity`
"""
