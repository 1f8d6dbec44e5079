"""What can be asked of a server, a file a noun: the methods of `wl.Client`.

Each file has one class, of which `Client` (client/session.py) is put together. The functions of
the module `windlass` are these very methods, of the default client (windlass/api.py): a docstring
here is that of both, and its examples call the functions.
"""
