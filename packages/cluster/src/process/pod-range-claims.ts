import { createHash, randomBytes } from 'node:crypto';
import { formatCIDR, parseCIDR, type CIDR } from '@oarlock/api/net/cidr';
import type { HostClaims } from './host-claims.ts';

const prefix = 'pods/';

/** A range of pods that overlaps the range of another cluster of this network namespace. */
export interface RangeOverlap {
  readonly own: string;
  readonly other: string;
  /** A private range that no cluster of the host uses; undefined if there is none of the size /16 beside the default. */
  readonly free: string | undefined;
}

const overlaps = (a: CIDR, b: CIDR): boolean => a.family === b.family && a.first <= b.last && b.first <= a.last;

/**
 * Claims the ranges of a cluster's pods, and returns an overlap with those of another cluster. Nodes of one cluster share its ranges. The claims are made
 * before those of others are read, so that of two clusters that start at once at least one finds the other.
 * @param cluster identifies the cluster, for instance by the URL of its API server
 */
export async function claimPodRanges(
  claims: Pick<HostClaims, 'claim' | 'list'>,
  { podCIDRs, cluster }: { readonly podCIDRs: readonly string[]; readonly cluster: string },
): Promise<RangeOverlap | undefined> {
  const own = podCIDRs.flatMap((text) => parseCIDR(text) ?? []);
  const id = createHash('sha256').update(cluster).digest('hex').slice(0, 16);
  for (const range of own) await claims.claim(`${prefix}${formatCIDR(range)}/${id}/${randomBytes(4).toString('hex')}`);
  const others = (await claims.list(prefix)).flatMap((name) => {
    const [, text = '', owner] = /^pods\/([\d.a-f:]+\/\d+)\/([0-9a-f]{16})\//.exec(name) ?? [];
    const range = parseCIDR(text);
    return range === undefined || owner === id ? [] : [range];
  });
  for (const range of own) {
    const other = others.find((each) => overlaps(range, each));
    if (other !== undefined) return { own: formatCIDR(range), other: formatCIDR(other), free: freeRange(others) };
  }
  return undefined;
}

function freeRange(used: readonly CIDR[]): string | undefined {
  const candidates = Array.from({ length: 11 }, (_, index) => `10.${245 + index}.0.0/16`);
  return candidates.find((text) => !used.some((each) => overlaps(each, parseCIDR(text) as CIDR)));
}
