"""Access to the API of a Kubernetes cluster, for the Kubernetes runtime and the operator.

This package may import `model` and `home`. Functions import the official client, which the extra
`kubernetes` installs. If the client is missing, an error names the extra. Responses are plain JSON.
If the cluster refuses a request, the error is a `wl.KubernetesError`.

The folders may import the modules of this folder except `check_cluster`, and these folders:

- `errors`: no other folder
- `api`: `errors`
- `capacity`: `api`
- `permissions`: `api` and `errors`
- `diagnosis`: `api` and `capacity`
"""
