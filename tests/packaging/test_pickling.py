from __future__ import annotations

import dataclasses
import functools
import importlib
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from trees import write

from windlass.model.errors import SerializationError
from windlass.packaging import pickling
from windlass.packaging.large_values import PackedCall
from windlass.packaging.pickling import pack_call

MODULE = """
import functools, threading
lock = threading.Lock()

def wrap(fn):
    @functools.wraps(fn)
    def wrapper(*args): return fn(*args)
    return wrapper

class Run:
    def __init__(self, fn): self.__wrapped__ = fn

def add(a, b=1): return a + b + helper()
def helper(): return 100
def guarded(x):
    with lock: return x

@Run
def decorated(x): return x

class Model:
    def fit(self): return 1
    @staticmethod
    def score(): return 2

def make():
    def inner(x): return x * 2
    return inner
"""


def module_at(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    write(folder, {f"{name}.py": MODULE})
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def inside(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    yield module_at(tree, "module_in_the_tree", monkeypatch)
    sys.modules.pop("module_in_the_tree", None)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    yield module_at(tmp_path / "elsewhere", "module_elsewhere", monkeypatch)
    sys.modules.pop("module_elsewhere", None)


def function_of(call: PackedCall) -> Any:
    return pickle.loads(call.payload)["function"]


def test_a_function_of_the_tree_is_pickled_by_name(inside: Any, tree: Path) -> None:
    payload = pack_call(inside.add, (1,), {"b": 2}, tree).payload
    assert pickle.loads(payload) == {
        "version": 1,
        "function": ("ref", "module_in_the_tree", "add"),
        "args": (1,),
        "kwargs": {"b": 2},
    }
    assert function_of(pack_call(inside.Model.score, (), {}, tree))[2] == "Model.score"


def test_a_function_behind_its_decorated_object_is_pickled_by_name(inside: Any, tree: Path) -> None:
    raw = inside.decorated.__wrapped__
    assert function_of(pack_call(raw, (), {}, tree)) == ("ref", "module_in_the_tree", "decorated")


def test_a_function_that_its_name_does_not_reach_is_pickled_by_value(
    inside: Any, tree: Path
) -> None:
    for fn in (inside.make(), functools.partial(inside.add, 1), lambda x: x * 2):
        kind, function = function_of(pack_call(fn, (), {}, tree))
        assert kind == "value"
        assert function(21) in (42, 122)


def test_installed_functions_are_pickled_by_name(tree: Path) -> None:
    assert function_of(pack_call(subprocess.run, (), {}, tree)) == ("ref", "subprocess", "run")
    assert function_of(pack_call(pytest.skip, (), {}, tree))[0] in ("ref", "value")


def test_a_module_outside_the_tree_is_included(outside: Any, tree: Path) -> None:
    payload = pack_call(outside.add, (1,), {}, tree).payload
    assert cloudpickle.list_registry_pickle_by_value() == set()
    program = (
        "import pickle, sys; call = pickle.loads(sys.stdin.buffer.read());"
        "print(call['function'][0], call['function'][1](*call['args']))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=payload, capture_output=True)
    assert done.stdout == b"value 102\n", done.stderr


def test_a_function_of_main_is_pickled_with_its_classes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "script.py": "import sys, dataclasses; from pathlib import Path\n"
            "from windlass.packaging.pickling import pack_call\n"
            "@dataclasses.dataclass\n"
            "class Config: lr: float = 0.1\n"
            "def train(config): return config.lr * factor\n"
            "factor = 10\n"
            "if __name__ == '__main__':\n"
            "    sys.stdout.buffer.write(pack_call(train, (Config(),), {}, Path.cwd()).payload)\n"
        },
    )
    command = [sys.executable, str(tmp_path / "script.py")]
    packed = subprocess.run(command, capture_output=True, cwd=tmp_path, check=True).stdout
    program = (
        "import pickle, sys; call = pickle.loads(sys.stdin.buffer.read());"
        "print(call['function'][1](*call['args']))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=packed, capture_output=True)
    assert done.stdout == b"1.0\n", done.stderr


class Loader:
    def __init__(self) -> None:
        self.size = 3
        self.lock = threading.Lock()


@dataclasses.dataclass
class Config:
    name: str
    loader: object


class Slotted:
    __slots__ = ("lock", "unset")

    def __init__(self) -> None:
        self.lock = threading.Lock()


def takes(data: Any, other: int = 0) -> Any:
    return data


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (threading.Lock(), "argument 'data' (a _thread.lock)"),
        ({"loader": Loader()}, "argument 'data'['loader'].lock (a _thread.lock)"),
        ([1, (2, Loader())], "argument 'data'[1][1].lock"),
        (Config("a", {"x": Loader()}), "argument 'data'.loader['x'].lock"),
        (Slotted(), "argument 'data'.lock"),
        ((i for i in range(3)), "argument 'data' (a generator)"),
    ],
)
def test_the_part_that_cannot_be_pickled_is_named(tree: Path, value: object, path: str) -> None:
    with pytest.raises(SerializationError) as caught:
        pack_call(takes, (value,), {"other": 1}, tree)
    text = str(caught.value)
    assert "call of 'takes'" in text
    assert path in text
    assert "inside the function" in text


def test_closure_variables_and_globals_are_named(outside: Any, tree: Path) -> None:
    handle = threading.Lock()

    def closes_over() -> object:
        return handle

    with pytest.raises(SerializationError, match="closure variable 'handle' of function 'closes_"):
        pack_call(closes_over, (), {}, tree)
    with pytest.raises(SerializationError, match="global 'lock' used by function 'guarded'"):
        pack_call(outside.guarded, (1,), {}, tree)


def test_a_value_that_contains_itself_ends_the_search(tree: Path) -> None:
    around: list[object] = [threading.Lock()]
    around.insert(0, around)
    with pytest.raises(SerializationError, match=r"'data'\[1\]"):
        pack_call(takes, (around,), {}, tree)


def test_any_exception_of_pickling_is_explained(tree: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            raise RuntimeError("no\nway")

        def __repr__(self) -> str:
            raise RuntimeError("not even this")

    with pytest.raises(SerializationError, match=r"'data'\['k'\].*: no\."):
        pack_call(takes, ({"k": Hostile()},), {}, tree)


def test_enormous_calls_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "LARGEST_PAYLOAD", 1000)
    with pytest.raises(SerializationError, match=r"at most 1\.0 kB"):
        pack_call(takes, (b"x" * 2000,), {}, tree)
