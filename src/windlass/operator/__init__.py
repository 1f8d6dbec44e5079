"""The operator, which runs the TFJob and PyTorchJob objects of a Kubernetes cluster.

The operator uses the same controller and engine as the server. The subpackage `jobs` translates the
objects and stores their status, and the subpackage `pods` runs replicas as pods. `pods` may import
`jobs`, but `jobs` must not import `pods`. Both may import the modules of this folder except
`operator`. The package may import `model`, `engine`, `controller`, `frameworks`, `kube` and
`runtimes.base`. The engine makes all decisions about jobs.
"""
