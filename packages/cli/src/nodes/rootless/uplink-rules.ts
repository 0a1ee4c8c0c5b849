import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { CommandError } from '../../common/command-error.ts';
import { gatewayAddress, relayPort, tapGateway, tapName, tapNetwork } from './node-address.ts';
import { relayTable } from './relay/original-destinations.ts';

/** How packets of the node leave the uplink namespace: all by the relay, or by a TAP device those that are not for the gateway. */
export type WayOut = 'relay' | 'tap';

export interface UplinkRulesOptions {
  readonly wayOut: WayOut;
  /** The maximum number of connections and flows between the node and the host. By the TAP device, pods divide them as `tapShares` states. */
  readonly places: number;
}

/**
 * Returns the packet rules of the uplink namespace. They replace earlier ones.
 *
 * By the relay: what the node sends is redirected to it, and it finds the destination in the map. The relay knows a flow of datagrams by its source. So a
 * source has one destination until the relay has ended its flow, after a minute; datagrams to others are dropped, because the relay would send them to the
 * first. Each datagram stores its destination again: the relay may have ended the flow, while the kernel still has it.
 *
 * New connections and flows have a rate per address, so that no pod fills the map: at most 14,000 entries of datagrams and 5,000 of connections.
 */
const uplinkRules = ({ wayOut, places }: UplinkRulesOptions): string => `
table ip ${relayTable} {}
delete table ip ${relayTable}
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
    ct state new update @rates { ip saddr limit rate over 200/second burst 2000 packets } drop${wayOut === 'tap' ? othersPass : ''}
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
    ip daddr { 127.0.0.0/8, 224.0.0.0/3 } drop${wayOut === 'tap' ? othersPass : ''}
    meta l4proto tcp update @destinations { ip saddr . meta l4proto . th sport : ip daddr . th dport }
    meta l4proto { tcp, udp } dnat to ${gatewayAddress}:${relayPort}
  }${wayOut === 'tap' ? tapChains(tapShares(places)) : relayChains}
}`;

const timeoutMs = 10_000;

/** Loads the packet rules of the uplink namespace. `enterUplink` are the words in front of a command that runs there. @throws CommandError */
export async function loadUplinkRules(enterUplink: readonly string[], options: UplinkRulesOptions): Promise<void> {
  const [file = '', ...words] = enterUplink;
  const { exitCode, stderr } = await runProgram(systemClock, file, [...words, 'nft', '-f', '-'], {
    stdin: uplinkRules(options),
    timeoutMs,
  });
  if (exitCode !== 0) throw new CommandError(`the packet rules of the node's router cannot be loaded: ${stderr.trim()}`);
}

const othersPass = `
    ip daddr != ${gatewayAddress} accept`;

/** Nothing is forwarded: a device of an earlier start has made the namespace a router. */
const relayChains = `
  chain forward {
    type filter hook forward priority filter; policy drop;
  }`;

/** How pods divide the connections and flows by the TAP device. */
interface TapShares {
  /** A pod always has so many. */
  readonly own: number;
  /** A pod with fewer than so many takes more from the common part, where pods with more leave it. */
  readonly few: number;
  /** The size of that common part. */
  readonly common: number;
  /** The size of the part for pods with more than `few`. With it, a pod has half of all. */
  readonly many: number;
}

/** The number of pods whose own connections are set aside: more than the kubelet's default of 110. */
const podsWithShares = 128;

/**
 * Divides connections by counts that the kernel keeps: a greedy pod fills only the part for many, greedy pods together only that and the common part, and a
 * pod that comes last has its own share. Rejected packets never have an entry, so the parts together bound all connections.
 */
function tapShares(places: number): TapShares {
  const own = Math.max(1, Math.floor(places / 4 / podsWithShares));
  const few = Math.max(own, Math.floor(places / 16));
  return { own, few, common: Math.floor(places / 4), many: Math.max(1, Math.floor(places / 2) - few) };
}

/**
 * The TAP device leads to no address of its own network, because some programs connect such an address with the loopback address of the host. A packet that
 * comes from neither side is dropped.
 */
const tapChains = ({ own, few, common, many }: TapShares): string => `
  set few {
    type ipv4_addr
    size 65536
    flags dynamic
  }
  set own {
    type ipv4_addr
    size 65536
    flags dynamic
  }
  chain open {
    add @few { ip saddr ct count over ${few} } goto many
    add @own { ip saddr ct count over ${own} } ct count over ${common} reject
  }
  chain many {
    ct count over ${many} reject
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    iifname != "node0" drop
    oifname != "${tapName}" drop
    ip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3, ${tapNetwork} } reject
    ct state new jump open
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "${tapName}" masquerade
  }`;

/** Configures the TAP device: packets of the node go there, those of the relay and answers to the node do not. */
export const tapScript = `set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
ip address flush dev ${tapName}
ip address add ${tapNetwork.replace(/\.0\//, '.100/')} dev ${tapName}
ip link set ${tapName} up
ip route replace default via ${tapGateway} dev ${tapName} table 100
ip rule delete iif node0 table 100 2>/dev/null || true
ip rule add iif node0 table 100
echo 1 > /proc/sys/net/ipv4/ip_forward`;
