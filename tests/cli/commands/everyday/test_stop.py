"""`windlass stop`."""

from __future__ import annotations

import sys

from cli.shells import Shell

STUBBORN = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"deaf\\n")
    while True:
        signal.pause()
"""


def test_stop_waits_for_the_end_of_trials(shell: Shell) -> None:
    first, second = (str(shell.submit("--", "sleep", "600")) for _ in range(2))
    output = shell.good("stop", first, second, first)
    assert output.splitlines() == [f"Trial {n} (sleep) is stopped." for n in (first, second)]
    assert {shell.trial(n).state.value for n in (first, second)} == {"STOPPED"}


def test_a_trial_that_ignores_the_stop_is_killed_after_its_grace_period(shell: Shell) -> None:
    shell.write("stubborn.py", STUBBORN)
    trial_id = str(shell.submit("stubborn.py"))
    with shell.terminal("logs", "-f", trial_id).until("deaf").closing() as logs:
        shell.good("stop", "--grace", "0", trial_id)
        logs.end()
    assert shell.trial(trial_id).signal == "SIGKILL"


def test_a_finished_trial_stays_unchanged(shell: Shell) -> None:
    shell.good("run", "--name", "done", "--", "true")
    trial_id = shell.newest().id
    output = shell.good("stop", str(trial_id))
    assert output == f"Trial {trial_id} (done) had already ended: it succeeded.\n"


def test_an_unknown_trial_does_not_prevent_other_stops(shell: Shell) -> None:
    trial_id = str(shell.submit("--", "sleep", "600"))
    done = shell("stop", "9999", trial_id)
    assert done.returncode == 1
    assert "There is no trial 9999." in done.stderr
    assert done.stdout == f"Trial {trial_id} (sleep) is stopped.\n"


def test_stop_does_not_wait_without_the_option(shell: Shell) -> None:
    trial_id = str(shell.submit("--", "sleep", "600"))
    output = shell.good("stop", "--no-wait", trial_id)
    assert output in (
        f"Trial {trial_id} (sleep) is being stopped.\n",
        f"Trial {trial_id} (sleep) is stopped.\n",
    )
    assert shell.client.get_trial(int(trial_id)).wait().state == "STOPPED"


ASKING = """
    import time
    import windlass as wl
    while not wl.should_stop():
        time.sleep(0.01)
    print("ended by itself")
"""


def test_ls_marks_trials_with_a_pending_request_to_stop(shell: Shell) -> None:
    shell.write("asked.py", """
        import time
        import windlass as wl

        @wl.run(cpus=0.1)
        def until_asked(value):
            while not wl.should_stop():
                time.sleep(0.01)
            return value

        for value in (None, "found"):
            until_asked.submit(value).ask_to_stop("the loss is not finite").wait()
    """)  # fmt: skip
    done = shell.start(sys.executable, "asked.py")
    assert done.returncode == 0, done.stderr
    _, with_value, without = shell.good("ls", "-n", "2").splitlines()
    assert with_value.endswith("  'found'")
    assert without.endswith("  asked to stop: the loss is not finite")


def test_with_ask_a_program_ends_by_itself(shell: Shell) -> None:
    shell.write("asking.py", ASKING)
    trial_id = str(shell.submit("asking.py"))
    output = shell.good("stop", "--ask", trial_id)
    assert output == f"Trial {trial_id} (asking) was asked to stop by itself.\n"
    assert shell.good("logs", "-f", trial_id) == "ended by itself\n"
    trial = shell.trial(trial_id)
    assert (trial.state.value, trial.asked_to_stop) == ("SUCCEEDED", "windlass stop --ask")
    assert "asked to stop: windlass stop --ask" in shell.good("show", trial_id)
    assert shell.good("ls", "-n", "1").endswith("asked to stop: windlass stop --ask\n")
    refused = shell("stop", "--ask", "--grace", "3s", trial_id)
    assert refused.returncode == 2
    assert "--ask cannot be used with --force, --grace or --no-wait." in refused.stderr
