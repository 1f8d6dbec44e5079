"""A trial's `__main__` is the script that the user runs, as in plain Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import Project

SHARES_HOME = True

GUARDED = 'if __name__ == "__main__":'
UNGUARDED = "if True:  # no guard"
BOTH = pytest.mark.parametrize("guard", [GUARDED, UNGUARDED], ids=["guarded", "unguarded"])

DEFINITIONS = """
import contextlib
import dataclasses
import enum
import functools
import logging
import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import windlass as wl

print("top level")
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
log = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parent
CONFIG = {"lr": 1, "data": [ROOT / "words.txt"]}
mode = "start"


class Layer:
    width = 3

    def size(self):
        return self.width


class Net(Layer):
    def __init__(self, lr):
        self.lr = lr

    def size(self):
        return super().size() * CONFIG["lr"]


class Paths:
    root = ROOT / "x"
    tags = []


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Report:
    net: Net
    color: Color


def square(x):
    return x * x


def swapped():
    return "old"


@functools.lru_cache
def offset(x):
    return x + len(mode)


def plus(amount):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args) + amount

        return inner

    return decorate


@plus(100)
def step(x):
    return x * CONFIG["lr"]


@contextlib.contextmanager
def opened(x):
    yield x * CONFIG["lr"]


Number = int if "WINDLASS_TRIAL_ID" not in os.environ else float
act = lambda x: x


@wl.run
def evaluate(net):
    return net.size()


"""


def program(guard: str, function: str, main: str) -> str:
    """Return a script with the shared definitions, a decorated function and its calls."""
    indented = "".join(f"    {line}\n" for line in main.strip().splitlines())
    return f"{DEFINITIONS}@wl.run\n{function.strip()}\n\n\n{guard}\n{indented}"


def output(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a program that succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


@BOTH
@pytest.mark.finding("U1")
def test_objects_of_the_script_are_pickled_by_name(
    home: Path, project: Project, guard: str
) -> None:
    function = """
def train(net, color):
    assert isinstance(net, Net) and color is Color.RED
    for value in (net, color, Report(net, color), step, square, opened, Net, Color, offset):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is type(value) and b"__main__" in pickle.dumps(value)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(square, [2]) == [4]
        assert type(pool.apply(Net, [1])) is Net
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert pool.submit(step, 2).result() == 102
    return Report(net, color)
"""
    main = """
report = train(Net(2), Color.RED)
assert type(report) is Report and type(report.net) is Net and report.color is Color.RED
assert [type(each) for each in wl.run(lambda x: Net(x)).map([1, 2])] == [Net, Net]
newest = next(wl.list_trials(name="train", sort_by="-id", limit=1))
assert type(newest.result()) is Report
print("done")
"""
    project.write("my-script.py", program(guard, function, main))
    assert output(project.python("my-script.py")).endswith("done\n")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.finding("U1")
def test_a_guarded_script_can_start_processes_of_every_kind(
    home: Path, project: Project, method: str
) -> None:
    function = f"""
def train():
    context = multiprocessing.get_context("{method}")
    with context.Pool(1) as pool:
        nets = [type(net) is Net for net in pool.map(Net, [1])]
    with ProcessPoolExecutor(1, context) as pool:
        return nets, list(pool.map(square, [3])), ROOT == Path.cwd()
"""
    project.write("train.py", program(GUARDED, function, "print(train())"))
    assert output(project.python("train.py")).splitlines()[-1] == "([True], [9], True)"


@BOTH
@pytest.mark.finding("U1")
def test_values_changed_before_the_call_are_those_of_the_caller(
    home: Path, project: Project, guard: str
) -> None:
    function = """
def train(extra):
    return {
        "config": CONFIG["lr"], "mode": mode, "attribute": Net.width, "method": Net(1).size(),
        "base": Layer().size(), "swapped": swapped(), "lambda": act(1), "cached": offset(1),
        "wrapped": step(1), "evaluate": evaluate(Net(1)), "extra": extra.value, "argv": sys.argv,
        "name": __name__, "tags": Paths.tags, "opened": opened(2).__enter__(),
        "number": Number("1"),
    }
"""
    main = """
class Extra:
    value = 7
def swapped():
    return "new"
CONFIG["lr"] = 5
mode = "changed"
Net.width = 11
Paths.tags.append("new")
Layer.size = lambda self: self.width + 1
act = lambda x: x * 20
before = train.local(Extra())
after = train(Extra())
assert before == after, (before, after)
print(after["config"], after["extra"], after["argv"])
"""
    project.write("train.py", program(guard, function, main))
    shown = output(project.python("train.py", "--lr", "3")).splitlines()[-1]
    assert shown == "5 7 ['train.py', '--lr', '3']"


@BOTH
@pytest.mark.finding("U7")
def test_paths_computed_from_the_script_are_in_the_copy_of_the_trial(
    home: Path, project: Project, guard: str
) -> None:
    function = """
def train(own):
    import __main__

    (ROOT / "out.txt").write_text("written")
    files = [__file__, __main__.__file__, CONFIG["data"][0], Paths.root]
    places = [ROOT, *(Path(file).parent for file in files)]
    return all(place == Path.cwd() for place in places), CONFIG["data"][0].read_text(), own
"""
    project.write("words.txt", "one two")
    project.write("train.py", program(guard, function, 'print(train(str(ROOT / "x")))'))
    last = output(project.python("train.py")).splitlines()[-1]
    assert last == repr((True, "one two", str(project.path.resolve() / "x")))
    assert not (project.path / "out.txt").exists()


@pytest.mark.finding("U14")
def test_a_guarded_script_runs_again_up_to_its_guard_and_sets_up_its_logging(
    home: Path, project: Project
) -> None:
    function = """
def train():
    log.info("training")
"""
    main = 'print("guarded part")\ntrain()'
    project.write("train.py", program(GUARDED, function, main))
    shown = output(project.python("train.py"))
    expected = ["top level", "guarded part", "top level", "__main__ training"]
    assert shown.splitlines() == expected


@pytest.mark.finding("U1")
def test_an_unguarded_script_does_not_run_again(home: Path, project: Project) -> None:
    project.write("train.py", program(UNGUARDED, "def train():\n    return 1", "print(train())"))
    assert output(project.python("train.py")) == "top level\n1\n"
    # A guard further below does not help if the script also calls functions outside of it.
    project.write(
        "mixed.py",
        program(UNGUARDED, "def train():\n    return 1", "print(train())")
        + f"\n{GUARDED}\n    print(train() + 1)\n",
    )
    assert output(project.python("mixed.py")) == "top level\n1\n2\n"
    # The same with a call inside a function, which only the line of the call shows.
    indirect = "def start():\n    print(train())\n\nstart()"
    text = program("if True:", "def train():\n    return 1", "pass") + f"\n{indirect}\n"
    project.write("indirect.py", f"{text}\n{GUARDED}\n    pass\n")
    assert output(project.python("indirect.py")) == "top level\n1\n"


@pytest.mark.finding("U1")
def test_a_spawned_process_of_an_unguarded_script_fails_with_a_tip(
    home: Path, project: Project
) -> None:
    function = """
def train():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(square, [3]))
"""
    project.write("train.py", program(UNGUARDED, function, "print(train())"))
    done = project.python("train.py")
    assert done.returncode == 1
    assert "This process loads train.py again for the trial, so train cannot run" in done.stderr
    assert "BrokenProcessPool" in done.stderr
    assert "put the calls in the script below the line" in done.stderr


@pytest.mark.finding("U1")
def test_a_module_started_by_name_has_its_relative_imports(home: Path, project: Project) -> None:
    project.write("pyproject.toml", "")
    project.write("pkg/__init__.py", "")
    project.write("pkg/data.py", "def scale(x):\n    return 10 * x\n")
    project.write(
        "pkg/train.py",
        """
        import multiprocessing
        import pickle
        import sys
        from pathlib import Path

        import windlass as wl

        from . import data


        class Net:
            pass


        def work(x):
            return data.scale(x)


        @wl.run
        def train(net):
            import __main__

            assert type(pickle.loads(pickle.dumps(net))) is Net
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                scaled = pool.map(work, [1])
            in_copy = Path(data.__file__).parent == Path(__file__).parent == Path.cwd() / "pkg"
            return scaled, __main__.__spec__.name, in_copy, sys.argv[0] == __file__


        if __name__ == "__main__":
            print(train(Net()))
        """,
    )
    shown = output(project.python("-m", "pkg.train"))
    assert shown == "([10], 'pkg.train', True, True)\n"


@BOTH
@pytest.mark.finding("U1")
def test_a_script_that_changed_after_its_start_runs_as_it_was(
    home: Path, project: Project, guard: str
) -> None:
    function = "def train():\n    return swapped(), Net(1).size(), CONFIG['lr']"
    main = """
text = Path(__file__).read_text()
Path(__file__).write_text(text.replace('"old"', '"edited"').replace('"lr": 1', '"lr": 9'))
print(train())
"""
    project.write("train.py", program(guard, function, main))
    assert output(project.python("train.py")).splitlines()[-1] == "('old', 3, 1)"


@BOTH
@pytest.mark.finding("U1")
def test_a_rerun_gets_new_arguments_with_classes_of_the_script(
    home: Path, project: Project, guard: str
) -> None:
    function = "def train(net):\n    return isinstance(net, Net), net.lr, Net(net.lr + 1)"
    main = """
trial = train.submit(Net(1))
[_, lr, net] = trial.rerun(args={"net": Net(5)}).result()
print(trial.result()[:2], lr, type(net) is Net, trial.rerun().result()[:2])
print(trial.id)
"""
    project.write("train.py", program(guard, function, main))
    *_, shown, number = output(project.python("train.py")).splitlines()
    assert shown == "(True, 1) 5 True (True, 1)"
    # Another program, without the class, can read the result.
    assert wl.get_trial(int(number)).result()[2].lr == 2


@BOTH
@pytest.mark.finding("U1")
def test_a_trial_can_submit_a_trial_of_the_same_script(
    home: Path, project: Project, guard: str
) -> None:
    definitions = DEFINITIONS + (
        "@wl.run(cpus=0.1)\ndef inner(net):\n"
        "    assert isinstance(net, Net) and pickle.dumps(net)\n"
        '    return ROOT == Path.cwd() / "scripts", Net(net.lr + 1)\n\n\n'
    )
    text = program(
        guard,
        "def outer():\n    inside, net = inner.submit(Net(1)).result()\n"
        "    assert type(net) is Net\n    return inside, net.lr",
        "print(outer.options(cpus=0.1)())",
    )
    project.write("scripts/train.py", text.replace(DEFINITIONS, definitions))
    subprocess.run(["git", "init", "--quiet"], cwd=project.path, check=True)
    assert output(project.python("scripts/train.py")).splitlines()[-1] == "(True, 2)"


@BOTH
@pytest.mark.finding("U1")
def test_a_job_with_a_function_of_the_script_has_its_main_module(
    home: Path, project: Project, guard: str
) -> None:
    function = "def train(net):\n    return type(pickle.loads(pickle.dumps(net))) is Net"
    main = """
[packaged] = wl.package([wl.PythonFunction(train)])
for program in (packaged, wl.PythonFunction(train)):
    print(wl.Job(program, args={"net": Net(1)}).submit().result())
"""
    project.write("train.py", program(guard, function, main))
    assert output(project.python("train.py")).splitlines()[-2:] == ["True", "True"]


@pytest.mark.finding("U1")
def test_classes_of_a_program_without_a_file_are_pickled_by_name(
    home: Path, project: Project
) -> None:
    text = """
import pickle, sys
import windlass as wl

class Net: pass

@wl.run
def train(net):
    return type(pickle.loads(pickle.dumps(net))) is Net, "__file__" in globals()

print(train(Net()))
"""
    shown = project.run(sys.executable, "-c", text)
    assert output(shown) == "(True, False)\n"


@pytest.mark.finding("U1")
def test_a_script_cannot_start_trials_while_it_runs_again(home: Path, project: Project) -> None:
    text = program(GUARDED, "def train():\n    return 1", "print(train())")
    hidden = "def start():\n    return train.submit()\n\nif 'trials' in str(ROOT):\n    start()\n\n"
    project.write("train.py", text.replace(GUARDED, hidden + GUARDED))
    done = project.python("train.py")
    assert done.returncode == 1
    assert "This process loads train.py again for the trial, so train cannot run" in done.stderr
