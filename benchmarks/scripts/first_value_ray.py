"""Nothing runs yet: Ray is started for one task."""

import ray

ray.init()


@ray.remote
def train(lr: float) -> float:
    return 1 - lr


print("=", ray.get(train.remote(0.25)), flush=True)
