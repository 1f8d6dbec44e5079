"""Start-up files that run the user's own shell with the trial's interpreter first on the PATH.

The user's start-up files may put other folders first, as conda does. The shell therefore sets the
PATH again after reading them.
"""

from __future__ import annotations

import os

from windlass.worker.common.atomic_files import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_BASH = """\
for each in /etc/bash.bashrc ~/.bashrc; do [ -f "$each" ] && . "$each"; done
unset each
PATH={folder}:"$PATH"
"""
_ZSHENV = '[ -f "$HOME/.zshenv" ] && . "$HOME/.zshenv"\nZDOTDIR={own}\n'
_ZSHRC = """\
ZDOTDIR={home}
[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"
path=({folder} $path)
"""


def own_shell(environ: dict[str, str], attempt_dir: str) -> list[str]:
    """Return the command line of the user's shell, set up to read our start-up files.

    If the shell needs a variable for that, it is added to `environ`.
    """
    shell = environ.get("SHELL") or "/bin/sh"
    folder = environ["PATH"].split(os.pathsep)[0]
    kind = os.path.basename(shell)
    if kind == "bash":
        path = os.path.join(attempt_dir, "bashrc")
        _write(path, _BASH.format(folder=_quoted(folder)))
        return [shell, "--rcfile", path]
    if kind == "zsh":
        own = os.path.join(attempt_dir, "zsh")
        make_folder(own, 0o700)
        home = _zsh_home(environ)
        _write(os.path.join(own, ".zshenv"), _ZSHENV.format(own=_quoted(own)))
        text = _ZSHRC.format(home=_quoted(home), folder=_quoted(folder))
        _write(os.path.join(own, ".zshrc"), text)
        environ["ZDOTDIR"] = own
    if kind == "fish":
        return [shell, "-C", f"set -gx PATH {_quoted(folder)} $PATH"]
    return [shell]


def _zsh_home(environ: Mapping[str, str]) -> str:
    return environ.get("ZDOTDIR") or environ.get("HOME") or os.path.expanduser("~")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _quoted(text: str) -> str:
    r"""Quote text as one shell word.

    >>> print(_quoted("/it's here"))
    '/it'\''s here'
    """
    return "'" + text.replace("'", "'\\''") + "'"
