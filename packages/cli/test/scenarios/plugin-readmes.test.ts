import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from '@oarlock/kernel/plugin';
import { expect, it } from 'vitest';
import { z } from 'zod';

const plugins = fileURLToPath(new URL('../../../../plugins', import.meta.url));
const packages = readdirSync(plugins).filter((name) => existsSync(join(plugins, name, 'src', 'plugin.ts')));

interface Schema {
  readonly properties?: Readonly<Record<string, unknown>>;
}

it.each(packages)('README documents every config key: %s', { timeout: 300_000 }, async (name) => {
  const { default: plugin } = (await import(join(plugins, name, 'src', 'plugin.ts'))) as { readonly default: Plugin };
  const { properties = {} } = z.toJSONSchema(plugin.config, { io: 'input', unrepresentable: 'any' }) as Schema;
  const readme = readFileSync(join(plugins, name, 'README.md'), 'utf8');
  expect(Object.keys(properties).filter((key) => !readme.includes(key))).toEqual([]);
});
