import type { Clock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { NetworkError } from '@oarlock/spi/network';
import type { Pool } from '../ipam/pools.ts';

const timeoutMs = 10_000;
/** Before the hook of conntrack that reassembles fragments (NF_IP_PRI_RAW_BEFORE_DEFRAG). */
const beforeDefragmentation = -450;
export const tableOf = (prefix: string): string => `oarlock-${prefix}`;

/**
 * Returns the rules that drop packets whose source address does not belong to the sending pod.
 *
 * IPv4: `rp_filter` on the host interfaces drops them. It costs a quarter of a rule per packet, and also works if the node's default is loose, because the
 * host interfaces have no address. The kernel skips it for packets to a connected socket of the node (early demultiplexing), so a rule checks packets to
 * the node itself; packets between pods do not pass this rule.
 *
 * Fragments: conntrack reassembles them before `rp_filter` checks the packet, even if they arrive on different interfaces, and the packet has the interface
 * of its last fragment. A pod could therefore insert a fragment into a packet of another pod. The rules check each fragment before it is reassembled.
 *
 * IPv6: rules in a separate table, which IPv4 packets do not traverse. They exist also without an IPv6 pool, because each interface has link-local
 * addresses. A pod chooses its own link-local address, so packets from these are accepted for neighbor discovery and multicast listener reports only: a
 * router advertisement would make the pod the default router of the node (CVE-2020-13597), and policies do not know these addresses.
 */
function ownAddresses(prefix: string): readonly string[] {
  const [four, six] = [`ip ${tableOf(prefix)}`, `ip6 ${tableOf(prefix)}`];
  const emptied = (table: string) => [`add table ${table}`, `delete table ${table}`, `add table ${table}`];
  const isForeign = `iifname "${prefix}*" fib saddr . iif oif missing`;
  const discovery =
    'nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-report, mld-listener-done, mld2-listener-report';
  return [
    ...emptied(four),
    `add chain ${four} own-addresses { type filter hook input priority raw; policy accept; }`,
    `add rule ${four} own-addresses ${isForeign} counter drop`,
    `add chain ${four} own-fragments { type filter hook prerouting priority ${beforeDefragmentation}; policy accept; }`,
    `add rule ${four} own-fragments ip frag-off & 0x3fff != 0 ${isForeign} counter drop`,
    ...emptied(six),
    `add chain ${six} link-local`,
    `add rule ${six} link-local icmpv6 type { ${discovery} } accept`,
    `add rule ${six} link-local counter drop`,
    `add chain ${six} own-addresses { type filter hook prerouting priority ${beforeDefragmentation}; policy accept; }`,
    `add rule ${six} own-addresses iifname "${prefix}*" ip6 saddr { ::, fe80::/10 } goto link-local`,
    `add rule ${six} own-addresses ${isForeign} counter drop`,
  ];
}

/**
 * Returns the nftables tables of the node, to apply in one transaction: sets of ranges, a rule that masquerades packets that leave the pools, and
 * the rules against spoofed source addresses. The rules cover all pods, so that an ADD changes no rule.
 */
export function rulesOf(prefix: string, pools: readonly Pool[], inside: readonly string[]): string {
  const table = `inet ${tableOf(prefix)}`;
  const lines = [`add table ${table}`];
  for (const family of [4, 6] as const) {
    const ofFamily = (ranges: readonly string[]) => [...new Set(ranges.filter((range) => range.includes(':') === (family === 6)))];
    const sets = {
      nat: ofFamily(pools.filter(({ nat }) => nat).map(({ cidr }) => cidr)),
      inside: ofFamily([...inside, ...pools.map(({ cidr }) => cidr), family === 4 ? '224.0.0.0/4' : 'ff00::/8']),
    };
    for (const [name, ranges] of Object.entries(sets)) {
      lines.push(
        `add set ${table} ${name}${family} { type ipv${family}_addr; flags interval; auto-merge; }`,
        `flush set ${table} ${name}${family}`,
      );
      if (ranges.length > 0) lines.push(`add element ${table} ${name}${family} { ${ranges.join(', ')} }`);
    }
  }
  return `${[
    ...lines,
    `add chain ${table} postrouting { type nat hook postrouting priority srcnat; policy accept; }`,
    `flush chain ${table} postrouting`,
    `add rule ${table} postrouting ip saddr @nat4 ip daddr != @inside4 masquerade`,
    `add rule ${table} postrouting ip6 saddr @nat6 ip6 daddr != @inside6 masquerade`,
    // earlier versions put the chain here
    `add chain ${table} own-addresses`,
    `flush chain ${table} own-addresses`,
    `delete chain ${table} own-addresses`,
    ...ownAddresses(prefix),
  ].join('\n')}\n`;
}

/** Applies the rules in one transaction. @throws NetworkError if nft rejects the rules */
export async function applyRules(clock: Clock, rules: string): Promise<void> {
  const { exitCode, stderr, killed } = await runProgram(clock, 'nft', ['-f', '-'], { stdin: rules, timeoutMs });
  if (exitCode !== 0) throw new NetworkError('PluginFailed', `nft: ${killed ?? stderr.trim().slice(0, 500)}`);
}
