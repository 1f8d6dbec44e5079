"""What executables come to: their flaws, their names, and the programs that replicas run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.authoring.arguments import command_line, read_params
from windlass.authoring.checks import flaw_of, nearest
from windlass.authoring.drafting import Call
from windlass.authoring.executables import (
    Arguments,
    Command,
    Container,
    Executable,
    PythonFunction,
    PythonModule,
    PythonScript,
    Raw,
)
from windlass.authoring.function import Function, bind, check_function, name_of
from windlass.authoring.modules import module_flaw
from windlass.authoring.packaged import Packaged
from windlass.authoring.surroundings import Surroundings, is_within, look_around
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import ProcessCall

PYTHONS = ("python", "python3")
_LONGEST_NAME = 200


def executable_flaw(
    executable: Any, *, has_packages: bool = False, is_elsewhere: bool = False
) -> str:
    """What is wrong with an executable, if anything; the first line says what.

    What packages bring is not known before they are installed, nor what is there where it runs
    elsewhere, in an image.
    """
    match executable:
        case Packaged():  # the rest was looked at before
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
    meant = f"\nWrite: {_meant(executable)}" if _meant(executable) else ""
    kinds = "wl.PythonScript, wl.PythonModule, wl.PythonFunction, wl.Command or wl.Container"
    return f"{shown(executable)} is no executable: it is a {kinds}{meant}"


def executable_name(executable: Executable | Packaged) -> str:
    """What a job that runs it is called."""
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


def place_of(executables: Iterable[Executable]) -> Surroundings:
    """The project: that of the first which is a file of one, else where we are."""
    for executable in executables:
        match executable:
            case PythonScript(path, root):
                within = os.path.abspath(root) if root is not None else None
                return look_around(script=os.path.abspath(path), root=within)
            case PythonFunction(function):
                return look_around(plain_function(function))
            case Command(words) if _is_file_of_project(words[0]):
                return look_around(script=os.path.abspath(words[0]))
    return look_around()


def program_of(
    executable: Executable | Packaged, arguments: Arguments, place: Surroundings | None
) -> Call | ProcessCall:
    """What a replica is to run, its paths as seen from where it will."""
    what = unpacked(executable)
    if isinstance(what, PythonFunction):
        args, kwargs = _call_arguments(arguments)
        return Call(plain_function(what.function), args, kwargs)
    argv = executable.argv if isinstance(executable, Packaged) else words_of(what, place)
    return ProcessCall(argv=(*argv, *command_line(arguments)))


def words_of(executable: Executable, place: Surroundings | None) -> tuple[str, ...]:
    """The command line of a program without arguments, its paths as seen from where it will run.

    A function has none, and what is no file of a project needs no place.
    """
    assert place is not None  # noqa: S101 -- only what is packaged has its place in itself
    match executable:
        case PythonScript(path):
            return ("python", path_in_trial(path, place))
        case PythonModule(name):
            return ("python", "-m", name)
        case Command(words):
            return (_program_in_trial(words[0], place), *words[1:])
    return ()


def unpacked(executable: Executable | Packaged) -> Executable:
    """The executable itself, of one that is packaged."""
    return executable.executable if isinstance(executable, Packaged) else executable


def params_of(executable: Executable, arguments: Arguments) -> dict[str, Any]:
    """What is recorded of the arguments."""
    if isinstance(executable, PythonFunction):
        return bind(plain_function(executable.function), *_call_arguments(arguments))
    return program_params(own_arguments(executable), arguments)


def program_params(own: Sequence[str], arguments: Arguments) -> dict[str, Any]:
    """What is recorded of a program's arguments, those of the command itself before the others."""
    if isinstance(arguments, Mapping):
        return {**read_params(own), **_without_raw(arguments)}
    return read_params([*own, *command_line(arguments)])


def _without_raw(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are recorded: of raw words, their text."""
    return {
        name: value.text if isinstance(value, Raw) else value for name, value in arguments.items()
    }


def argument_flaw(executable: PythonFunction, arguments: Arguments) -> str:
    """Why a function cannot be called with the arguments, if it cannot."""
    try:
        bind(plain_function(executable.function), *_call_arguments(arguments))
    except TypeError as error:
        return str(error)
    return ""


# -- scripts --------------------------------------------------------------------------


def script_flaw(path: Any) -> str:
    """Why a path is no script, if it is none, and which was meant."""
    if not isinstance(path, (str, os.PathLike)):
        return f"{shown(path)} is no path of a script"
    if os.path.isfile(path):
        return ""
    if not os.path.exists(path):
        return f"there is no script {place_looked(path)}\n{nearest_file(path)}".rstrip()
    what = "is a folder, not a script" if os.path.isdir(path) else "is no file"
    return f"the script {shown(os.fspath(path))} {what}\n{nearest_file(path)}".rstrip()


def root_flaw(root: Any, path: str | os.PathLike[str]) -> str:
    """Why a folder cannot be the root of a script's project, if it cannot."""
    if root is None:
        return ""
    if not isinstance(root, (str, os.PathLike)) or not os.path.isdir(root):
        return f"root: {shown(root)} is no folder"
    if not is_within(os.path.realpath(path), os.path.realpath(root)):
        return f"root: {shown(os.fspath(path))} is not in {shown(os.fspath(root))}"
    return ""


def path_in_trial(path: str | os.PathLike[str], place: Surroundings) -> str:
    """A file of the project, as seen from where the trial will run."""
    root, real = os.path.realpath(place.root.path), os.path.realpath(path)
    name = shown(os.fspath(path))
    if not is_within(real, root):
        raise InvalidArgument(
            f"{name} is outside the project {root}, whose code the job runs.",
            hint="Move it there, or package the roles: each packaged one has its own project.",
        )
    script = place.root.script
    is_beside = script is not None and os.path.dirname(script) == os.path.dirname(real)
    if place.root.kind == "loaded" and not is_beside:
        raise InvalidArgument(
            f"{name} would not come along: {root} is too much to take whole.",
            hint="Put what belongs together into a folder of its own.",
        )
    return os.path.relpath(real, os.path.join(root, place.workdir))


def path_flaw(executable: Executable | Packaged, place: Surroundings) -> str:
    """Why the file of an executable will not be where the trial runs, if it will not."""
    if not isinstance(executable, PythonScript):
        return ""
    try:
        path_in_trial(executable.path, place)
    except InvalidArgument as error:
        return f"{error.message}\n{error.hint}"
    return ""


def stem(path: str | os.PathLike[str]) -> str:
    """What a file is called, without its ending."""
    name = os.path.splitext(os.path.basename(path))[0]
    printable = "".join(c if c.isprintable() else "?" for c in name).strip()
    return printable[:_LONGEST_NAME] or "run"


def place_looked(path: str | os.PathLike[str]) -> str:
    """A file that was not found, and the folder in which it was looked for.

    >>> place_looked("/home/ada/train.py")
    "'train.py' in /home/ada"
    """
    folder, name = os.path.split(os.fsdecode(path))
    try:
        return f"{shown(name)} in {shown(os.path.abspath(folder or '.'), str)}"
    except FileNotFoundError:
        return f"{shown(name)}: the working directory does not exist any more"


def nearest_file(path: str | os.PathLike[str]) -> str:
    """The file that was probably meant; empty if none is like it."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"There is no folder {shown(folder)} either."
    there = [each for each in names if os.path.isfile(os.path.join(folder, each))]
    near = nearest(name, there, cutoff=0.7)  # .py is alike in all
    if near is None and not name.endswith(".py") and f"{name}.py" in there:
        near = f"{name}.py"
    return f"Did you mean {os.path.join(folder, near)!r}?" if near else ""


# -- commands -------------------------------------------------------------------------


def command_name(words: Sequence[str]) -> str:
    """What a command is called: the module or script that Python runs, else the program.

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
    """Where in a call of Python its module or script stands, and whether it is a module."""
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
    """Whether the trial will find the program: where its interpreter is, then on the PATH."""
    if os.sep in name:
        return is_elsewhere and os.path.isabs(name) and not os.path.exists(name)
    if is_elsewhere and not os.path.isfile(name):
        return True
    if name in PYTHONS or os.environ.get("WINDLASS_SERVER"):
        return True  # what another machine has is not known here
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders)) is not None


def program_flaw(name: str, *, is_elsewhere: bool = False) -> str:
    """Why a word names no program, if it does not."""
    if is_command(name, is_elsewhere=is_elsewhere):
        return ""
    if not os.path.isfile(name):
        return f"there is no program {shown(name)}\n{nearest_file(name)}".rstrip()
    if not os.access(name, os.X_OK):
        return f"{shown(name)} is not executable\nMake it so: chmod +x {shlex.quote(name)}"
    return ""


def _command_flaw(words: Any, *, is_elsewhere: bool) -> str:
    if isinstance(words, str):
        try:
            meant = f"\nWrite: wl.Command({shown(shlex.split(words[:_LONGEST_NAME]))})"
        except ValueError:
            meant = ""
        return f"a command is a list of words, not a text{meant}"
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        return f"{shown(words)} is no list of words"
    if not words or not words[0]:
        return 'the command is empty; write its words: wl.Command(["torchrun", "train.py"])'
    unsound = [f"{shown(word)} {flaw}" for word in words if (flaw := flaw_of(word))]
    return unsound[0] if unsound else program_flaw(words[0], is_elsewhere=is_elsewhere)


def _program_in_trial(name: str, place: Surroundings) -> str:
    """A program of the project is run from the snapshot, another where it is."""
    if is_command(name) or not os.path.isfile(name):
        return name  # the latter is elsewhere
    if is_within(os.path.realpath(name), os.path.realpath(place.root.path)):
        return os.path.join(".", path_in_trial(name, place))
    return os.path.abspath(name)


def _is_file_of_project(name: str) -> bool:
    root = os.path.realpath(look_around().root.path)
    is_program = not is_command(name) and os.path.isfile(name)
    return is_program and is_within(os.path.realpath(name), root)


def own_arguments(executable: Executable) -> Sequence[str]:
    """The arguments that stand in a command itself."""
    if not isinstance(executable, Command):
        return ()
    return arguments_among(executable.words)


def arguments_among(words: Sequence[str]) -> Sequence[str]:
    """The words of a command that are arguments of its program, or of the script that Python runs.

    >>> arguments_among(["python", "-u", "train.py", "--lr", "1"])
    ['--lr', '1']
    """
    subject = python_subject(words)
    return words[subject[0] + 1 if subject else 1 :]


# -- containers -----------------------------------------------------------------------


def _container_flaw(image: Any, command: Any) -> str:
    if not isinstance(image, str) or not image.strip():
        return f"{shown(image)} is no name of an image"
    if command is None:
        return ""
    if isinstance(command, str) or not isinstance(command, Sequence) or not command:
        return f"command: {shown(command)} is no list of words"
    flaws = [each for each in command if not isinstance(each, str) or flaw_of(each)]
    return f"command: {shown(flaws[0])} is no word" if flaws else ""


# -- functions ------------------------------------------------------------------------


def _function_flaw(function: Any) -> str:
    try:
        check_function(plain_function(function), "wl.PythonFunction takes a function")
    except InvalidArgument as error:
        return f"{error.message}\n{error.hint}" if error.hint else error.message
    return ""


def plain_function(function: Any) -> Any:
    """The function itself, of one that is decorated with `wl.run`."""
    return function.__wrapped__ if isinstance(function, Function) else function


def _call_arguments(arguments: Arguments) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """A mapping is keyword arguments, a list positional ones."""
    return ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})


def _meant(value: Any) -> str:
    """The executable that something else was probably to be."""
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        return (
            f"wl.PythonScript({shown(text)})"
            if str(text).endswith(".py")
            else f"wl.Command({shown(str(text).split())})"
        )
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, (Packaged, Executable)) for each in value):
            return "[train] = exp.package([...]), and wl.Job(train)"
        return f"wl.Command({shown(list(value))})"
    return f"wl.PythonFunction({name_of(value)})" if callable(value) else ""
