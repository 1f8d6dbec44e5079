"""Everything from `authoring` that users see, such as `@wl.run`, jobs and executors."""
