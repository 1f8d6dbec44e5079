"""The operator: TFJob and PyTorchJob objects in, the same controller and engine beneath.

What an object asks for becomes a job (`translating`), its pods are a runtime's replicas
(`runtime`), what is remembered of it is kept in the object itself (`memory`), and what is said of
it is its status (`projecting`). May import `model`, `engine`, `controller`, `frameworks`, `kube`
and `runtimes.protocol`. Decides nothing about jobs itself: the engine does.
"""
