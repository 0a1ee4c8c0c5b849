import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { clusterSchema, roleNames } from '@oarlock/cluster/config/cluster-schema';
import { defaultPlacements } from '@oarlock/cluster/config/sections';
import type { Plugin } from '@oarlock/kernel/plugin';
import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';

// the first test loads all plugins, which takes long on a busy machine
vi.setConfig({ testTimeout: 60_000 });

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../..', import.meta.url));
const page = (name: string) => readFileSync(join(root, 'docs', name), 'utf8');

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly anyOf?: readonly Schema[];
  readonly default?: unknown;
}
const jsonSchema = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema;
const keysOf = (schema: Schema | undefined): readonly string[] => Object.keys(schema?.properties ?? {}).sort();

interface Row {
  readonly keys: readonly string[];
  readonly cells: readonly string[];
}
/** Returns the table rows below a heading, up to the next heading. */
function rowsBelow(text: string, heading: string): readonly Row[] {
  const lines = text.split('\n');
  const start = lines.indexOf(heading);
  expect(start, `there is no ${heading}`).toBeGreaterThanOrEqual(0);
  const length = lines.slice(start + 1).findIndex((line) => /^#{2,3} /.test(line));
  const own = lines.slice(start + 1, length < 0 ? undefined : start + 1 + length).filter((line) => line.startsWith('| `'));
  return own.map((line) => {
    const cells = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    return { cells, keys: [...(cells[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, key = '']) => key) };
  });
}
const documented = (heading: string) =>
  rowsBelow(page('cluster-yaml.md'), heading)
    .flatMap(({ keys }) => keys)
    .sort();

describe('docs/cluster-yaml.md', () => {
  const schema = jsonSchema(clusterSchema);
  const { spec } = schema.properties ?? {};

  it('lists exactly the top-level keys', () => {
    expect(documented('## Top')).toEqual(
      [
        ...keysOf(schema).filter((key) => key !== 'metadata'),
        ...keysOf(schema.properties?.['metadata']).map((key) => `metadata.${key}`),
      ].sort(),
    );
  });

  it('lists exactly the sections of spec', () => {
    const headings = [...page('cluster-yaml.md').matchAll(/^## spec\.(\w+)$/gm)].map(([, key = '']) => key);
    expect([...documented('## spec: what runs'), ...documented('## spec: plugins'), ...headings].sort()).toEqual(keysOf(spec));
  });

  it('lists every key of a placement', () => {
    expect(documented('## Placements')).toEqual(
      keysOf(spec?.properties?.['storage']?.anyOf?.find(({ properties }) => properties !== undefined)),
    );
  });

  it.each(['networking', 'server', 'tracing', 'log'])('lists every key of spec.%s with its default', (section) => {
    const properties = spec?.properties?.[section]?.properties ?? {};
    expect(documented(`## spec.${section}`)).toEqual(Object.keys(properties).sort());
    for (const { keys, cells } of rowsBelow(page('cluster-yaml.md'), `## spec.${section}`)) {
      for (const key of keys) {
        const value = properties[key]?.default;
        if (value === undefined) continue;
        expect(cells[1], key).toBe(`\`${typeof value === 'string' ? value : JSON.stringify(value)}\``);
      }
    }
  });

  it('lists the default plugins of each section', () => {
    const { spec: empty } = clusterSchema.parse({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster' });
    for (const { keys, cells } of rowsBelow(page('cluster-yaml.md'), '## spec: plugins')) {
      const key = keys[0] as keyof typeof defaultPlacements;
      const plugins = [...(cells[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
      const defaults = [empty[key] ?? []].flat().map(({ use }) => use);
      expect(plugins, key).toEqual(empty[key] === undefined ? (defaultPlacements[key] ?? []) : defaults);
    }
  });

  it.each(roleNames)('lists every setting of the role %s', async (role) => {
    const packageOf = {
      apiserver: 'apiserver',
      controllers: 'controllers',
      scheduler: 'scheduler',
      kubelet: 'kubelet',
      proxy: 'service-proxy',
    }[role];
    const { default: plugin } = (await import(`@oarlock/${packageOf}/plugin`)) as { readonly default: Plugin };
    expect(documented(`### settings.${role}`)).toEqual(keysOf(jsonSchema(plugin.config)));
  });
});

/** Returns the members of `export type Name = 'A' | 'B'` in a source file. */
function codesOf(file: string, name: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8');
  const [, union = ''] = new RegExp(`export type ${name} =([^;]+);`).exec(text) ?? [];
  const codes = [...union.matchAll(/'([^']+)'/g)].map(([, code = '']) => code);
  expect(codes.length, `${name} in ${file}`).toBeGreaterThan(1);
  return codes.sort();
}

describe('docs/errors.md', () => {
  it.each([
    ['WiringCode', 'packages/kernel/src/errors.ts', '## Of a composition: `WiringError`'],
    ['StorageErrorCode', 'packages/spi/src/storage/storage.ts', '## Of storage: `StorageError`'],
    ['RuntimeErrorCode', 'packages/spi/src/runtime/runtime.ts', '## Of container runtimes: `RuntimeError`'],
    ['NetworkErrorCode', 'packages/spi/src/network/network.ts', '## Of pod networks: `NetworkError`'],
    ['VolumeErrorCode', 'packages/spi/src/volume/volume.ts', '## Of volumes: `VolumeError`'],
  ])('lists every %s once, with its cause and a remedy', (name, file, heading) => {
    const rows = rowsBelow(page('errors.md'), heading);
    expect(rows.flatMap(({ keys }) => keys).sort()).toEqual(codesOf(file, name));
    for (const { cells } of rows) for (const cell of cells.slice(1, 3)) expect(cell).toMatch(/\w.*\.$|^`/);
  });
});

describe('documentation pages', () => {
  const pages = (readdirSync(join(root, 'docs'), { recursive: true }) as string[]).filter((name) => name.endsWith('.md'));

  it.each(pages)('have valid links: %s', (name) => {
    for (const [, target = ''] of page(name).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      expect(existsSync(join(root, 'docs', dirname(name), target)), `${name} links to ${target}`).toBe(true);
    }
  });

  it('exist for every slot', () => {
    const slots = readdirSync(join(root, 'docs/slots')).sort();
    expect(slots).toEqual(
      [
        'admission',
        'audit',
        'authn',
        'authz',
        'cloud',
        'controller',
        'dns',
        'network',
        'policy',
        'proxy',
        'role',
        'runtime',
        'scheduling',
        'storage',
        'volume',
      ].map((slot) => `${slot}.md`),
    );
  });

  it('have examples that compile', { timeout: 300_000 }, async () => {
    const checkout = await mkdtemp(join(tmpdir(), 'oarlock-docs-'));
    try {
      let fileCount = 0;
      for (const name of pages) {
        for (const [, path = '', code = ''] of page(name).matchAll(/```ts\n\/\/ ((?:src|test)\/\S+\.ts)\n([\s\S]*?)```/g)) {
          const file = join(checkout, name.replace(/\.md$/, '').replaceAll('/', '-'), path);
          await mkdir(dirname(file), { recursive: true });
          await writeFile(file, code);
          fileCount += 1;
        }
      }
      expect(fileCount).toBeGreaterThan(20);
      await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'));
      await writeFile(join(checkout, 'package.json'), '{ "type": "module" }');
      await writeFile(
        join(checkout, 'tsconfig.json'),
        JSON.stringify({ extends: join(root, 'tsconfig.base.json'), compilerOptions: { noEmit: true }, include: ['*/src', '*/test'] }),
      );
      const { stdout } = await run(join(root, 'node_modules/.bin/tsc'), ['-p', checkout]).catch((error: { stdout: string }) => error);
      expect(stdout).toBe('');
    } finally {
      await rm(checkout, { recursive: true, force: true });
    }
  });
});
