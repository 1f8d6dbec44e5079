"""Real JAX: the processes of a job find each other."""

from __future__ import annotations

from pathlib import Path

from required_frameworks import needs

from harness import Project

pytestmark = needs("jax")


def test_the_replicas_find_each_other(home: Path, examples: Project) -> None:
    examples.write(
        "gather.py",
        """
        import windlass as wl


        @wl.run(replicas=2, framework="jax", cpus=0.5)
        def gather():
            import jax
            from jax.experimental.multihost_utils import process_allgather

            jax.distributed.initialize(num_processes=wl.world_size(), process_id=wl.rank())
            ranks = process_allgather(jax.numpy.array([wl.rank()]))
            return jax.process_index(), jax.process_count(), sorted(ranks.flatten().tolist())


        print(gather())
        """,
    )
    done = examples.python("gather.py")
    assert done.returncode == 0, done.stderr
    assert "(0, 2, [0, 1])" in done.stdout
