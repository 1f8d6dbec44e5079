"""The cluster's DNS: names of services and their pods. Other queries are forwarded."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from dnslib import QTYPE, RCODE, RR, A, DNSRecord
from dnslib.server import DNSHandler, DNSLogger, DNSServer

from on_kubernetes.cluster.dns_names import addresses_of, is_in_cluster
from on_kubernetes.cluster.object_watch import Watched

_UPSTREAM_PATIENCE = 4.0


class ClusterNames:
    """Answers queries for names of the cluster, and forwards all others."""

    def __init__(self, kubeconfig: Path, upstream: list[str]) -> None:
        self._services = Watched("services", kubeconfig)
        self._endpoints = Watched("endpoints", kubeconfig)
        self._upstream = upstream
        self._services.start()
        self._endpoints.start()

    def resolve(self, request: DNSRecord, handler: DNSHandler) -> DNSRecord:
        """Return the answer to a query."""
        name = str(request.q.qname).rstrip(".")
        if not is_in_cluster(name):
            return self._ask_elsewhere(request, handler.protocol)
        answer = request.reply()
        addresses = addresses_of(name, self._services.objects, self._endpoints.objects)
        if addresses is None:
            answer.header.rcode = RCODE.NXDOMAIN
        elif request.q.qtype in (QTYPE.A, QTYPE.ANY):
            for address in addresses:
                answer.add_answer(RR(request.q.qname, QTYPE.A, rdata=A(address), ttl=1))
        return answer

    def _ask_elsewhere(self, request: DNSRecord, protocol: str) -> DNSRecord:
        for server in self._upstream:
            try:
                reply = DNSRecord.parse(request.send(server, timeout=_UPSTREAM_PATIENCE))
                if reply.header.tc and protocol == "tcp":
                    reply = DNSRecord.parse(
                        request.send(server, tcp=True, timeout=_UPSTREAM_PATIENCE)
                    )
                return reply
            except OSError:
                continue
        answer = request.reply()
        answer.header.rcode = RCODE.SERVFAIL
        return answer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kubeconfig", type=Path, required=True)
    options.add_argument("--address", required=True)
    options.add_argument("--upstream", action="append", default=[])
    arguments = options.parse_args()
    names = ClusterNames(arguments.kubeconfig, arguments.upstream)
    for over_tcp in (True, False):
        logger = DNSLogger(log="error")
        DNSServer(names, arguments.address, port=53, tcp=over_tcp, logger=logger).start_thread()
    threading.Event().wait()


if __name__ == "__main__":
    main()
