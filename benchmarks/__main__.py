"""`make bench`, or `python -m benchmarks`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import msgspec

from benchmarks.registry import Benchmark, all_benchmarks
from benchmarks.runner import run_benchmarks
from benchmarks.table import format_report


def main() -> int:
    """Measure, print the table; the exit code tells of failures, of budgets only if asked."""
    known = all_benchmarks()
    parser = argparse.ArgumentParser(prog="make bench", description="Measure how fast Windlass is.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--only", metavar="NAME,...", help=f"of: {', '.join(known)}")
    parser.add_argument("--skip-peers", action="store_true", help="do not measure submitit and Ray")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a budget is missed")
    options = parser.parse_args()
    chosen = known if options.only is None else _choose(parser, known, options.only)
    # Told to end, it still stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        report = run_benchmarks(chosen, skip_peers=options.skip_peers)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(format_report(report))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    is_broken = any(figure.error for figure in report.figures)
    is_missed = options.strict and any(figure.ok is False for figure in report.figures)
    return 1 if is_broken or is_missed else 0


def _choose(
    parser: argparse.ArgumentParser, known: dict[str, Benchmark], names: str
) -> dict[str, Benchmark]:
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; choose one of: {', '.join(known)}")
    return {name: known[name] for name in known if name in wanted}


if __name__ == "__main__":
    sys.exit(main())
