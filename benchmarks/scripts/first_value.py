"""Nothing runs yet: one call, one value."""

import windlass as wl


@wl.run
def train(lr: float) -> float:
    return 1 - lr


print("=", train(0.25), flush=True)
