"""The operator for TFJob and PyTorchJob objects, on the same controller and engine as the server.

`jobs` reads the objects as jobs and stores their status, `pods` runs replicas as pods. `pods` may
import `jobs`, not the other way round; both may import the modules of this folder except
`operator`. May import `model`, `engine`, `controller`, `frameworks`, `kube` and `runtimes.base`.
The engine makes all decisions about jobs.
"""
