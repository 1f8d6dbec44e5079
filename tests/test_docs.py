"""Every example in README.md and docs/ runs and prints what the page shows.

A comment above the fence of an example describes it:

    ```python                  a separate script: it must exit with success
    <!-- continues -->         ... preceded by the examples before it, back to one without this mark
    <!-- raises NotFound -->   ... it must end in that error
    <!-- file: train.py -->    ... it is written to that file, which a console example runs
    ```toml                    a job file, always written to a file
    ```console                 the text after `$ ` is typed, the rest is the output;
                               `^C` is pressed once the text above it has appeared
    ```text                    a picture, or, after
    <!-- prints -->            the output of the Python example above (if it raises: the end of
                               its traceback)
    <!-- python 3.11 -->       has this output since that Python; run but not compared before
    <!-- needs keras -->       run where that package is installed: `make training`
    <!-- not run: why -->      the few that cannot be run; `NOT_RUN` lists them

The examples of a page run in order, in one folder. Their server is configured for a machine of 4
CPUs (or those of `CPUS`) with two A100. The comparison normalizes times, durations and widths of
columns. `...` stands for anything within a line, and a line of `...` for any lines.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import warm_interpreter
import windlass as wl
from harness import BIN, PATIENCE, stop_server
from windlass.model.records import TrialState

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# Filled in from docstrings and the OpenAPI document when the site is built: `make docs`.
MADE = {DOCS / "reference" / name for name in ("sdk.md", "commands.md", "http-api.md")}
PAGES = sorted({ROOT / "README.md", *DOCS.rglob("*.md")} - MADE)
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
NOT_RUN = {
    ("README.md", "$ make demo"),
    ("quickstart.md", "$ make demo"),
    # Scripts for other tools, which need those tools.
    ("coming-from.md", "from absl import app"),
    ("coming-from.md", "import submitit"),
    ("coming-from.md", "import hydra"),
    ("coming-from.md", "from ray import tune"),
    ("coming-from-trackers.md", "import mlflow"),
    ("coming-from-trackers.md", "import wandb"),
    ("coming-from-trackers.md", "import determined as det"),
    ("coming-from.md", "$ python app.py --multirun lr=0.01,0.1 hydra/launcher=joblib"),
    ("running-functions.md", "UserWarning: The closure variable 'data' of train is 320 MB."),
    ("kubernetes.md", "$ make dist"),
    ("kubernetes.md", "$ pip install '/path/to/the/checkout[kubernetes]'"),
    ("kubernetes.md", "import platform"),
    ("kubernetes.md", "import windlass as wl"),
    ("kubernetes.md", "[replica] = trial.replicas"),
    (
        "kubernetes.md",
        'wl.Kubernetes(pod_patch={"hostNetwork": True, "containers": '
        '[{"name": "main", "tty": True}]})',
    ),
    ("kubernetes.md", "$ windlass kubernetes check"),
    ("operator.md", "$ pip install '/path/to/the/checkout[kubernetes]'"),
    ("operator.md", "$ windlass operator --namespace lab --alone"),
    ("operator.md", "$ kubectl apply -f mnist.yaml"),
    ("operator.md", "$ kubectl delete -f deploy/operator.yaml"),
    ("operator.md", "$ kubectl get tfjobs,pytorchjobs --all-namespaces"),
    (
        "operator.md",
        "$ windlass operator rights --account ada --namespace lab --alone | kubectl apply -f -",
    ),
    ("repeating.md", "$ windlass rerun 7"),
    ("shells.md", "$ windlass shell 7"),
    (
        "search.md",
        "$ windlass run --sweep lr=1e-4..1e-1 --sweep layers=2..4 --search tpe "
        "--metric 'min loss' --trials 20 rate.py",
    ),
    ("logs.md", "$ windlass logs 7 -f --search nan"),
    ("performance.md", '$ make bench ARGS="--json figures.json"'),
}


def page_id(page: Path) -> str:
    """The name of a page in the tests: its path below `docs/`."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


LANGUAGES = ("python", "console", "text", "toml")
MARKS = ("continues", "raises", "file", "prints", "python", "needs", "not")
MACHINE = {"WINDLASS_CPUS": "4", "WINDLASS_MEMORY": "16GB", "WINDLASS_DEVICES": "a100,a100"}
CPUS = {"jobs": "2"}  # CPUs for pages whose examples need a smaller machine
USER = "/home/ada"  # pages that show the folders of their home
_END_OF_PART = "\x1e"


@dataclass
class Example:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    marks: list[str] = field(default_factory=list)

    def mark(self, name: str) -> str | None:
        """Return the text of a comment after that word:

        maybe empty, None without such a comment.
        """
        for mark in self.marks:
            first, _, rest = mark.partition(" ")
            if first.rstrip(":") == name:
                return rest.strip()
        return None

    @property
    def is_run(self) -> bool:
        return not any(mark.startswith("not run:") for mark in self.marks)

    @property
    def is_possible(self) -> bool:
        needed = self.mark("needs")
        return needed is None or importlib.util.find_spec(needed) is not None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def examples_of(page: Path) -> list[Example]:
    """The fenced blocks of a page, each with the comments right above it."""
    blocks: list[Example] = []
    marks: list[str] = []
    block: Example | None = None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if block is not None:
            if line.startswith("```"):
                block = None
            else:
                block.text += line + "\n"
        elif line.startswith("```"):
            block = Example(page, number, line[3:].strip(), "", marks)
            blocks.append(block)
            marks = []
        elif comment := re.fullmatch(r"<!-- (.*) -->", line.strip()):
            marks.append(comment[1])
        elif line.strip():
            marks = []
    return blocks


# -- running the examples -------------------------------------------------------------


class Reader:
    """A reader who follows a page, with a folder, a home and a shell."""

    def __init__(self, path: Path, cpus: str = MACHINE["WINDLASS_CPUS"]) -> None:
        self.home = path / "home"
        self.folder = path / "project"
        self.folder.mkdir()
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("WINDLASS_", "PYTEST_"))}
        self.environment = {
            **ours,
            **MACHINE,
            "WINDLASS_CPUS": cpus,
            "WINDLASS_HOME": str(self.home),
            "PATH": f"{BIN}{os.pathsep}{ours['PATH']}",
            "TERM": "dumb",
            "WINDLASS_REPORT_WAITS": "never",
            "COLUMNS": "100",
        }

    def follow(self, examples: list[Example]) -> None:
        """Follow the page from its top to its end."""
        script: list[tuple[Example, Example | None]] = []
        for example in examples:
            shown = _shown_after(example, examples)
            if not example.is_run or not example.is_possible:
                continue
            if (name := example.mark("file")) is not None:
                (self.folder / name).write_text(example.text)
            elif example.language == "python":
                if example.mark("continues") is None:
                    self.run_script(script)
                    script = []
                if (error := example.mark("raises")) is not None:
                    self.run_to_error(script, example, error, shown)
                else:
                    script.append((example, shown))
            elif example.language == "console":
                self.run_script(script)
                script = []
                self.type_commands(example)
        self.run_script(script)

    def run_script(self, parts: list[tuple[Example, Example | None]]) -> None:
        """Run examples that continue each other as one script."""
        if not parts:
            return
        done = self.python(_joined([example for example, _ in parts]))
        assert done.returncode == 0, f"{parts[-1][0]}\n{done.stdout}{done.stderr}"
        printed = done.stdout.split(_END_OF_PART + "\n")
        for (_, shown), output in zip(parts, printed, strict=True):
            if shown is not None:
                self.compare(shown, shown.text, output)

    def run_to_error(
        self,
        before: list[tuple[Example, Example | None]],
        example: Example,
        error: str,
        shown: Example | None,
    ) -> None:
        """Run an example that must end in an error."""
        done = self.python(_joined([*(part for part, _ in before), example]))
        assert done.returncode == 1, f"{example}\n{done.stdout}{done.stderr}"
        raised = re.findall(r"^([\w.]+)(?::|$)", done.stderr, re.MULTILINE)
        assert error in [name.rpartition(".")[2] for name in raised], f"{example}\n{done.stderr}"
        if shown is not None:
            self.compare(shown, "...\n" + shown.text, done.stderr)

    def type_commands(self, example: Example) -> None:
        """Type the commands of a console example one after the other."""
        for typed, shown in _commands(example):
            self.compare(example, shown, self.type_command(typed, shown), typed)

    def type_command(self, command: str, shown: str) -> str:
        """Type a command, press Ctrl-C where the page shows it, and return the output."""
        before, pressed, _ = shown.partition("^C\n")
        if not pressed and (words := _words_of_python(command)):
            return warm_interpreter.run(
                words, cwd=self.folder, env=self.environment, timeout=PATIENCE, mixed=True
            ).stdout
        with subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        ) as process:
            try:
                return self._watch(process, before, presses=bool(pressed))
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # otherwise the test would wait for its end
                raise

    def _watch(self, process: subprocess.Popen[str], before: str, *, presses: bool) -> str:
        assert process.stdout is not None
        if not presses:
            return process.communicate(timeout=PATIENCE)[0]
        output = ""
        while not self.is_alike(before, output):
            line = process.stdout.readline()
            assert line, f"it ended before ^C:\n{output}"
            output += line
        os.killpg(process.pid, signal.SIGINT)
        return output + "^C\n" + process.communicate(timeout=PATIENCE)[0]

    def python(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run a text as a script in the folder."""
        (self.folder / "example.py").write_text(text)
        try:
            return warm_interpreter.run(
                [sys.executable, "example.py"],
                cwd=self.folder,
                env=self.environment,
                timeout=PATIENCE,
            )
        finally:
            (self.folder / "example.py").unlink()

    # -- comparing the output ---------------------------------------------------------

    def compare(self, example: Example, shown: str, output: str, what: str = "") -> None:
        """Fail unless the page shows the real output."""
        since = tuple(map(int, (example.mark("python") or "3.10").split(".")))
        if sys.version_info >= since and not self.is_alike(shown, output):
            pytest.fail(
                f"{example} {what}\n--- the page shows\n{self.plain(shown)}\n"
                f"--- what appeared\n{self.plain(output)}",
                pytrace=False,
            )

    def is_alike(self, shown: str, output: str) -> bool:
        """Return whether an output is as shown. `...` stands for anything."""
        expression = ""
        for line in self.plain(shown).splitlines():
            if line == "...":
                expression += r"(?:[^\n]*\n)*?"
            else:
                expression += "[^\n]*?".join(map(re.escape, line.split("..."))) + "\n"
        return re.fullmatch(expression, self.plain(output)) is not None

    def plain(self, text: str) -> str:
        """A text without the parts that differ from run to run."""
        text = text.replace(str(self.home), f"{USER}/.windlass")
        text = text.replace(str(self.folder), f"{USER}/project")
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", text)
        text = re.sub(r"^  \d\d:\d\d:\d\d  ", "<hour> ", text, flags=re.MULTILINE)
        text = re.sub(r"\bjust now\b|\b\d+[smhd] ago\b", "<ago>", text)
        text = re.sub(r"\b\d+(\.\d+)?(ms|s)\b|\b\d+m \d+s\b", "<duration>", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:<port>", text)
        lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines()]
        return "".join(line + "\n" for line in lines if line)


def _shown_after(example: Example, examples: list[Example]) -> Example | None:
    """The text block with the output of an example."""
    following = examples[examples.index(example) + 1 :]
    is_reported = bool(following) and following[0].mark("prints") is not None
    return following[0] if is_reported else None


def _joined(parts: list[Example]) -> str:
    return f"print({_END_OF_PART!r}, flush=True)\n".join(part.text for part in parts)


def _commands(example: Example) -> Iterator[tuple[str, str]]:
    """Return each command of a console example with the output below it."""
    for piece in re.split(r"^\$ ", example.text, flags=re.MULTILINE)[1:]:
        command, _, shown = piece.partition("\n")
        yield command, shown


def _words_of_python(command: str) -> list[str]:
    """The words of a Windlass command that needs no shell; None for other commands."""
    first, *rest = shlex.split(command, comments=True)
    if first not in ("windlass", "python") or re.search(r"[|&;<>$*?~`]", command):
        return []
    return [warm_interpreter.WINDLASS if first == "windlass" else sys.executable, *rest]


@pytest.fixture(scope="module")
def readings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Path, Future[None]]]:
    """Follow all tested pages, several at a time, because they mostly wait.

    Each page has its own home, because pages show trial numbers and reuse names of experiments.
    """
    tested = [item for item in request.session.items if "readings" in item.fixturenames]
    pages = [item.callspec.params["page"] for item in tested if isinstance(item, pytest.Function)]
    examples_by_page = {}
    with ExitStack() as stack:

        def reader(name: str) -> Reader:
            made = Reader(tmp_path_factory.mktemp(name), CPUS.get(name, MACHINE["WINDLASS_CPUS"]))
            stack.callback(stop_server, made.home)
            return made

        with ThreadPoolExecutor(3) as side_by_side:
            for page in pages:
                examples_by_page[page] = side_by_side.submit(
                    reader(page.stem).follow, examples_of(page)
                )
            yield examples_by_page


# -- the tests ------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_example_of_a_page_does_what_the_page_shows(
    page: Path, readings: dict[Path, Future[None]]
) -> None:
    readings[page].result()


def test_the_few_examples_that_are_not_run_are_listed() -> None:
    left_out = {
        (example.page.name, example.text.partition("  ")[0].splitlines()[0])
        for page in PAGES
        for example in examples_of(page)
        if not example.is_run
    }
    assert left_out == NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_example_goes_unrun_by_accident(page: Path) -> None:
    examples = examples_of(page)
    typed = [command for example in examples if example.language == "console"
             for command, _ in _commands(example)]  # fmt: skip
    typed += [
        example.text for example in examples if example.language == "python"
    ]  # they launch trials
    for page_example in examples:
        assert page_example.language in LANGUAGES, f"{page_example}: a fence without a kind"
        if page_example.language == "console":
            assert page_example.text.startswith("$ "), f"{page_example}: nothing is typed"
        assert page_example.language != "toml" or page_example.mark("file"), (
            f"{page_example}: written to no file"
        )
        if name := page_example.mark("file"):
            runs = any(name in command for command in typed if command != page_example.text)
            assert runs, f"{page_example}: nobody runs {name}"
        for mark in page_example.marks:
            word = mark.partition(" ")[0].rstrip(":")
            assert word in MARKS, f"{page_example}: {mark}"


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=page_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    """In a checkout. `make docs` checks the links of the site."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(linked), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_public_name_is_explained() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in wl.__all__ if f"wl.{name}" not in text and name[0] != "_"] == []


def test_every_state_of_a_trial_is_explained() -> None:
    text = (DOCS / "explanation" / "concepts.md").read_text()
    assert re.findall(r"^\| `([A-Z]+)` \|", text, re.MULTILINE) == list(TrialState)
    picture = text.partition("```text\nQUEUED")[2].partition("```")[0]
    assert [state for state in TrialState if state not in "QUEUED" + picture] == []


def test_every_option_of_run_is_explained() -> None:
    from windlass.authoring.prepare.options import Options

    text = (DOCS / "guides" / "running-functions.md").read_text()
    options = inspect.signature(Options).parameters
    assert [name for name in options if f"`{name}" not in text and f"{name}=" not in text] == []


def test_every_command_is_explained() -> None:
    from windlass.cli.root import COMMANDS

    text = (DOCS / "reference" / "command-line.md").read_text()
    assert [name for name in COMMANDS if f"windlass {name}" not in text] == []


def test_the_two_commands_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in readme
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_every_environment_variable_is_explained() -> None:
    pages = [*(DOCS / "explanation").rglob("*.md"), DOCS / "reference" / "command-line.md"]
    text = "".join(page.read_text() for page in pages)
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"\b_?WINDLASS_[A-Z_]+\b", source))
    assert len(names) > 15
    assert sorted(name for name in names if name not in text) == []


def test_the_readme_and_the_first_page_of_the_architecture_stay_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 92
    start = (DOCS / "explanation" / "architecture" / "index.md").read_text()
    assert len(start.split()) <= 600
