"""The part of `authoring` that users call, such as `@wl.run`, `wl.Job` and executors."""
