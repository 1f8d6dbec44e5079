"""Functions under the local runtime: values, exceptions, and unpicklable objects."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from local_runtime import World

from windlass.model.job import Code, Python
from windlass.model.status import Phase


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("functions") / "home")
    yield world
    world.close()


@pytest.fixture(autouse=True)
def _by_value() -> Iterator[None]:
    """Pickle functions of this file by value, like those of `__main__`."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Trouble(Exception):
    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"trouble {code}")
        self.code = code


def error_of(world: World, job: object) -> dict[str, object]:
    error_record = world.json(job, "error.json")  # type: ignore[arg-type]
    assert isinstance(error_record, dict)
    return error_record


def test_a_value_comes_back(world: World) -> None:
    def add(a: int, *, b: int) -> dict[str, int]:
        return {"sum": a + b}

    job = world.call(add, 2, kwargs={"b": 3})
    assert world.run(job).phase is Phase.SUCCEEDED
    assert world.value(job) == {"sum": 5}
    assert world.json(job, "result.json") == {"text": "{'sum': 5}"}
    assert os.stat(world.path(job, "result.pkl")).st_mode & 0o777 == 0o600


def test_a_class_pickled_by_value_comes_back_as_itself(world: World) -> None:
    job = world.call(lambda point: Point(point.x + 1), Point(1))
    assert world.run(job).exit_code == 0
    value = world.value(job)
    assert type(value) is Point and value.x == 2


def test_a_function_of_a_module_is_loaded_from_the_snapshot(world: World) -> None:
    files = {
        "src/pkg/__init__.py": "",
        "src/pkg/train.py": """
            import os, sys
            from pkg.helper import double

            class Decorated:
                def __init__(self, function):
                    self.__wrapped__ = function

            @Decorated
            def train(x):
                return double(x), os.getcwd(), sys.argv, sys.path
            """,
        "src/pkg/helper.py": "def double(x): return 2 * x",
    }
    code = Code(import_paths=("src",), workdir="src", root="/home/ada/project")
    job = world.call(("pkg.train", "train"), 4, files=files, code=code)
    assert world.run(job).exit_code == 0
    value, cwd, argv, paths = world.value(job)
    work = str(world.path(job).parent / "work")
    assert (value, cwd, argv) == (8, f"{work}/src", ["f"])
    assert paths[0] == f"{work}/src"
    assert not [path for path in paths if path.endswith("windlass/worker")]


def test_an_exception_comes_back_with_its_cause_and_readable_paths(world: World) -> None:
    files = {
        "train.py": """
            def train():
                try:
                    1 / 0
                except ZeroDivisionError as error:
                    raise ValueError("bad learning rate") from error
            """
    }
    job = world.call(("train", "train"), files=files)
    ended = world.run(job)
    assert (ended.exit_code, ended.reason) == (1, "")
    error = error_of(world, job)
    assert (error["type"], error["message"]) == ("ValueError", "bad learning rate")
    text = str(error["traceback"])
    assert 'File "/home/ada/project/train.py", line 3, in train\n    1 / 0' in text
    assert "worker" not in text and str(world.home) not in text
    assert error["pickled"] is True
    again = pickle.loads(world.path(job, "error.pkl").read_bytes())
    assert isinstance(again, ValueError) and isinstance(again.__cause__, ZeroDivisionError)
    shown = "\n".join(text for stream, text in world.lines(job) if stream == "stderr")
    assert shown == text.rstrip("\n")


def test_an_exception_with_an_unusual_constructor_comes_back(
    world: World,
) -> None:
    def fail() -> None:
        raise Trouble(7, hint="none")

    job = world.call(fail)
    world.run(job)
    error = error_of(world, job)
    assert str(error["type"]).endswith("Trouble")
    assert (error["message"], error["pickled"]) == ("trouble 7", True)
    again = pickle.loads(world.path(job, "error.pkl").read_bytes())
    assert (type(again).__name__, str(again)) == ("Trouble", "trouble 7")


def test_an_exception_that_cannot_be_pickled_comes_back_as_text(world: World) -> None:
    def fail() -> None:
        trouble = Trouble(7, hint="none")
        trouble.lock = threading.Lock()  # type: ignore[attr-defined]
        raise trouble

    job = world.call(fail)
    world.run(job)
    error = error_of(world, job)
    assert (error["message"], error["pickled"]) == ("trouble 7", False)
    assert not world.path(job, "error.pkl").exists()


def test_a_result_that_cannot_be_pickled_names_the_part(world: World) -> None:
    def fail() -> dict[str, object]:
        import threading

        return {"fine": 1, "model": [threading.Lock()]}

    job = world.call(fail)
    assert world.run(job).exit_code == 1
    error = error_of(world, job)
    assert error["type"] == "windlass.SerializationError"
    assert "result['model'][0]" in str(error["message"])
    assert not world.path(job, "result.pkl").exists()


def test_a_missing_module_is_the_error_of_the_trial(world: World) -> None:
    job = world.call(("no_such_module", "train"))
    assert world.run(job).exit_code == 1
    error = error_of(world, job)
    assert error["type"] == "ModuleNotFoundError"
    assert error["message"] == "No module named 'no_such_module'"


@pytest.mark.parametrize(
    ("leave", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('gone')", 1), ("os._exit(9)", 9)],
)
def test_leaving_by_exit_is_not_an_exception(world: World, leave: str, code: int) -> None:
    job = world.call(
        ("leaver", "leave"), files={"leaver.py": f"import os, sys\ndef leave(): {leave}"}
    )
    assert world.run(job).exit_code == code
    assert not world.path(job, "error.json").exists()
    if "gone" in leave:
        assert world.lines(job) == [("stderr", "gone")]


def test_an_interrupt_exits_with_130(world: World) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert world.run(world.call(interrupt)).exit_code == 130


def test_exit_handlers_run_after_the_value_is_stored(world: World) -> None:
    def late() -> str:
        import atexit
        import threading
        import time

        atexit.register(lambda: print("at exit"))
        threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
        return "value"

    job = world.call(late)
    assert world.run(job).exit_code == 0
    assert world.value(job) == "value"
    assert world.lines(job) == [("stdout", "thread"), ("stdout", "at exit")]


def test_secrets_are_also_masked_in_the_error(world: World) -> None:
    def fail() -> None:
        raise RuntimeError("cannot log in with hunter2hunter2")

    secrets = {"secrets": {"PASSWORD": "hunter2hunter2"}}
    job = world.call(fail, private=secrets, secret_names=("PASSWORD",))
    world.run(job)
    error = error_of(world, job)
    assert error["message"] == "cannot log in with ***"
    assert "hunter2" not in str(error["traceback"])
    assert not [text for _, text in world.lines(job) if "hunter2" in text]
    job = world.call(lambda: "hunter2hunter2", private=secrets, secret_names=("PASSWORD",))
    world.run(job)
    assert world.json(job, "result.json") == {"text": "'***'"}
    assert world.value(job) == "hunter2hunter2"


def test_user_code_gets_its_own_windlass(world: World) -> None:
    def versions() -> tuple[str, str]:
        import windlass
        import windlass.worker.common.atomic_files

        return windlass.__version__, windlass.worker.common.atomic_files.__name__

    job = world.call(versions)
    world.run(job)
    assert world.value(job) == (
        __import__("windlass").__version__,
        "windlass.worker.common.atomic_files",
    )


def test_extra_paths_come_last(world: World, tmp_path: Path) -> None:
    (tmp_path / "extra_module_of_mine.py").write_text("x = 1")

    def find() -> tuple[int, str]:
        import sys

        import extra_module_of_mine

        return extra_module_of_mine.x, sys.path[-1]

    job = world.call(find, python=Python(extra_paths=(str(tmp_path),)))
    world.run(job)
    assert world.value(job) == (1, str(tmp_path))


def test_an_interpreter_without_cloudpickle_gets_one(world: World) -> None:
    def add(a: int) -> int:
        return a + 1

    # Without site-packages, like an interpreter of another project.
    bare = world.home / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    job = world.call(add, 1, python=Python(executable=str(bare)))
    assert world.run(job).exit_code == 0, world.lines(job)
    assert world.value(job) == 2
