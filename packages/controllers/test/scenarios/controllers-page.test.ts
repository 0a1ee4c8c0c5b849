import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { builtin } from '@oarlock/controllers/builtin';
import type { Plugin } from '@oarlock/kernel/plugin';
import { controllerOfPlugin } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const text = readFileSync(fileURLToPath(new URL('../../../../docs/controllers.md', import.meta.url)), 'utf8');
const rows = text.split('\n').flatMap((line) => {
  const [id, name, , options] = line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
  return id?.startsWith('`controller-') === true ? [{ id: id.slice(1, -1), name, options }] : [];
});

/** Formats options as the page does: each with its default. */
function optionsOf({ config }: Plugin): string {
  const { properties = {} } = z.toJSONSchema(config, { io: 'input', unrepresentable: 'any' });
  return Object.entries(properties)
    .map(([option, schema]) => {
      const { default: value } = schema as { readonly default?: unknown };
      return value === undefined ? `\`${option}\`` : `\`${option}: ${typeof value === 'string' ? value : JSON.stringify(value)}\``;
    })
    .join(', ');
}

describe('docs/controllers.md', () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const controller = (plugin: Plugin) => controllerOfPlugin(plugin, { client: api.client(), informers: api.informers, clock });

  it('lists every controller once, and no other', () => {
    expect(rows.map(({ id }) => id).sort()).toEqual(builtin.map(({ id }) => id).sort());
  });

  it.each(builtin.map((plugin) => [plugin.id, plugin] as const))('has the name and the options of %s', (id, plugin) => {
    const { name } = controller(plugin);
    expect(rows.find((row) => row.id === id)).toEqual({ id, name: `\`${name}\``, options: optionsOf(plugin) });
    expect(plugin.declares?.['loop']).toBe(name); // settings are validated by this name
  });

  it.each(builtin.map((plugin) => [plugin.id, plugin] as const))('is right that %s rejects unknown options', (_id, plugin) => {
    const parsed = plugin.config.safeParse({ nonsense: 1 });
    expect(parsed.error?.issues[0]).toMatchObject({ code: 'unrecognized_keys', keys: ['nonsense'] });
  });
});
