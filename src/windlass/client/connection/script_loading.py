"""Refuses to run functions while a process of a trial loads the author's script.

The script runs again in a trial, and in each process that `multiprocessing` spawns there. If the
script called functions or started trials while it loads, each of these processes would do the same.
"""

from __future__ import annotations

import os
import sys

from windlass.model.errors import Unsupported
from windlass.worker.program.main_module import LOADING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def refuse_while_loading(name: str) -> None:
    """Raise an error if this process of a trial is still loading the script."""
    if "WINDLASS_TRIAL_ID" not in os.environ or not _is_loading():
        return
    modules = (sys.modules.get(name) for name in ("__mp_main__", "__main__"))
    files = (getattr(module, "__file__", None) for module in modules)
    file = os.path.basename(next(filter(None, files), "the script"))
    raise Unsupported(
        f"This process loads {file} again for the trial, so {name} cannot run here.",
        hint='Put the calls in the script below this line: if __name__ == "__main__":\n'
        "A trial, and each process that multiprocessing spawns in it, runs only the lines above.",
    )


def _is_loading() -> bool:
    """Return whether this process still loads a script that runs in another process, too.

    This is the case in a trial that runs a script again, and in a process that `multiprocessing`
    has spawned.
    """
    main = sys.modules.get("__main__")
    process: Any = sys.modules.get("multiprocessing.process")
    is_spawned = process is not None and getattr(process.current_process(), "_inheriting", False)
    return bool(is_spawned) or (main is not None and LOADING in vars(main))
