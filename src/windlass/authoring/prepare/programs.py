"""Checks executables such as `wl.PythonScript`, and converts them to command lines."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.authoring.checks.command_line import command_line, read_params
from windlass.authoring.checks.modules import module_flaw
from windlass.authoring.checks.options import find_text_flaw, nearest
from windlass.authoring.prepare.call_site import CallSite, is_within, read_call_site
from windlass.authoring.public.executables import (
    Arguments,
    Command,
    Container,
    Executable,
    PythonFunction,
    PythonModule,
    PythonScript,
    Raw,
)
from windlass.authoring.public.packaged import Packaged
from windlass.authoring.public.run_decorator import Function, bind, check_function, name_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import ProcessCall
from windlass.packaging.draft import Call

PYTHONS = ("python", "python3")
_LONGEST_NAME = 200


def executable_flaw(
    executable: Any, *, has_packages: bool = False, is_elsewhere: bool = False
) -> str:
    """Return why an executable cannot run, or "" if it can.

    Any lines after the first are a hint. Modules from packages that are yet to be installed are not
    checked, and neither are files inside images.
    """
    match executable:
        case Packaged():  # packaging already checked everything else
            return executable.flaw if not (has_packages or is_elsewhere) else ""
        case PythonScript(path, root):
            return script_flaw(path) or root_flaw(root, path)
        case PythonModule(name):
            return module_flaw(name) if not (has_packages or is_elsewhere) else ""
        case PythonFunction(function):
            return _function_flaw(function)
        case Command(words):
            return _command_flaw(words, is_elsewhere=is_elsewhere)
        case Container(image, command):
            return _container_flaw(image, command)
    meant = f"\nWrite: {_suggest_executable(executable)}" if _suggest_executable(executable) else ""
    kinds = "wl.PythonScript, wl.PythonModule, wl.PythonFunction, wl.Command or wl.Container"
    return f"{shown(executable)} is not an executable; write {kinds}{meant}"


def executable_name(executable: Executable | Packaged) -> str:
    """Return the default name for a job that runs this executable."""
    match executable:
        case Packaged():
            return executable.name
        case Container(image):
            return image.rpartition("/")[2].partition(":")[0] or "container"
        case PythonScript(path):
            return stem(path)
        case PythonModule(name):
            return name[:_LONGEST_NAME]
        case PythonFunction(function):
            return name_of(function)
        case Command(words):
            return command_name(words)


def find_call_site(executables: Iterable[Executable]) -> CallSite:
    """Return the call site of the first executable that determines a project.

    If no executable does, return this process's call site.
    """
    for executable in executables:
        match executable:
            case PythonScript(path, root):
                within = os.path.abspath(root) if root is not None else None
                return read_call_site(script=os.path.abspath(path), root=within)
            case PythonFunction(function):
                return read_call_site(plain_function(function))
            case Command(words) if _is_file_of_project(words[0]):
                return read_call_site(script=os.path.abspath(words[0]))
    return read_call_site()


def build_program(
    executable: Executable | Packaged, arguments: Arguments, call_site: CallSite | None
) -> Call | ProcessCall:
    """Build the command or function call of a replica, with paths that are valid in the trial."""
    what = unwrap(executable)
    if isinstance(what, PythonFunction):
        args, kwargs = _call_arguments(arguments)
        return Call(plain_function(what.function), args, kwargs)
    argv = executable.argv if isinstance(executable, Packaged) else command_words(what, call_site)
    return ProcessCall(argv=(*argv, *command_line(arguments)))


def command_words(executable: Executable, call_site: CallSite | None) -> tuple[str, ...]:
    """Return an executable's command line, without arguments.

    Paths in the command line are paths in the trial. For a function, the command line is empty.
    """
    assert call_site is not None  # noqa: S101 -- packaged programs have argv
    match executable:
        case PythonScript(path):
            return ("python", path_in_trial(path, call_site))
        case PythonModule(name):
            return ("python", "-m", name)
        case Command(words):
            return (_program_in_trial(words[0], call_site), *words[1:])
    return ()


def unwrap(executable: Executable | Packaged) -> Executable:
    """Return the executable inside a packaged executable, and any other executable unchanged."""
    return executable.executable if isinstance(executable, Packaged) else executable


def record_params(executable: Executable, arguments: Arguments) -> dict[str, Any]:
    """Return the parameters to record for an executable and its arguments."""
    if isinstance(executable, PythonFunction):
        return bind(plain_function(executable.function), *_call_arguments(arguments))
    return program_params(own_arguments(executable), arguments)


def program_params(own: Sequence[str], arguments: Arguments) -> dict[str, Any]:
    """Return a program's parameters, for the trial's record.

    The parameters come from the command's own words (`own`) and from the job's arguments.
    """
    if isinstance(arguments, Mapping):
        return {**read_params(own), **_without_raw(arguments)}
    return read_params([*own, *command_line(arguments)])


def _without_raw(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each `wl.Raw` with its text, because parameters are recorded as plain values."""
    return {
        name: value.text if isinstance(value, Raw) else value for name, value in arguments.items()
    }


def argument_flaw(executable: PythonFunction, arguments: Arguments) -> str:
    """Return why a function does not accept the arguments, or "" if it does."""
    try:
        bind(plain_function(executable.function), *_call_arguments(arguments))
    except TypeError as error:
        return str(error)
    return ""


# -- scripts --------------------------------------------------------------------------


def script_flaw(path: Any) -> str:
    """Return why a path is not a Python script, including a suggestion, or "" if it is one."""
    if not isinstance(path, (str, os.PathLike)):
        return f"{shown(path)} is not a path of a script"
    if os.path.isfile(path):
        return ""
    if not os.path.exists(path):
        return f"there is no script {describe_missing_file(path)}\n{nearest_file(path)}".rstrip()
    what = "is a folder, not a script" if os.path.isdir(path) else "is not a file"
    return f"the script {shown(os.fspath(path))} {what}\n{nearest_file(path)}".rstrip()


def root_flaw(root: Any, path: str | os.PathLike[str]) -> str:
    """Return why a folder cannot be a script's project, or "" if it can."""
    if root is None:
        return ""
    if not isinstance(root, (str, os.PathLike)) or not os.path.isdir(root):
        return f"root: {shown(root)} is not a folder"
    if not is_within(os.path.realpath(path), os.path.realpath(root)):
        return f"root: {shown(os.fspath(path))} is not in {shown(os.fspath(root))}"
    return ""


def path_in_trial(path: str | os.PathLike[str], call_site: CallSite) -> str:
    """Return the path of a project file inside the trial."""
    root, real = os.path.realpath(call_site.root.path), os.path.realpath(path)
    name = shown(os.fspath(path))
    if not is_within(real, root):
        raise InvalidArgument(
            f"{name} is outside the project {root}, whose code the job runs.",
            hint="Move it into the project, or package each role: packaged roles may come "
            "from different projects.",
        )
    script = call_site.root.script
    is_beside = script is not None and os.path.dirname(script) == os.path.dirname(real)
    if call_site.root.kind == "loaded" and not is_beside:
        raise InvalidArgument(
            f"{name} would not be copied: {root} is too large to copy.",
            hint="Move the program and the files that it needs into a folder of their own.",
        )
    return os.path.relpath(real, os.path.join(root, call_site.workdir))


def path_flaw(executable: Executable | Packaged, call_site: CallSite) -> str:
    """Return why an executable's script would be missing in a trial, or "" if it would not be."""
    if not isinstance(executable, PythonScript):
        return ""
    try:
        path_in_trial(executable.path, call_site)
    except InvalidArgument as error:
        return f"{error.message}\n{error.hint}"
    return ""


def stem(path: str | os.PathLike[str]) -> str:
    """Return a file's name without its extension."""
    name = os.path.splitext(os.path.basename(path))[0]
    printable = "".join(c if c.isprintable() else "?" for c in name).strip()
    return printable[:_LONGEST_NAME] or "run"


def describe_missing_file(path: str | os.PathLike[str]) -> str:
    """Describe a missing file and the folder where it was expected.

    >>> describe_missing_file("/home/ada/train.py")
    "'train.py' in /home/ada"
    """
    folder, name = os.path.split(os.fsdecode(path))
    try:
        return f"{shown(name)} in {shown(os.path.abspath(folder or '.'), str)}"
    except FileNotFoundError:
        return f"{shown(name)}: the working directory no longer exists"


def nearest_file(path: str | os.PathLike[str]) -> str:
    """Return a hint that names a similar file, or "" if no file is similar."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"There is no folder {shown(folder)} either."
    there = [file for file in names if os.path.isfile(os.path.join(folder, file))]
    near = nearest(name, there, cutoff=0.7)  # a high cutoff, because all names end in .py
    if near is None and not name.endswith(".py") and f"{name}.py" in there:
        near = f"{name}.py"
    return f"Did you mean {os.path.join(folder, near)!r}?" if near else ""


# -- commands -------------------------------------------------------------------------


def command_name(words: Sequence[str]) -> str:
    """Return a name for a command, from its Python module, its script, or else its program.

    >>> command_name(["python", "-u", "-m", "pkg.train", "--lr", "1"])
    'pkg.train'
    >>> command_name(["python", "jobs/train.py"]), command_name(["/bin/echo", "hello"])
    ('train', 'echo')
    """
    what = python_subject(words)
    if what is not None:
        position, is_module = what
        return words[position][:_LONGEST_NAME] if is_module else stem(words[position])
    return stem(words[0])


def python_subject(words: Sequence[str]) -> tuple[int, bool] | None:
    """Return the position of the module or script in a command that runs Python.

    The boolean is True for a module. Return None if the command runs neither.
    """
    if not os.path.basename(words[0]).startswith("python"):
        return None
    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m" and position + 1 < len(words):
            return position + 1, True
        if word == "-c" or word == "-":
            return None
        if not word.startswith("-"):
            return position, False
        position += 2 if word in ("-W", "-X", "--check-hash-based-pycs") else 1
    return None


def is_command(name: str, *, is_elsewhere: bool = False) -> bool:
    """Return whether a program is on the PATH or next to the Python interpreter.

    `is_elsewhere` is True if the trial runs on another machine, whose programs are unknown.
    """
    if os.sep in name:
        return is_elsewhere and os.path.isabs(name) and not os.path.exists(name)
    if is_elsewhere and not os.path.isfile(name):
        return True
    if name in PYTHONS or os.environ.get("WINDLASS_SERVER"):
        return True  # programs on another machine are not checked
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders)) is not None


def program_flaw(name: str, *, is_elsewhere: bool = False) -> str:
    """Return why a command's first word is not a program, or "" if it is."""
    if is_command(name, is_elsewhere=is_elsewhere):
        return ""
    if not os.path.isfile(name):
        return f"there is no program {shown(name)}\n{nearest_file(name)}".rstrip()
    if not os.access(name, os.X_OK):
        return f"{shown(name)} is not executable\nMake it executable: chmod +x {shlex.quote(name)}"
    return ""


def _command_flaw(words: Any, *, is_elsewhere: bool) -> str:
    if isinstance(words, str):
        try:
            meant = f"\nWrite: wl.Command({shown(shlex.split(words[:_LONGEST_NAME]))})"
        except ValueError:
            meant = ""
        return f"a command is a list of words, not a string{meant}"
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        return f"{shown(words)} is not a list of words"
    if not words or not words[0]:
        return 'the command is empty; write its words: wl.Command(["torchrun", "train.py"])'
    unsound = [f"{shown(word)} {flaw}" for word in words if (flaw := find_text_flaw(word))]
    return unsound[0] if unsound else program_flaw(words[0], is_elsewhere=is_elsewhere)


def _program_in_trial(name: str, call_site: CallSite) -> str:
    """Return a program's path inside the trial, where the snapshot holds the project's files."""
    if is_command(name) or not os.path.isfile(name):
        return name  # the file may exist on another machine
    if is_within(os.path.realpath(name), os.path.realpath(call_site.root.path)):
        return os.path.join(".", path_in_trial(name, call_site))
    return os.path.abspath(name)


def _is_file_of_project(name: str) -> bool:
    root = os.path.realpath(read_call_site().root.path)
    is_program = not is_command(name) and os.path.isfile(name)
    return is_program and is_within(os.path.realpath(name), root)


def own_arguments(executable: Executable) -> Sequence[str]:
    """Return the arguments that a `wl.Command` already contains."""
    if not isinstance(executable, Command):
        return ()
    return arguments_among(executable.words)


def arguments_among(words: Sequence[str]) -> Sequence[str]:
    """Return the words after a command's program or Python script.

    >>> arguments_among(["python", "-u", "train.py", "--lr", "1"])
    ['--lr', '1']
    """
    subject = python_subject(words)
    return words[subject[0] + 1 if subject else 1 :]


# -- containers -----------------------------------------------------------------------


def _container_flaw(image: Any, command: Any) -> str:
    if not isinstance(image, str) or not image.strip():
        return f"{shown(image)} is not a valid image name"
    if command is None:
        return ""
    if isinstance(command, str) or not isinstance(command, Sequence) or not command:
        return f"command: {shown(command)} is not a list of words"
    flaws = [word for word in command if not isinstance(word, str) or find_text_flaw(word)]
    return f"command: {shown(flaws[0])} is not a word" if flaws else ""


# -- functions ------------------------------------------------------------------------


def _function_flaw(function: Any) -> str:
    try:
        check_function(plain_function(function), "wl.PythonFunction takes a function")
    except InvalidArgument as error:
        return f"{error.message}\n{error.hint}" if error.hint else error.message
    return ""


def plain_function(function: Any) -> Any:
    """Return the undecorated function. A function without `wl.run` is returned unchanged."""
    return function.__wrapped__ if isinstance(function, Function) else function


def _call_arguments(arguments: Arguments) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return a job's arguments for a function as positional and keyword arguments.

    One of the two is always empty.
    """
    return ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})


def _suggest_executable(value: Any) -> str:
    """Suggest an executable in place of a value that is not one."""
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        return (
            f"wl.PythonScript({shown(text)})"
            if str(text).endswith(".py")
            else f"wl.Command({shown(str(text).split())})"
        )
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, (Packaged, Executable)) for item in value):
            return "[train] = exp.package([...]), and wl.Job(train)"
        return f"wl.Command({shown(list(value))})"
    return f"wl.PythonFunction({name_of(value)})" if callable(value) else ""
