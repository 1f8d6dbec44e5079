"""Access to the API of a Kubernetes cluster, for the runtime and the operator.

May import `model` and `home`. Functions import the official client, which is the extra
`kubernetes`; an error names the extra if it is missing. Responses are plain JSON, and a refusal of
the cluster is a `wl.KubernetesError`. `errors` imports no other folder; `api` imports `errors`;
`capacity` imports `api`; `permissions` imports `api` and `errors`; `diagnosis` imports `api` and
`capacity`. All of them may import the modules of this folder except `check_cluster`.
"""
