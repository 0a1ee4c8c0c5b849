import { listRules, NftError } from './nft.ts';

/** Number of nftables objects by kind (`chain`, `rule`, `set`, `map`, ...); `elements` is the number of elements in all sets and maps. */
export type ObjectCounts = Readonly<Record<string, number>>;

/**
 * Returns the number of nftables objects in the kernel by kind: of all tables, or of the table with this family and name
 * (`inet`, `oarlock-policy`).
 */
export async function countObjects(...table: readonly string[]): Promise<ObjectCounts> {
  const what = table.length === 0 ? ['ruleset'] : ['table', ...table];
  return countsOf(await listRules(what));
}

/** Counts the objects in the output of `nft -j list`. @throws NftError `Refused` if the output is malformed */
export function countsOf(output: string): ObjectCounts {
  const counts = new Map<string, number>();
  const add = (kind: string, count: number) => counts.set(kind, (counts.get(kind) ?? 0) + count);
  for (const entry of entriesOf(output)) {
    for (const [kind, value] of Object.entries(entry ?? {})) {
      add(kind, 1);
      const elements = (value as { readonly elem?: unknown } | null)?.elem;
      add('elements', Array.isArray(elements) ? elements.length : 0);
    }
  }
  return Object.fromEntries(counts);
}

function entriesOf(output: string): readonly (object | null)[] {
  let value: { readonly nftables?: unknown } | null;
  try {
    value = JSON.parse(output) as typeof value;
  } catch (cause) {
    throw new NftError('Refused', 'nft printed no JSON', { cause });
  }
  const entries = value?.nftables;
  if (!Array.isArray(entries) || !entries.every((entry) => typeof entry === 'object'))
    throw new NftError('Refused', 'nft printed no list of objects');
  return entries as readonly (object | null)[];
}
