"""`windlass diff`, `windlass compare` and `windlass code`, as a user types them."""

from __future__ import annotations

import csv
import io
import re

import pytest

from cli.shells import Shell
from windlass.model.text.display import width_of

TRAIN = """
    import sys
    print("depth", DEPTH)
"""


@pytest.fixture(scope="module")
def ids(module_shell: Shell) -> tuple[int, int, int]:
    """Three trials: two of a program that was edited in between, and one of another program."""
    shell = module_shell
    names = []
    for depth, words in (("1", ["--lr", "0.1"]), ("2", ["--lr", "0.25"])):
        shell.write("train.py", TRAIN.replace("DEPTH", depth))
        shell.good("run", "train.py", *words, "--epochs", "3")
        names.append(shell.newest().id)
    shell.good("run", "--cpus", "2", "--env", "MODE=fast", "--", "true")
    return names[0], names[1], shell.newest().id


def test_differences_are_printed_with_lines_of_code_on_request(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    one, two = str(ids[0]), str(ids[1])
    lines = module_shell.good("diff", one, two).splitlines()
    assert [line.split("  ")[:3] for line in lines[:2]] == [
        [f"Trial {one}", "train", "SUCCEEDED"], [f"Trial {two}", "train", "SUCCEEDED"],
    ]  # fmt: skip
    assert lines[2:] == [
        "",
        "Arguments",
        "  lr  0.1 → 0.25",
        "",
        "Code: 1 file changed",
        "  M train.py  +1 -1",
    ]
    code = module_shell.good("diff", one, two, "--code").splitlines()
    assert code[: len(lines)] == lines
    assert code[len(lines) :] == [
        "",
        "--- train.py",
        "+++ train.py",
        "@@ -1,2 +1,2 @@",
        " import sys",
        '-print("depth", 1)',
        '+print("depth", 2)',
    ]


def test_diff_and_compare_print_json(module_shell: Shell, ids: tuple[int, int, int]) -> None:
    diff = module_shell.json("diff", str(ids[0]), str(ids[1]))
    assert diff["is_same"] is False
    assert diff["arguments"] == [{"name": "lr", "kind": "changed", "before": 0.1, "after": 0.25}]
    assert diff["code"][0]["lines"][-1] == '+print("depth", 2)'
    rows = module_shell.json("compare", *map(str, ids[:2]))
    assert [row["lr"] for row in rows] == [0.1, 0.25]
    assert "epochs" not in rows[0]


def test_trials_are_shown_side_by_side_and_sorted(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    one, two, other = map(str, ids)
    lines = module_shell.good("compare", one, two, other, "--sort=-lr").splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "TOOK", "lr", "epochs"]
    assert [line.split()[0] for line in lines[1:]] == [two, one, other]
    assert lines[3].split()[-2:] == ["-", "-"]
    table = csv.DictReader(io.StringIO(module_shell.good("compare", one, two, other, "--csv")))
    assert [(row["id"], row["lr"]) for row in table] == [(one, "0.1"), (two, "0.25"), (other, "")]
    assert module_shell.good("compare", "-e", "train").splitlines()[0].split()[-1] == "lr"


def test_experiments_are_compared_by_name(module_shell: Shell, ids: tuple[int, int, int]) -> None:
    name = module_shell.trial(ids[2]).experiment
    lines = module_shell.good("diff", "train", name).splitlines()
    assert lines[0].startswith("Experiment 1  train  SUCCEEDED  2 trials, 2 different versions")
    assert "  - lr      0.1, 0.25" in lines
    assert "  + env MODE  fast" in lines
    again = module_shell.good("diff", "-e", "1", "2").splitlines()
    assert again == lines


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["diff", "{0}"],
            2,
            "Name a second trial or experiment: windlass diff {0} OTHER",
        ),
        (["diff", "{0}", "{0}"], 1, "Trial {0} is named twice."),
        (["diff", "{0}", "9999"], 1, "There is no trial 9999."),
        (
            ["diff", "{0}", "train"],
            2,
            "are a trial and an experiment. Compare two trials or two experiments.",
        ),
        (["diff", "train", "trian"], 1, "There is no experiment 'trian'."),
        (["diff", "train", "train"], 1, "cannot be compared with itself."),
        (["diff", "0", "1"], 2, "'0' is not a trial id"),
        (["compare"], 2, "Name trials by their ids, or an experiment with --experiment."),
        (["compare", "{0}"], 1, "A comparison needs at least two trials; only {0} was named."),
        (["compare", "{0}", "{0}"], 1, "Trial {0} is named twice."),
        (["compare", "{0}", "9999"], 1, "There is no trial 9999."),
        (["compare", "{0}", "{1}", "--sort", "lrr"], 1, "Did you mean 'lr'?"),
        (["compare", "{0}", "{1}", "-m", "loss"], 1, "No trial here has reported a metric 'loss'."),
        (["compare", "{0}", "-e", "train"], 2, "not both."),
        (
            ["compare", "{0}", "{1}", "--csv", "--json"],
            2,
            "--csv and --json cannot be used together.",
        ),
        (["code", "9999"], 1, "There is no trial 9999."),
    ],
)
def test_an_invalid_comparison_is_refused_with_a_remedy(
    module_shell: Shell, ids: tuple[int, int, int], words: list[str], code: int, message: str
) -> None:
    done = module_shell(*[word.format(*ids) for word in words])
    assert done.returncode == code
    assert message.format(*ids) in " ".join(done.stderr.split())
    assert done.stdout == "" and "Traceback" not in done.stderr


def test_the_code_of_a_trial_is_written_to_a_folder(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    done = module_shell("code", str(ids[0]))
    place = module_shell.folder / f"code-{ids[0]}"
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"The code is in code-{ids[0]}",
        "It becomes part of the code that you run here, unless .windlassignore has a line: "
        f"/code-{ids[0]}/",
    ]
    assert (place / "train.py").read_text() == 'import sys\nprint("depth", 1)\n'
    (place / "train.py").write_text("mine\n")
    again = module_shell("code", str(ids[0]))
    assert again.returncode == 1
    assert "'train.py' differs" in again.stderr
    assert (place / "train.py").read_text() == "mine\n"
    elsewhere = module_shell.home.parent / "elsewhere"
    done = module_shell("code", "train", str(elsewhere))
    assert done.stderr.splitlines() == [f"The code is in {elsewhere}"]
    assert len(list(elsewhere.glob("code-*/train.py"))) == 2
    assert (elsewhere / "TRIALS.txt").read_text().count("trial ") == 2


def test_in_a_terminal_the_output_has_colours_and_fits(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    one, two, other = map(str, ids)
    with module_shell.terminal("diff", one, two, "--code").closing() as terminal:
        assert terminal.end() == 0
    assert "\x1b[32m0.25\x1b[0m" in terminal.raw
    assert '\x1b[31m-print("depth", 1)\x1b[0m' in terminal.raw
    assert "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m" in terminal.raw
    with module_shell.terminal("diff", one, two, NO_COLOR="1").closing() as terminal:
        assert terminal.end() == 0
    assert "\x1b[" not in terminal.raw
    assert (
        terminal.lines[-1] == f"To see the changed lines of code: windlass diff {one} {two} --code"
    )
    for columns in (40, 60):
        with module_shell.terminal("compare", one, two, other, columns=columns).closing() as narrow:
            assert narrow.end() == 0
        table = [line for line in narrow.lines if not line.startswith("The terminal is too narrow")]
        assert all(width_of(line) <= columns for line in table)
    with module_shell.terminal("diff", one, other, columns=50).closing() as narrow:
        assert narrow.end() == 0
    assert all(width_of(line) <= 50 for line in narrow.lines[:-2]), narrow.lines


def test_a_terminal_without_unicode_gets_plain_arrows(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    output = module_shell.good("diff", str(ids[0]), str(ids[1]), PYTHONIOENCODING="ascii")
    assert "  lr  0.1 -> 0.25" in output.splitlines()


def test_a_shell_completes_ids_and_experiments(
    module_shell: Shell, ids: tuple[int, int, int]
) -> None:
    one = str(ids[0])
    assert {"diff", "compare", "code"} <= set(module_shell.complete("windlass "))
    assert one in module_shell.complete(f"windlass diff {one[:-1]}")
    assert one in module_shell.complete(f"windlass diff {ids[1]} ")
    assert module_shell.complete("windlass diff tra") == ["train"]
    assert module_shell.complete("windlass compare -e tra") == ["train"]
    assert one in module_shell.complete(f"windlass compare {ids[1]} ")
    assert one in module_shell.complete("windlass code ")


def test_the_help_describes_each_command(module_shell: Shell) -> None:
    for name in ("diff", "compare", "code"):
        output = module_shell.good(name, "--help")
        assert re.match(rf"Usage: windlass {name} ", output)
