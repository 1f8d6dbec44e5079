"""Train a tiny Keras model with TensorFlow's MultiWorkerMirroredStrategy: a chief and a worker.

    python examples/tf_multiworker.py

The chief and the worker run the same function in lockstep. From `TF_CONFIG`, each process reads
its own task and the other process's address.
"""

from __future__ import annotations

import windlass as wl


def train(epochs: int) -> float:
    """Train in every replica and return the last epoch's loss."""
    import tensorflow as tf  # imported here, because `main` does not need TensorFlow

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((8,)), tf.keras.layers.Dense(16, "tanh"), tf.keras.layers.Dense(1)]
        )
        optimizer = tf.keras.optimizers.Adam(0.02)
        optimizer.build(model.trainable_variables)

    rng = tf.random.Generator.from_seed(0)
    x = rng.normal((1024, 8))
    y = tf.matmul(x, rng.normal((8, 1)))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(128)
    shares = strategy.experimental_distribute_dataset(batches)

    # Keras 3's fit() does not support several machines, so this function has its own loop.
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            share = loss / strategy.num_replicas_in_sync
        gradients = tape.gradient(share, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def epoch() -> tf.Tensor:
        total, steps = 0.0, 0.0
        for x, y in shares:
            losses = strategy.run(step, args=(x, y))
            total += strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)
            steps += 1.0
        return total / steps

    run_epoch = tf.function(epoch)
    for number in range(1, epochs + 1):
        loss = float(run_epoch())
        print(f"epoch {number}  loss {loss:.4f}  in {strategy.num_replicas_in_sync} replicas")
    return loss


def main() -> None:
    job = wl.Job(
        wl.PythonFunction(train),
        args={"epochs": 5},
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        executor=wl.Local(cpus=0.5),
    )
    group = wl.JobGroup(
        chief=job,
        worker=job,
        framework="tensorflow",
        restart_scope="job",  # the replicas run in lockstep, so all must restart together
        experiment="tf_multiworker",
    )
    trial = group.submit()
    for line in trial.logs(follow=True, stream="stdout"):
        print(line)
    print(f"the chief's loss: {trial.result():.4f}")


if __name__ == "__main__":
    main()
