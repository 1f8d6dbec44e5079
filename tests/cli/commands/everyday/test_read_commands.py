"""The commands that read: ls, show, logs, result, accelerators."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest

from cli.shells import WINDLASS, Shell
from windlass.model.hardware.accelerators import KINDS

TRIALS = r"""
    import sys
    import windlass as wl
    from shapes import Square

    @wl.run
    def train(lr, note="plain"):
        print("begin")
        print("careful", file=sys.stderr)
        print("\r10%\r20%", end="")
        print("\nlr", lr)
        return {"accuracy": 1 - lr, "history": [0.5, 0.75]}

    @wl.run
    def shape():
        return {"square": Square(2), 1: float("inf")}

    @wl.run(name="crash", experiment="hard")
    def fail():
        raise ValueError("no \x1b[31mgood")

    train.submit(0.25, "two\nlines").wait()
    shape.submit().wait()
    fail.submit().wait()
"""
TRAIN, SHAPE, FAIL, COMMAND = "1", "2", "3", "4"


@pytest.fixture(scope="module", autouse=True)
def trials(module_shell: Shell) -> None:
    """Four finished trials with different ends."""
    shell = module_shell
    nothing = shell("ls")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr.startswith("Nothing has run here yet."), "it says nothing besides"
    assert shell.json("ls", "--experiments") == []
    shell.write("shapes.py", """
        class Square:
            def __init__(self, side):
                self.side = side
            def __repr__(self):
                return f"Square({self.side})"
    """)  # fmt: skip
    done = shell.start(sys.executable, str(shell.write("trials.py", TRIALS)))
    assert done.returncode == 0, done.stderr
    assert shell("run", "--env", "K=v", "--", "sh", "-c", "echo out; exit 3").returncode == 3


# -- ls -------------------------------------------------------------------------------


def test_ls_prints_plain_aligned_columns_newest_first(module_shell: Shell) -> None:
    shell = module_shell
    head, *rows = shell.good("ls").splitlines()
    assert head.split() == ["ID", "NAME", "STATE", "PARAMETERS", "TOOK", "CREATED", "OUTCOME"]
    assert [row.split()[:3] for row in rows] == [
        ["4", "sh", "FAILED"],
        ["3", "hard/crash", "FAILED"],
        ["2", "shape", "SUCCEEDED"],
        ["1", "train", "SUCCEEDED"],
    ]
    starts = head.index("STATE")
    assert all(row[starts - 1] == " " and row[starts] in "FS" for row in rows)
    assert "lr=0.25 note='two\\nlines'" in rows[3]
    assert "{'accuracy': 0.75, 'history': [0.5, 0.75]}" in rows[3]
    assert r"ValueError: no \x1b[31mgood" in rows[1]
    assert "exit code 3" in rows[0]


@pytest.mark.finding("U16")
def test_ls_shows_a_useful_outcome_and_the_requested_columns(own_shell: Shell) -> None:
    own_shell.write("plain.py", """
        import windlass as wl
        for step in range(2):
            wl.report(step, loss=1 / 3, val_loss=2 / 3, step_time=0.5)
    """)  # fmt: skip
    own_shell.write("broken.py", "print('starts')\nraise KeyError('lr')\n")
    own_shell.write("pruned.py", """
        import windlass as wl

        @wl.run(cpus=0.1)
        def search(lr):
            wl.report(1, loss=lr)
            while not wl.should_stop():
                pass

        if __name__ == "__main__":
            search.submit(1 / 3).ask_to_stop("pruned at step 1: not among the best").wait()
            wl.run(lambda: 1 / 3)()
    """)  # fmt: skip
    own_shell.good("run", "plain.py")
    assert own_shell("run", "broken.py").returncode == 1
    assert own_shell.start(sys.executable, "pruned.py").returncode == 0
    head, number, pruned, broken, plain = own_shell.good("ls").splitlines()
    outcome = head.index("OUTCOME")
    assert number[outcome:] == "0.333333"
    assert "  PRUNED  " in pruned and "lr=0.333333" in pruned
    assert pruned[outcome:] == "loss=0.3333  pruned at step 1: not among the best"
    assert broken[outcome:] == "KeyError: 'lr'"
    assert plain[outcome:] == "val_loss=0.6667 loss=0.3333"

    listed = own_shell.good("ls", "--columns", "id,lr,loss.max,state", "-n", "2")
    assert [line.split() for line in listed.splitlines()] == [
        ["ID", "LR", "LOSS", "MAX", "STATE"],
        ["4", "-", "-", "SUCCEEDED"],
        ["3", "0.333333", "0.333333", "PRUNED"],
    ]
    done = own_shell("ls", "--columns", "id,los")
    assert "has a metric or parameter 'los'. Did you mean 'loss'? Columns are" in done.stderr
    assert own_shell.complete("windlass ls --columns id,hparams.l") == ["id,hparams.lr"]
    assert own_shell.complete("windlass ls --columns id,val") == ["id,val_loss"]

    metrics = own_shell.good("metrics", "1").splitlines()
    assert [line.split()[0] for line in metrics] == ["METRIC", "loss", "step_time", "val_loss"]


def test_ls_filters_trials(module_shell: Shell) -> None:
    shell = module_shell
    assert [t["id"] for t in shell.json("ls", "--state", "failed")] == [4, 3]
    assert [t["id"] for t in shell.json("ls", "-s", "FAILED", "-s", "succeeded", "-n", "3")] == [
        4, 3, 2,
    ]  # fmt: skip
    assert [t["id"] for t in shell.json("ls", "--experiment", "hard")] == [3]
    assert len(shell.json("ls", "--limit", "1", "--all")) == 4
    nothing = shell("ls", "--state", "running")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "No trial matches." in nothing.stderr
    assert shell.json("ls", "--state", "running") == []
    for wrong in ("hart", "77"):
        unknown = shell("ls", "-e", wrong)
        assert unknown.returncode == 1
        assert "There is no experiment" in unknown.stderr


def test_ls_lists_experiments(module_shell: Shell) -> None:
    shell = module_shell
    head, *rows = shell.good("ls", "--experiments").splitlines()
    assert head.split() == ["ID", "EXPERIMENT", "TRIALS", "STATES", "CREATED"]
    assert [row.split()[1:5] for row in rows][1] == ["hard", "1", "1", "failed"]
    assert [e["name"] for e in shell.json("ls", "--experiments")] == [
        "sh", "hard", "shape", "train",
    ]  # fmt: skip
    assert len(shell("ls", "--experiments", "--state", "failed").stdout.splitlines()) == 3
    assert shell("ls", "--experiments", "--where", "id = 1").returncode == 2


def test_records_always_have_the_same_fields(module_shell: Shell) -> None:
    shell = module_shell
    assert len({tuple(record) for record in shell.json("ls")}) == 1


# -- show -----------------------------------------------------------------------------


def test_show_prints_all_details_of_a_call(module_shell: Shell) -> None:
    shell = module_shell
    shown = shell.good("show", TRAIN)
    for text in (
        "Trial 1  train  SUCCEEDED", "train(…)", "created ", "started ", "ended ", "lr ", "0.25",
        "1 CPU", "tree ", str(shell.folder), "Python ", "packages",
        " on ", "trials.py", "Result", "'accuracy': 0.75", "Timeline", str(shell.home / "trials/1"),
    ):  # fmt: skip
        assert text in shown, text
    assert "\x1b" not in shown


def test_show_prints_all_details_of_a_command(module_shell: Shell) -> None:
    shell = module_shell
    shown = shell.good("show", COMMAND)
    for text in ("FAILED", "exit code 3", "sh -c 'echo out; exit 3'", "K=v"):
        assert text in shown, text


def test_show_prints_the_exception(module_shell: Shell) -> None:
    shell = module_shell
    shown = shell.good("show", FAIL)
    assert shown.splitlines()[1:3] == [r"  ValueError: no \x1b[31mgood", ""], "and no exit code"
    assert "experiment   hard" in shown
    assert "Traceback (most recent call last):" in shown
    assert r"ValueError: no \x1b[31mgood" in shown


def test_show_as_json_has_the_record_the_events_and_the_packages(module_shell: Shell) -> None:
    shell = module_shell
    record = shell.json("show", TRAIN)
    assert record["params"] == {"lr": 0.25, "note": "two\nlines"}
    assert record["attempts"][0]["exit_code"] == 0
    assert record["provenance"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert any(package.startswith("msgspec==") for package in record["packages"])
    assert record["events"][0]["message"]
    assert record["spec"]["roles"][0]["executable"]["type"] == "function"


def test_an_unknown_trial_is_an_error(module_shell: Shell) -> None:
    shell = module_shell
    for command in ("show", "logs", "result"):
        done = shell(command, "99")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: There is no trial 99.\n")


# -- logs -----------------------------------------------------------------------------


def test_logs_go_to_their_original_streams(module_shell: Shell) -> None:
    shell = module_shell
    done = shell("logs", TRAIN)
    assert done.stdout == "begin\n\n10%\n20%\nlr 0.25\n"  # text=True makes each \r a line break
    assert done.stderr == "careful\n"


def test_logs_keep_every_byte(module_shell: Shell) -> None:
    shell = module_shell
    out = shell.folder / "out.txt"
    with out.open("wb") as file:
        import subprocess

        subprocess.run([WINDLASS, "logs", TRAIN], stdout=file, env=shell.env, check=True)
    assert out.read_bytes() == b"begin\n\r10%\r20%\nlr 0.25\n"


def test_logs_filter_lines(module_shell: Shell) -> None:
    shell = module_shell
    assert shell("logs", TRAIN, "--stdout", "-n", "1").stdout == "lr 0.25\n"
    assert shell("logs", TRAIN, "--search", "egi").stdout == "begin\n"
    only = shell("logs", TRAIN, "--stderr")
    assert (only.stdout, only.stderr) == ("", "careful\n")
    assert shell("logs", TRAIN, "--stdout", "--stderr").stderr == "careful\n"
    assert shell("logs", TRAIN, "--follow", "--search", "lr").stdout == "lr 0.25\n"


def test_logs_can_print_the_time_of_each_line(module_shell: Shell) -> None:
    shell = module_shell
    first, *_ = shell("logs", TRAIN, "--timestamps").stdout.splitlines()
    day, moment, text = first.split()
    assert (len(day), len(moment), text) == (10, 12, "begin")


def test_logs_as_json_are_one_object_per_line(module_shell: Shell) -> None:
    shell = module_shell
    done = shell("logs", TRAIN, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((line["stream"], line["text"]) for line in lines) == [
        ("stderr", "careful"), ("stdout", "\r10%\r20%"), ("stdout", "begin"), ("stdout", "lr 0.25"),
    ]  # fmt: skip
    assert done.stderr == ""


def test_empty_logs_are_explained(module_shell: Shell) -> None:
    shell = module_shell
    assert "wrote nothing." in shell("logs", SHAPE).stderr
    assert "wrote nothing like that." in shell("logs", TRAIN, "--search", "zebra").stderr


def test_logs_piped_to_head_exit_quietly(module_shell: Shell) -> None:
    shell = module_shell
    trial_id = shell.submit("--", "seq", "200000")
    shell.client.get_trial(trial_id).wait()
    done = shell.start("bash", "-c", f"{WINDLASS} logs {trial_id} | head -n 2")
    assert (done.stdout, done.stderr) == ("1\n2\n", "")


# -- result ---------------------------------------------------------------------------


def test_result_prints_the_value(module_shell: Shell) -> None:
    shell = module_shell
    assert shell.good("result", TRAIN) == "{'accuracy': 0.75, 'history': [0.5, 0.75]}\n"


def test_result_reads_classes_of_the_project_from_anywhere(module_shell: Shell) -> None:
    shell = module_shell
    output = shell.good("result", SHAPE, cwd=shell.folder.parent)
    assert output == "{'square': Square(2), 1: inf}\n"


def test_result_as_json_tells_whether_json_is_complete(module_shell: Shell) -> None:
    shell = module_shell
    value = {"accuracy": 0.75, "history": [0.5, 0.75]}
    assert shell.json("result", TRAIN) == {"id": 1, "value": value, "exact": True}
    assert shell.json("result", SHAPE) == {
        "id": 2, "value": {"square": "Square(2)", "1": "inf"}, "exact": False,
    }  # fmt: skip


def test_result_raw_is_the_pickle(module_shell: Shell, tmp_path: Path) -> None:
    shell = module_shell
    file = tmp_path / "value.pkl"
    shell.good("result", TRAIN, "--out", str(file))
    assert pickle.loads(file.read_bytes())["accuracy"] == 0.75
    again = tmp_path / "again.pkl"
    shell.start("bash", "-c", f"{WINDLASS} result {TRAIN} --raw > {again}")
    assert again.read_bytes() == file.read_bytes()
    shell.good("result", TRAIN, "--json", "--out", str(file))
    assert json.loads(file.read_text())["exact"]
    done = shell("result", TRAIN, "--out", str(tmp_path / "none" / "value"))
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


def test_result_of_a_failed_trial_is_its_error(module_shell: Shell) -> None:
    shell = module_shell
    done = shell("result", FAIL)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: Trial 3 (crash) failed:" in done.stderr
    assert r"  ValueError: no \x1b[31mgood" in done.stderr
    done = shell("result", COMMAND, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed: exit code 3." in done.stderr
    assert "    out\n" in done.stderr


def test_an_exception_is_printed_with_a_tip(shell: Shell) -> None:
    shell.write("lacks.py", """
        import windlass as wl

        @wl.run
        def lacks():
            import tools_of_mine

        trial = lacks.submit()
        trial.wait()
        print(trial.id)
    """)  # fmt: skip
    trial_id = shell.start(sys.executable, str(shell.folder / "lacks.py")).stdout.strip()
    tip = '  Tip: install it for the trial: packages=["tools_of_mine"]'
    outputs = (shell.good("show", trial_id), shell("result", trial_id).stderr)
    assert [tip in text.splitlines() for text in outputs] == [True, True], outputs


def test_result_of_a_trial_without_a_value_says_why(module_shell: Shell) -> None:
    shell = module_shell
    trial_id = str(shell.submit("--", "sleep", "600"))
    done = shell("result", trial_id)
    assert done.returncode == 1
    assert "has no return value yet" in done.stderr
    trial = shell.client.get_trial(int(trial_id)).stop(grace=0).wait()
    done = shell("result", trial_id)
    assert done.returncode == 1
    assert f"Trial {trial.id} (sleep) was stopped" in done.stderr
    shell.good("run", "--", "true")
    done = shell("result", str(shell.newest().id))
    assert done.returncode == 1
    assert "it is a command, not a function" in done.stderr


def test_result_waits_on_request(module_shell: Shell) -> None:
    shell = module_shell
    shell.write("later.py", """
        import windlass as wl

        @wl.run
        def later(gate):
            return open(gate).read()

        print(later.submit(__import__("sys").argv[1]).id)
    """)  # fmt: skip
    import os
    import subprocess

    gate = shell.folder.parent / "gate"
    os.mkfifo(gate)
    trial_id = shell.start(sys.executable, "later.py", str(gate)).stdout.strip()
    with subprocess.Popen(
        [WINDLASS, "result", trial_id, "--wait"], env=shell.env, stdout=subprocess.PIPE, text=True
    ) as waiting:
        gate.write_text("open")
        out, _ = waiting.communicate(timeout=120)
    assert out == "'open'\n"


# -- accelerators ---------------------------------------------------------------------


def test_accelerators_lists_all_kinds_and_those_of_this_machine(module_shell: Shell) -> None:
    shell = module_shell
    table, machine = shell.good("accelerators").split("\n\n")
    head, *rows = table.splitlines()
    assert head.split() == ["NAME", "ACCELERATOR", "MEMORY", "HERE"]
    assert [row.split()[0] for row in rows] == [kind.name for kind in KINDS]
    here = {row.split()[0] for row in rows if row.endswith(" 2")}
    assert here == {"gpu", "a100"}
    assert "16 CPUs (16 free)" in machine


def test_accelerators_as_json(module_shell: Shell) -> None:
    shell = module_shell
    record = shell.json("accelerators")
    assert {accelerator["name"]: accelerator["here"] for accelerator in record["accelerators"]}[
        "a100"
    ] == 2
    assert record["machine"]["cpus"] == 16
    assert record["machine"]["devices_free"] == 2
    assert [device["kind"] for device in record["machine"]["devices"]] == ["a100", "a100"]


# -- all of these commands ------------------------------------------------------------


def test_output_that_cannot_be_written_is_an_error(module_shell: Shell) -> None:
    shell = module_shell
    done = shell.start("bash", "-c", f"{WINDLASS} ls > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "Error: The output cannot be written: No space left on device.\n"


def test_an_unreachable_server_is_an_error(module_shell: Shell) -> None:
    shell = module_shell
    done = shell("ls", WINDLASS_SERVER="http://127.0.0.1:9", WINDLASS_TOKEN="t")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: The server at http://127.0.0.1:9 cannot be reached" in done.stderr
    done = shell("ls", WINDLASS_SERVER="lab")
    assert done.returncode == 1
    assert "'lab' is not a valid server address." in done.stderr


def test_trial_ids_are_completed(module_shell: Shell) -> None:
    shell = module_shell
    done = shell(_WINDLASS_COMPLETE="zsh_complete", COMP_WORDS="windlass show 3", COMP_CWORD="2")
    assert done.stdout.splitlines() == ["plain", "3", "crash failed"]


@pytest.mark.parametrize("command", ["ls", "rm", "show", "stop", "compare", "logs", "tensorboard"])
def test_experiments_are_completed(module_shell: Shell, command: str) -> None:
    words = f"windlass {command} -e ha"
    done = module_shell(_WINDLASS_COMPLETE="zsh_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert done.stdout.splitlines()[:2] == ["plain", "hard"]
