"""Types survive decoration, so type checkers and editors know a decorated function."""

from __future__ import annotations

import re
import sys

import pytest

from harness import Project

SOURCE = '''
    from collections.abc import Iterator
    from typing import Any, assert_type

    import windlass as wl


    @wl.run
    def train(lr: float, *, epochs: int = 3) -> dict[str, float]:
        return {"accuracy": 1 - lr}


    @wl.run(cpus=2, timeout="4h")
    def count(word: str) -> int:
        return len(word)


    @wl.run(replicas=2, framework="torch")
    def spread(lr: float) -> int:
        return 1


    async def wait(trial: wl.Trial[int]) -> int:
        return await trial


    assert_type(train(0.1), dict[str, float])
    assert_type(train(0.1, epochs=2), dict[str, float])
    assert_type(train.local(0.1), dict[str, float])
    assert_type(train.submit(0.1), wl.Trial[dict[str, float]])
    assert_type(train.submit(0.1).result(), dict[str, float])
    assert_type(train.submit(0.1).wait(timeout=3).refresh().stop(), wl.Trial[dict[str, float]])
    assert_type(train.map([0.1]), Iterator[dict[str, float]])
    assert_type(train.map(lr=[0.1], epochs=[3]), Iterator[dict[str, float]])
    assert_type(list(count.starmap([("a",), {"word": "b"}])), list[int])
    assert_type(count.options(cpus=4)("a"), int)
    assert_type(spread(0.1), int)
    assert_type(spread.submit(0.1).result(), int)
    job = wl.Job(wl.PythonFunction(train), args={"lr": 0.1}, executor=wl.Local(cpus=2))
    assert_type(job.submit(), wl.Trial[Any])
    assert_type(job.run(), wl.Trial[Any])
    assert_type(wl.JobGroup({"a-b": job}, worker=job, framework="torch").submit(), wl.Trial[Any])
    wl.Job("train.py")  # wrong: arg-type
    wl.Job(wl.Command(["ls"]), replica=2)  # wrong: call-arg
    wl.JobGroup(worker="train.py")  # wrong: arg-type
    assert_type(train.submit(0.1).params["lr"], object)  # wrong: it is Any
    train("0.1")  # wrong: arg-type
    train()  # wrong: call-arg
    train(0.1, 3)  # wrong: call-arg
    train(0.1, epoch=3)  # wrong: call-arg
    train.submit("0.1")  # wrong: arg-type
    train.local(0.1, epochs="3")  # wrong: arg-type
    count.options(cpus=4)(3)  # wrong: arg-type
    text: str = count("a")  # wrong: assignment
    wl.run(cpu=2)  # wrong: call-overload
    wl.run(retries="3")  # wrong: call-overload
    wl.run(replicas="3")  # wrong: call-overload
    wl.list_trials(sort="id")  # wrong: call-arg
    reveal_type(train)  # shown
'''  # fmt: skip

# Ignore other installed packages, whose check would take a minute.
CONFIG = """
    [mypy]
    [mypy-torch.*,torchmetrics.*,lightning.*,pytorch_lightning.*,lightning_fabric.*]
    follow_imports = skip
    [mypy-transformers.*,keras.*,tensorflow.*,jax.*,IPython.*]
    follow_imports = skip
"""


@pytest.mark.thorough
def test_a_type_checker_knows_the_arguments_and_the_value_of_a_decorated_function(
    project: Project,
) -> None:
    path = project.write("train.py", SOURCE)
    project.write("mypy.ini", CONFIG)
    done = project.run(
        sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", "/dev/null",
        "--python-version", "3.11", "train.py",
    )  # fmt: skip
    messages = {
        (int(line), code or kind)
        for line, kind, code in re.findall(
            r"^train\.py:(\d+): (error|note): .*?(?:\[([a-z-]+)\])?$", done.stdout, re.MULTILINE
        )
        if kind == "error"
    }
    lines = path.read_text().splitlines()
    wrong = {
        (number, match[1] if match[1] != "it" else "assert-type")
        for number, line in enumerate(lines, 1)
        if (match := re.search(r"# wrong: ([a-z-]+)", line))
    }
    assert messages == wrong, done.stdout + done.stderr
    shown = done.stdout.replace("builtins.", "")
    assert "Function[[lr: float, *, epochs: int =], dict[str, float]]" in shown
