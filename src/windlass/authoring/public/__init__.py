"""The public names of authoring: `@wl.run`, jobs, executables, executors, job files."""
