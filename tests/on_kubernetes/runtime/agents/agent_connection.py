"""The direction of the connection between agent and server, reported by a program in the pod."""

from __future__ import annotations

from windlass.runtimes.kubernetes.objects.manifests import AGENT_PORT

TELL_WAYS = f"""
import json
from urllib.parse import urlsplit

urls = json.load(open("/windlass/agent.json"))["urls"]
served = {{urlsplit(url).port for url in urls}}
rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
ports = [[int(end.split(":")[1], 16) for end in row[1:3]] for row in rows if row[3] == "01"]
print("dialled:", any(there in served for _, there in ports))
print("reached by the server:", any(here == {AGENT_PORT} for here, _ in ports))
"""
"""Reads the connections of the pod: those to the server, and those to the agent's own port."""

DIALLED = "dialled: True"  # the server may have connected as well, if the agent started slowly
REACHED = ["dialled: False", "reached by the server: True"]
