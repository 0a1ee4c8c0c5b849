import { isIPv6 } from 'node:net';
import { parseIPNumber } from '@oarlock/api/net/ip-number';
import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import { hostInterfaces, podLinkAddresses } from './host-interfaces.ts';

/** Returns the nft command that removes the table, also if it does not exist. */
export const noRules = (table: string): string => `add table ${table}\ndelete table ${table}\n`;

/**
 * Returns the nft commands that replace the table by one without pods. The first rule accepts most IPv4 packets. A packet is accepted if its interface,
 * link address and source address belong together; link addresses, because a bridge sends packets for an address to the port that used it last.
 *
 * Link-local addresses are not known, because a pod chooses its own. They are for neighbor discovery only: policies do not know them either, and a packet
 * to the link-local address of another pod would pass its policies. An advertisement must be for an address of the pod, whatever its source is.
 *
 * A second chain compares the destination of a frame from one pod to another with the addresses of the receiver. Policies know a pod by its addresses, so
 * they do not cover a packet that the pod receives at another one: broadcast, multicast and anycast addresses, also in a frame for one pod. Frames with a
 * VLAN tag pass br_netfilter unseen, and so all policies; receivers ignore the tag if its identifier is 0. ARP and neighbor discovery reach every pod.
 */
export const emptyRules = (table: string): string => `${noRules(table)}table ${table} {
  set pods { type ifname; }
  set links { type ifname . ether_addr; }
  set own4 { type ifname . ether_addr . ipv4_addr; }
  set own6 { type ifname . ether_addr . ipv6_addr; }
  set targets { typeof iifname . @th,64,128; }
  chain own-addresses {
    type filter hook prerouting priority -300; policy accept;
    iifname . ether saddr . ip saddr @own4 accept
    iifname != @pods accept
    iifname . ether saddr != @links counter drop
    iifname . arp saddr ether . arp saddr ip @own4 accept
    arp operation request arp saddr ip 0.0.0.0 accept
    meta l4proto != ipv6-icmp iifname . ether saddr . ip6 saddr @own6 ip6 daddr != fe80::/10 accept
    icmpv6 type { nd-router-advert, nd-redirect } counter drop
    icmpv6 type nd-neighbor-advert iifname . @th,64,128 != @targets counter drop
    meta l4proto ipv6-icmp iifname . ether saddr . ip6 saddr @own6 accept
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-report, mld-listener-done, mld2-listener-report } ip6 saddr { ::, fe80::/10 } accept
    counter drop
  }
  chain own-destinations {
    type filter hook forward priority -300; policy accept;
    oifname != @pods accept
    ether type { 8021q, 8021ad } counter drop
    oifname . ether daddr . ip daddr @own4 accept
    oifname . ether daddr . ip6 daddr @own6 accept
    ether type arp accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    counter drop
  }
}
`;

/** Returns the nft commands that add or delete the elements of an attachment. */
export function elementCommands(verb: 'add' | 'delete', table: string, result: CniResult): string {
  const addresses = result.ips.map(({ address }) => address.split('/')[0] ?? '');
  const links = podLinkAddresses(result);
  return hostInterfaces(result)
    .flatMap(({ name }) => [
      ['pods', `"${name}"`],
      ...links.map((link) => ['links', `"${name}" . ${link}`]),
      ...addresses.flatMap((address) => links.map((link) => [isIPv6(address) ? 'own6' : 'own4', `"${name}" . ${link} . ${address}`])),
      ...addresses.filter(isIPv6).map((address) => ['targets', `"${name}" . 0x${(parseIPNumber(address) ?? 0n).toString(16)}`]),
    ])
    .map(([set, element]) => `${verb} element ${table} ${set} { ${element} }\n`)
    .join('');
}
