"""Fit a line with TensorFlow's ParameterServerStrategy.

    python examples/tf_parameter_server.py

The job has a chief, a worker and a parameter server. The parameter server holds the variables, the
worker computes gradients, and the chief distributes the steps. If the worker dies, Windlass
restarts it and the training continues. The job succeeds when the chief succeeds. Windlass then
stops the worker and the parameter server, which never end by themselves.
"""

from __future__ import annotations

from typing import Any

import windlass as wl


def serve() -> None:
    """Serve the chief's requests, as a worker or parameter server."""
    import tensorflow as tf  # imported here, because `main` does not need TensorFlow

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        cluster.cluster_spec(),
        job_name=cluster.task_type,
        task_index=cluster.task_id,
        protocol="grpc",
    )
    server.join()


def lead(epochs: int) -> dict[str, float]:
    """Run all epochs as the chief and return the fitted values."""
    import tensorflow as tf

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        slope, shift = tf.Variable(0.0), tf.Variable(0.0)

    def step() -> tf.Tensor:
        x = tf.random.normal([64])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + shift - (3.0 * x + 1.0)) ** 2)
        by_slope, by_shift = tape.gradient(loss, (slope, shift))
        slope.assign_sub(0.05 * by_slope)
        shift.assign_sub(0.05 * by_shift)
        return loss

    one_step = tf.function(step)
    for epoch in range(1, epochs + 1):
        loss = train_epoch(coordinator, one_step)
        print(f"epoch {epoch}  loss {loss:.4f}  variables on {slope.device}")
    return {"slope": float(slope.numpy()), "shift": float(shift.numpy())}


def train_epoch(coordinator: Any, one_step: Any, steps: int = 20) -> float:
    """Distribute an epoch's steps to the workers and return the mean loss."""
    asked = [coordinator.schedule(one_step) for _ in range(steps)]
    coordinator.join()
    return sum(float(each.fetch()) for each in asked) / steps


def main() -> None:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    room = wl.Local(cpus=0.5)
    server = wl.Job(wl.PythonFunction(serve), env=quiet, executor=room)
    group = wl.JobGroup(
        chief=wl.Job(wl.PythonFunction(lead), args={"epochs": 5}, env=quiet, executor=room),
        worker=server,
        ps=server,
        framework="tensorflow",
        experiment="tf_parameter_server",
    )
    trial = group.submit()
    for line in trial.logs(follow=True, role="chief", stream="stdout"):
        print(line)
    found = trial.result()
    print(f"y = {found['slope']:.2f} x + {found['shift']:.2f}")


if __name__ == "__main__":
    main()
