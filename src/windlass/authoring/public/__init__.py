"""The part of `authoring` that users call: `@wl.run`, `wl.Job`, executors and others."""
