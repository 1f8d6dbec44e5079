"""What speaks to the API of a Kubernetes cluster, for whoever needs one.

May import `model` and `home`. The official client is the extra `kubernetes`: it is imported inside
functions, and where it is missing the error names the extra. What comes back is plain JSON, as
dicts; what a cluster refuses is a `wl.KubernetesError`. Nothing here decides about jobs.
"""
