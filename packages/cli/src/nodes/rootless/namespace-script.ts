import { gatewayAddress, nodeAddress, uplinkNamespace } from './node-address.ts';

/**
 * Packet rules of the node: programs of the host that trust its loopback address are reached by the node, not by pods and not through a Service, to whose
 * address the API server would proxy requests. Packets keep the address of their pod
 * on the way to the relay, which divides connections between pods: the kernel translates a source once, so the masquerading of network plugins is too late.
 */
const nodeRules = `
table ip oarlock-uplink {
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state new ip daddr ${gatewayAddress} meta l4proto { tcp, udp } th dport != 53 reject
  }
  chain output {
    type filter hook output priority filter; policy accept;
    ct state new ct status dnat ip daddr ${gatewayAddress} meta l4proto { tcp, udp } th dport != 53 reject
  }
  chain postrouting {
    type nat hook postrouting priority srcnat - 1; policy accept;
    oifname "uplink0" snat to ip saddr
  }
}`;

/** Stays as the process that keeps namespaces. */
export const holderScript = `echo ready
exec sleep 2147483647 </dev/null >/dev/null 2>&1`;

/**
 * Prepares the namespaces of a node without root, and stays as the process that keeps them: a /run of its own with the entries of the host's, the
 * network of the node, and behind it the uplink namespace, in which the relay is. DIRECTORY
 */
export const namespaceScript = `set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
directory=$1
mkdir -p "$directory/run"
mount --rbind /run "$directory/run"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run
for entry in "$directory/run"/*; do
  name=\${entry##*/}
  case $name in netns|mount|xtables.lock|'*') continue ;; esac
  if [ -L "$entry" ]; then ln -s "$(readlink "$entry")" "/run/$name"
  elif [ -d "$entry" ]; then mkdir "/run/$name"; mount --rbind "$entry" "/run/$name" 2>/dev/null || rmdir "/run/$name"
  else : > "/run/$name"; mount --bind "$entry" "/run/$name" 2>/dev/null || rm "/run/$name"
  fi
done
umount -l "$directory/run"
if [ -e /etc/resolv.conf ]; then mount --bind "$directory/resolv.conf" /etc/resolv.conf; fi
ip link set lo up
ip netns add ${uplinkNamespace}
ip link add uplink0 type veth peer name node0 netns ${uplinkNamespace}
ip addr add ${nodeAddress}/24 dev uplink0
ip link set uplink0 up
ip route add default via ${gatewayAddress}
nft -f - <<'RULES'${nodeRules}
RULES
uplink() { nsenter --net=/run/netns/${uplinkNamespace} -- "$@"; }
uplink ip link set lo up
uplink ip addr add ${gatewayAddress}/24 dev node0
uplink ip link set node0 up
uplink ip route add default via ${nodeAddress}
${holderScript}`;
