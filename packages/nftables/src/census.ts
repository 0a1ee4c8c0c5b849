import { execa } from 'execa';

/** By kind (`chain`, `rule`, `set`, `map`, ...), and under `elements` those of all sets and maps. */
export type Census = Readonly<Record<string, number>>;

/** How many of each kind of thing the kernel holds, of all tables or of one (`inet`, `oarlock-policy`). */
export async function census(...table: readonly string[]): Promise<Census> {
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
