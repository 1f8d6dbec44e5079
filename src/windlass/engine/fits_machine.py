"""Refuses a job that can never start on a machine, and suggests a smaller request."""

from __future__ import annotations

import math

from windlass.engine.wait_reasons import impossible, lacking
from windlass.model.errors import ResourceError
from windlass.model.hardware.resources import Capacity
from windlass.model.job import FunctionCall, JobSpec


def check_fits(spec: JobSpec, capacity: Capacity, name: str, way_out: str = "") -> None:
    """Raise ResourceError if a job requests more than the whole machine has.

    `name` names the job in the message. `way_out` replaces the default suggestion.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), replicas=4)
    >>> check_fits(JobSpec(roles=(role,)), Capacity(cpus=2, memory=0), "train")
    Traceback (most recent call last):
    windlass.ResourceError: train needs 4 CPUs for its 4 replicas; there are 2.
      Request less: executor=wl.Local(cpus=0.5) (fractions are allowed: CPUs are \
reserved, not enforced), or fewer replicas.
    """
    never = impossible(spec, capacity)
    if never:
        raise ResourceError(f"{name} {never}.", hint=way_out or _way_out(spec, capacity))


def _way_out(spec: JobSpec, capacity: Capacity) -> str:
    """Suggest a smaller request for the resources that the machine lacks."""
    short, total = lacking(spec, capacity), sum(role.replicas for role in spec.roles)
    fewer = ", or fewer replicas" if total > 1 else ""
    if "accelerator" in short:
        return f"Request less{fewer}; see: windlass accelerators"
    if "memory" in short:
        return f"Request less memory{fewer}."
    share = capacity.cpus if total == 1 else min(0.5, math.floor(100 * capacity.cpus / total) / 100)
    if not share:
        return "Request fewer replicas."
    is_function = isinstance(spec.roles[0].executable, FunctionCall)
    less = f"cpus={share:g}" if is_function else f"executor=wl.Local(cpus={share:g})"
    why = "fractions are allowed: CPUs are reserved, not enforced"
    return f"Request less: {less} ({why}){fewer}."
