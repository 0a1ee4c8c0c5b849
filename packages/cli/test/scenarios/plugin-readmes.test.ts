import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from '@oarlock/kernel/plugin';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const plugins = fileURLToPath(new URL('../../../../plugins', import.meta.url));
const packages = readdirSync(plugins).filter((name) => existsSync(join(plugins, name, 'src', 'plugin.ts')));

interface Schema {
  readonly properties?: Readonly<Record<string, unknown>>;
}

it.each(packages)('README documents every config key: %s', async (name) => {
  const { default: plugin } = (await import(join(plugins, name, 'src', 'plugin.ts'))) as { readonly default: Plugin };
  const { properties = {} } = z.toJSONSchema(plugin.config, { io: 'input', unrepresentable: 'any' }) as Schema;
  const readme = readFileSync(join(plugins, name, 'README.md'), 'utf8');
  expect(Object.keys(properties).filter((key) => !readme.includes(key))).toEqual([]);
});

it.each(packages)('package.json describes the plugin: %s', async (name) => {
  const { default: plugin } = (await import(join(plugins, name, 'src', 'plugin.ts'))) as { readonly default: Plugin };
  const { oarlock } = JSON.parse(readFileSync(join(plugins, name, 'package.json'), 'utf8')) as {
    readonly oarlock?: { readonly slot: string };
  };
  expect(oarlock?.slot).toBe(plugin.provides.id);
});

interface Property {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Property>>;
}
/** Returns the rows of the table in the section Configuration: cells by key. */
function configurationRows(readme: string): ReadonlyMap<string, readonly string[]> {
  const [, section = ''] = /^## Configuration\n(.*?)^## /ms.exec(readme) ?? [];
  const rows = [...section.matchAll(/^\| `([^`]+)` \|(.*)\|$/gm)];
  return new Map(rows.map(([, key = '', cells = '']) => [key, cells.split('|').map((cell) => cell.trim())]));
}
const hasForm = (name: string) => /^## Configuration$/m.test(readFileSync(join(plugins, name, 'README.md'), 'utf8'));

describe.each(packages.filter(hasForm))('README of %s', (name) => {
  const readme = readFileSync(join(plugins, name, 'README.md'), 'utf8');

  it('has the sections of the common form', () => {
    const sections = [...readme.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    expect(sections.filter((title) => title !== 'Behavior and limits')).toEqual([
      'Configuration',
      'Example',
      'Metrics and events',
      'Testing',
    ]);
    expect(readme).toMatch(/^Slot: `[a-z-]+\/v1`/m);
  });

  it('has a table of the config keys with their defaults', async () => {
    const { default: plugin } = (await import(join(plugins, name, 'src', 'plugin.ts'))) as { readonly default: Plugin };
    const { properties = {} } = z.toJSONSchema(plugin.config, { io: 'input', unrepresentable: 'any' }) as Property;
    const rows = configurationRows(readme);
    expect([...new Set([...rows.keys()].map((key) => key.split(/[.[]/)[0]))].sort()).toEqual(Object.keys(properties).sort());
    for (const [key, { default: value }] of Object.entries(properties))
      if (typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean')
        expect(rows.get(key)?.[1], `${key}: type, default, meaning`).toContain(value === '' ? 'empty' : String(value));
  });
});
