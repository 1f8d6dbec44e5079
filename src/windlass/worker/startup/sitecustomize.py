"""Python imports this module at the start of every Python program in a trial.

This works because the module's folder is the first entry of PYTHONPATH. Afterwards, the folder is
removed from `sys.path`, and the `sitecustomize` that Python would import without Windlass runs,
too. Any version of Python can read this file, because a program can start other interpreters.
"""

import os
import sys

_own_folder = os.path.dirname(os.path.abspath(__file__))
_own_module = sys.modules.pop(__name__)
try:
    import windlass_streams  # type: ignore[import-not-found]  # beside this module

    windlass_streams.order_streams()
except Exception:  # noqa: BLE001, S110  # the program then runs as without this module
    pass
try:
    import windlass_imports  # type: ignore[import-not-found]  # beside this module

    windlass_imports.use_recorded_copies()
except Exception:  # noqa: BLE001, S110  # as above
    pass
sys.path[:] = [path for path in sys.path if path != _own_folder]
sys.path_importer_cache.pop(_own_folder, None)
try:
    # The module that belongs to this interpreter or the user.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as missing:
    if getattr(missing, "name", "sitecustomize") != "sitecustomize":
        raise
sys.modules.setdefault(__name__, _own_module)  # Python expects a module with this name
