/** A shell script for the node's network: a pod with the address 10.244.0.7, and the rule of network-bridge that masquerades its packets. */
export const podNetwork = `set -e
ip netns add pod
ip link add pod0 type veth peer name eth0 netns pod
ip addr add 10.244.0.1/24 dev pod0
ip link set pod0 up
ip -n pod addr add 10.244.0.7/24 dev eth0
ip -n pod link set eth0 up
ip -n pod route add default via 10.244.0.1
echo 1 > /proc/sys/net/ipv4/ip_forward
nft -f - <<'RULES'
table inet oarlock-oarlock0 {
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade
  }
}
RULES`;
