"""The settings files of the parts that need one."""

from __future__ import annotations

import json

from on_kubernetes.cluster import network
from on_kubernetes.cluster.credentials import kubeconfig_of
from on_kubernetes.cluster.locations import (
    DOMAIN,
    NAME,
    NODE,
    NODE_ADDRESS,
    PAUSE_IMAGE,
    POD_NETWORK,
    SOCKET,
    STATE,
)

FOLDER = STATE / "config"
CONTAINERD = FOLDER / "containerd.toml"
KUBELET = FOLDER / "kubelet.json"
PROXY = FOLDER / "proxy.json"
RESOLVER = FOLDER / "resolv.conf"
"""The machine's name servers, for pods without cluster DNS."""

_CNI = FOLDER / "cni"


def write_settings() -> None:
    """Write all settings files."""
    _CNI.mkdir(parents=True)
    (_CNI / "10-bridge.conflist").write_text(json.dumps(_pod_network()))
    CONTAINERD.write_text(_containerd())
    KUBELET.write_text(json.dumps(_kubelet()))
    PROXY.write_text(json.dumps(_proxy()))
    RESOLVER.write_text("".join(f"nameserver {server}\n" for server in network.name_servers()))


def _containerd() -> str:
    return f"""
version = 2
root = "{STATE}/containerd"
state = "/run/windlass/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Many machines that are machines of others do not let a process be spared by the kernel's killer.
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{_CNI}"
"""


def _pod_network() -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_NETWORK}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": f"{STATE}/addresses",
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "mtu": network.mtu(),
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{NAME}",
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(RESOLVER),
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "maxPods": 250,
        # A nearly full disk must not evict pods or remove images, because these cannot be pulled
        # again.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "volumePluginDir": f"{STATE}/volume-plugins",
        # A stopped kubelet must be detected soon; see the controller manager.
        "nodeLeaseDurationSeconds": 20,
        "nodeStatusUpdateFrequency": "5s",
        # A pod that is deleted while it starts is checked again only after this time.
        "syncFrequency": "3s",
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
    }


def _proxy() -> dict[str, object]:
    # Zeros: these settings belong to the machine, and a namespace may not change them.
    tracking = {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": NODE,
        "conntrack": tracking,
        "iptables": {"minSyncPeriod": "0s"},
        "clientConnection": {"kubeconfig": str(kubeconfig_of("proxy"))},
    }
