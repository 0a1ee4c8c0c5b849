import { gatewayAddress, nodeAddress, relayPort, uplinkNamespace } from './node-address.ts';
import { relayTable } from './relay/original-destinations.ts';

/**
 * Packet rules of the uplink namespace: what the node sends is redirected to the relay, which finds the destination in the map. The relay knows a flow of
 * datagrams by its source. So a source has one destination until the relay has ended its flow, after a minute; datagrams to others are dropped, because the
 * relay would send them to the first. Each datagram stores its destination again: the relay may have ended the flow, while the kernel still has it.
 *
 * New connections and flows have a rate per address, so that no pod fills the map: at most 14,000 entries of datagrams and 5,000 of connections.
 */
const relayRules = `
table ip ${relayTable} {
  map destinations {
    type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
    size 262144
    flags dynamic,timeout
    timeout 15s
  }
  set sources {
    type ipv4_addr . inet_service
    size 262144
    flags dynamic,timeout
    timeout 70s
  }
  set flows {
    type ipv4_addr . inet_service . ipv4_addr . inet_service
    size 262144
    flags dynamic,timeout
    timeout 70s
  }
  set rates {
    type ipv4_addr
    size 65536
    flags dynamic,timeout
    timeout 1m
  }
  chain before {
    type filter hook prerouting priority mangle; policy accept;
    iifname != "node0" accept
    ct state new update @rates { ip saddr limit rate over 200/second burst 2000 packets } drop
    meta l4proto udp jump datagram
  }
  chain datagram {
    ip saddr . udp sport @sources ip saddr . udp sport . ip daddr . udp dport != @flows drop
    update @sources { ip saddr . udp sport }
    update @flows { ip saddr . udp sport . ip daddr . udp dport }
    update @destinations { ip saddr . meta l4proto . udp sport timeout 1m : ip daddr . udp dport }
  }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    iifname != "node0" accept
    ip daddr { 127.0.0.0/8, 224.0.0.0/3 } drop
    meta l4proto tcp update @destinations { ip saddr . meta l4proto . th sport : ip daddr . th dport }
    meta l4proto { tcp, udp } dnat to ${gatewayAddress}:${relayPort}
  }
}`;

/**
 * Packet rules of the node: programs of the host that trust its loopback address are reached by the node, not by pods. Packets keep the address of their pod
 * on the way to the relay, which divides connections between pods: the kernel translates a source once, so the masquerading of network plugins is too late.
 */
const nodeRules = `
table ip oarlock-uplink {
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state new ip daddr ${gatewayAddress} meta l4proto { tcp, udp } th dport != 53 reject
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
uplink nft -f - <<'RULES'${relayRules}
RULES
${holderScript}`;
