"""How the agent of a pod and its server came together: told by a program in that pod."""

from __future__ import annotations

from windlass.runtimes.kubernetes.manifests import AGENT_PORT

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
"""Looks at the connections of the pod: those to the server, and those to the agent's own port."""

DIALLED = "dialled: True"  # it may have been reached besides, if it took its time to begin
REACHED = ["dialled: False", "reached by the server: True"]
