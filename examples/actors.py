"""Reinforcement learning in which a learner and several actors communicate over sockets.

    python examples/actors.py --actors 3 --updates 40

Each actor balances a pole on a cart with the newest policy and sends every episode to the learner.
The learner improves the policy with REINFORCE and answers each episode with the newest policy. The
actors find the address of the learner in WINDLASS_HOSTS. The program uses no framework. It prints:

    learner-0 | actor 0, attempt 1 is here
    learner-0 | actor 1, attempt 1 is here
    learner-0 | update   1  return  23.1
    learner-0 | actor 2, attempt 1 is here
    learner-0 | update  10  return 110.0
    learner-0 | update  20  return 156.2
    learner-0 | update  30  return 152.6
    learner-0 | update  40  return 166.5
    SUCCEEDED

Actors are services, so Windlass stops them when the learner has finished. If an actor dies,
Windlass restarts it and it connects again. Meanwhile, the learner and the other actors continue.
The learner saves a checkpoint every ten updates. If the learner dies, it continues from the newest
checkpoint. `windlass stop --ask` makes the learner finish early and exit normally.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import queue
import random
import socket
import socketserver
import threading
import time
from typing import Any

import windlass as wl

State = tuple[
    float, float, float, float
]  # position and speed of the cart, angle and speed of the pole
Episode = list[tuple[State, int]]  # pairs of a state and an action; action 1 pushes to the right

LONGEST = 200  # the maximum number of steps in an episode; its return is its length
BATCH = 10  # episodes per update
FIRST: dict[str, Any] = {"weights": [0.0] * 4, "update": 0}  # the initial policy is random


# -- the pole -------------------------------------------------------------------------


def push(state: State, action: int) -> State:
    """Return the state after 0.02 s, by the equations of Barto, Sutton and Anderson."""
    x, speed, angle, turn = state
    force = 10.0 if action else -10.0
    sin, cos = math.sin(angle), math.cos(angle)
    shove = (force + 0.05 * turn * turn * sin) / 1.1
    spin = (9.8 * sin - cos * shove) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
    pull = shove - 0.05 * spin * cos / 1.1
    return x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * spin


def chance(weights: list[float], state: State) -> float:
    """Return the probability that the policy pushes to the right."""
    drive = sum(weight * value for weight, value in zip(weights, state, strict=True))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, drive))))


def play(weights: list[float], rng: random.Random) -> Episode:
    """Play an episode until the pole falls, the cart leaves the track or LONGEST is reached."""
    state: State = tuple(rng.uniform(-0.05, 0.05) for _ in range(4))  # type: ignore[assignment]
    episode: Episode = []
    while len(episode) < LONGEST and abs(state[0]) < 2.4 and abs(state[2]) < 0.21:
        action = int(rng.random() < chance(weights, state))
        episode.append((state, action))
        state = push(state, action)
    return episode


def improve(weights: list[float], episodes: list[Episode]) -> list[float]:
    """Improve the weights by one policy gradient step, towards actions followed by many steps."""
    moves = [(s, a, len(e) - t) for e in episodes for t, (s, a) in enumerate(e)]
    mean = sum(left for *_, left in moves) / len(moves)
    gradient = [0.0] * 4
    for state, action, left in moves:
        blame = (action - chance(weights, state)) * (left - mean)
        gradient = [g + blame * value for g, value in zip(gradient, state, strict=True)]
    size = math.hypot(*gradient) or 1.0
    return [weight + 0.5 * g / size for weight, g in zip(weights, gradient, strict=True)]


# -- the roles ------------------------------------------------------------------------


def learner(updates: int) -> None:
    """Collect episodes from the actors and send the actors the newest policy."""
    saved = wl.latest_checkpoint()
    policy = json.loads(pathlib.Path(saved).read_text()) if saved else FIRST
    brought: queue.Queue[dict[str, Any]] = queue.Queue()

    class Visit(socketserver.StreamRequestHandler):
        """An actor's connection. The learner answers each line of JSON with the newest policy."""

        def handle(self) -> None:
            for line in self.rfile:
                brought.put(json.loads(line))
                self.wfile.write(json.dumps(policy).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True  # required for a port that Windlass has reserved
        daemon_threads = True

    with Server(address_of("learner"), Visit) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while policy["update"] < updates and not wl.should_stop():
            episodes = collect(brought, policy["update"])
            weights = improve(policy["weights"], episodes)
            policy = {"weights": weights, "update": policy["update"] + 1}
            lasted = sum(map(len, episodes)) / BATCH
            wl.report(policy["update"], mean_return=lasted)
            if policy["update"] == 1 or policy["update"] % 10 == 0:
                print(f"update {policy['update']:3}  return {lasted:5.1f}", flush=True)
                pathlib.Path("policy.json").write_text(json.dumps(policy))
                wl.save_checkpoint("policy.json", step=policy["update"])
        server.shutdown()


def collect(brought: queue.Queue[dict[str, Any]], update: int) -> list[Episode]:
    """Return a batch of episodes played with the newest policy. Drop those of older policies."""
    episodes: list[Episode] = []
    while len(episodes) < BATCH:
        message = brought.get()
        if "hello" in message:
            print(message["hello"], flush=True)
        elif message["update"] == update:
            episodes.append(message["episode"])
    return episodes


def actor() -> None:
    """Play episodes with the newest policy until Windlass stops this process."""
    name = f"actor {os.environ['WINDLASS_INDEX']}, attempt {os.environ['WINDLASS_ATTEMPT']}"
    rng = random.Random(name)
    while True:
        try:
            with socket.create_connection(address_of("learner")) as connection:
                lines = connection.makefile("rw")
                answer = ask(lines, {"hello": f"{name} is here"})
                while answer:
                    policy = json.loads(answer)
                    episode = play(policy["weights"], rng)
                    answer = ask(lines, {"update": policy["update"], "episode": episode})
        except OSError:
            pass  # the learner does not listen yet, or restarts
        time.sleep(0.1)  # an actor gets no notification when the learner listens again


def ask(lines: Any, message: dict[str, Any]) -> str:
    """Send a message and return the learner's answer. Return "" if the connection is closed."""
    lines.write(json.dumps(message) + "\n")
    lines.flush()
    return str(lines.readline())


def address_of(role: str) -> tuple[str, int]:
    """Return the address of the first replica of a role."""
    host, _, port = json.loads(os.environ["WINDLASS_HOSTS"])[role][0].rpartition(":")
    return host, int(port)


# -- the launch script ----------------------------------------------------------------


def group(actors: int, updates: int) -> wl.JobGroup:
    """Return a job with two roles that both run this file."""
    script = wl.PythonScript(__file__)
    return wl.JobGroup(
        learner=wl.Job(script, args={"updates": updates}, executor=wl.Local(cpus=0.5)),
        actor=wl.Job(script, replicas=actors, service=True, executor=wl.Local(cpus=0.25)),
        name="cart-pole",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--actors", type=int, default=3)
    parser.add_argument("--updates", type=int, default=40)
    options = parser.parse_args()
    match os.environ.get("WINDLASS_ROLE"):
        case "learner":
            learner(options.updates)
        case "actor":
            actor()
        case _:
            print(group(options.actors, options.updates).run().state)


if __name__ == "__main__":
    main()
