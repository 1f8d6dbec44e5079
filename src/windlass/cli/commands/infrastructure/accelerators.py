"""Implements `windlass accelerators`, which lists accelerators and this machine's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.options.help_sections import examples
from windlass.cli.options.parameters import json_option

if TYPE_CHECKING:
    from windlass.cli.output.table import Row
    from windlass.model.hardware.accelerators import AcceleratorKind
    from windlass.model.hardware.resources import Device
    from windlass.model.requests import ServerInfo


@click.command(
    short_help="List accelerator names and the devices of this machine.",
    epilog=examples(
        "windlass accelerators",
        "windlass run --accelerator a100x2 train.py",
    ),
)
@json_option
def command(as_json: bool) -> None:
    """List the accelerators that jobs can request, and this machine's devices.

    Pass these names to --accelerator or accelerator=. Append the number of devices to request
    several (a100x2). Request TPUs by size (v5e-16).
    """
    from windlass.client.client import default_client
    from windlass.model.hardware.accelerators import KINDS

    info = default_client().server_info()
    if as_json:
        _print_json(info)
        return
    from windlass.cli.output.table import Column, print_table

    print_table(
        [
            Column("NAME"),
            Column("ACCELERATOR", shrinks=True),
            Column("MEMORY", is_number=True),
            Column("HERE", is_number=True),
        ],
        [_row(kind, info.capacity.devices) for kind in KINDS],
    )
    _print_machine(info)


def count_here(kind: str, devices: Sequence[Device]) -> int:
    """Count this machine's devices that satisfy a request for a kind of accelerator."""
    from windlass.model.hardware.accelerators import satisfies

    return sum(satisfies(device.kind, kind) for device in devices)


def _row(kind: AcceleratorKind, devices: Sequence[Device]) -> Row:
    from windlass.cli.output.table import Cell

    here = count_here(kind.name, devices)
    return [
        Cell(kind.name, "bold" if here else ""),
        kind.title,
        f"{kind.memory_gb} GB" if kind.memory_gb else "",
        Cell(str(here), "green") if here else Cell("-", "dim"),
    ]


def _print_machine(info: ServerInfo) -> None:
    from windlass.cli.output.text import counted, paint
    from windlass.model.text.quantities import format_size

    has = info.capacity
    parts = [
        f"{has.cpus:g} CPUs ({info.cpus_free:g} free)",
        f"{format_size(has.memory)} of memory ({format_size(info.memory_free)} free)",
    ]
    if has.devices:
        parts.append(f"{counted(len(has.devices), 'accelerator')} ({info.devices_free} free)")
    else:
        parts.append("no accelerator")
    print()
    print(paint("This machine has ", dim=True) + f"{', '.join(parts)}.")


def _print_json(info: ServerInfo) -> None:
    from windlass.cli.output.json import plain, print_json
    from windlass.model.hardware.accelerators import KINDS

    devices = info.capacity.devices
    print_json(
        {
            "accelerators": [
                {
                    **kind._asdict(),
                    "sizes": [size._asdict() for size in kind.sizes],
                    "here": count_here(kind.name, devices),
                }
                for kind in KINDS
            ],
            "machine": {
                "host": info.host,
                **plain(info.capacity),
                "cpus_free": info.cpus_free,
                "memory_free": info.memory_free,
                "devices_free": info.devices_free,
            },
        }
    )
