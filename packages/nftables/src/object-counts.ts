import { execa } from 'execa';

/** Number of nftables objects by kind (`chain`, `rule`, `set`, `map`, ...); `elements` is the number of elements in all sets and maps. */
export type ObjectCounts = Readonly<Record<string, number>>;

/**
 * Returns the number of nftables objects in the kernel by kind: of all tables, or of the table with this family and name
 * (`inet`, `oarlock-policy`).
 */
export async function countObjects(...table: readonly string[]): Promise<ObjectCounts> {
  const what = table.length === 0 ? ['ruleset'] : ['table', ...table];
  const { stdout } = await execa('nft', ['-j', 'list', ...what]);
  const counts: Record<string, number> = {};
  for (const entry of (JSON.parse(stdout) as { nftables: Record<string, { elem?: unknown[] }>[] }).nftables) {
    for (const [kind, { elem }] of Object.entries(entry)) {
      counts[kind] = (counts[kind] ?? 0) + 1;
      counts['elements'] = (counts['elements'] ?? 0) + (elem?.length ?? 0);
    }
  }
  return counts;
}
