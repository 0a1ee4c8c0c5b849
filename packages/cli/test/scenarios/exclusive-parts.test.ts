import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from '@oarlock/kernel/plugin';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const folder = fileURLToPath(new URL('../../../../plugins', import.meta.url));
const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'src', 'plugin.ts')));

/** What a plugin can use of a machine that serves one cluster at a time: how its sources use it, and the part that it then declares. */
const uses = [
  { use: 'conflists for container runtimes', source: /\bwriteConflist\(/, part: /^the CNI configurations in / },
  { use: 'VXLAN devices', source: /\bvxlan: /, part: /^the VXLAN device / },
  { use: 'VXLAN ids', source: /\bvxlan: /, part: /^the VXLAN \d+ on UDP port / },
  { use: 'rules of nftables', source: /'nft'|from '@oarlock\/nftables/, part: /^the kernel's (rules|routes)|^the bridge / },
  { use: 'rules of iptables', source: /'iptables(-\w+)?'/, part: /^the kernel's rules/ },
  { use: 'routes and interfaces', source: /from '@oarlock\/network-cni\/routing/, part: /^the kernel's routes|^the bridge / },
  { use: 'containers of a daemon', source: /default\('(\/var)?\/run\//, part: /^the containers of \// },
] as const;

function sourceOf(name: string): string {
  const directory = join(folder, name, 'src');
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  return files.map((file) => readFileSync(join(directory, file), 'utf8')).join('\n');
}

/** Returns the parts that a plugin declares with its default config, and with VXLANs if it has them. */
async function partsOf(name: string): Promise<readonly string[]> {
  if (!sourceOf(name).includes('exclusiveParts')) return [];
  const { default: plugin } = (await import(join(folder, name, 'src', 'plugin.ts'))) as { readonly default: Plugin };
  if (plugin.exclusiveParts === undefined) return [];
  const { properties = {} } = z.toJSONSchema(plugin.config, { io: 'input', unrepresentable: 'any' });
  return plugin.exclusiveParts(plugin.config.parse('vxlan' in properties ? { routes: 'vxlan' } : {}));
}

describe('the exclusive parts of plugins', () => {
  it.each(names)('%s declares what its sources use, and nothing else', async (name) => {
    const source = sourceOf(name);
    const parts = await partsOf(name);
    const used = uses.filter((each) => each.source.test(source));
    expect(used.filter(({ part }) => !parts.some((declared) => part.test(declared))).map(({ use }) => use)).toEqual([]);
    expect(parts.filter((declared) => !used.some(({ part }) => part.test(declared)))).toEqual([]);
  });

  it('are found for each use', () => {
    const sources = names.map(sourceOf);
    expect(uses.filter((each) => !sources.some((source) => each.source.test(source)))).toEqual([]);
  });
});
