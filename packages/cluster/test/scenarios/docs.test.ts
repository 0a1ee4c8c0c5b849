import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { clusterSchema, roleNames } from '@oarlock/cluster/cluster-file/cluster-schema';
import { defaultPlacements } from '@oarlock/cluster/cluster-file/sections';
import type { Plugin } from '@oarlock/kernel/plugin';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runTests } from '../support/doc-examples.ts';
import { yamlBlocks, yamlProblems } from '../support/doc-clusters.ts';
import { anchorsOf, brokenLinks, missingScripts, moduleExists, pathExists, repositoryPaths } from '../support/doc-references.ts';

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
    const settings = documented(`### settings.${role}`).map((name) => name.split('.', 1)[0]);
    expect([...new Set(settings)]).toEqual(keysOf(jsonSchema(plugin.config)));
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
    ['WiringCode', 'packages/kernel/src/errors.ts', '## Composition: `WiringError`'],
    ['StorageErrorCode', 'packages/spi/src/storage/storage.ts', '## Storage: `StorageError`'],
    ['RuntimeErrorCode', 'packages/spi/src/runtime/runtime.ts', '## Container runtimes: `RuntimeError`'],
    ['NetworkErrorCode', 'packages/spi/src/network/network.ts', '## Pod networks: `NetworkError`'],
    ['VolumeErrorCode', 'packages/spi/src/volume/volume.ts', '## Volumes: `VolumeError`'],
  ])('lists every %s once, with its cause and a remedy', (name, file, heading) => {
    const rows = rowsBelow(page('errors.md'), heading);
    expect(rows.flatMap(({ keys }) => keys).sort()).toEqual(codesOf(file, name));
    for (const { cells } of rows) for (const cell of cells.slice(1, 3)) expect(cell).toMatch(/\w.*\.$|^`/);
  });
});

/** A block of TypeScript, and its path if it begins with a comment that names a file. */
const typescriptBlock = /^```ts\n(?:\/\/ ((?:src|test)\/\S+\.ts)\n)?([\s\S]*?)^```/gm;

/** Pages whose example writes a file for another program, which the contract suite would need. */
const withoutDataPath = new Set(['slots/proxy.md']);

const decisions = readdirSync(join(root, 'docs/adr')).filter((name) => name !== 'README.md');

describe('documentation pages', () => {
  const markdownBelow = (folder: string) =>
    (readdirSync(join(root, folder), { recursive: true }) as string[]).filter(
      (name) => name.endsWith('.md') && !name.includes('node_modules'),
    );
  const pages = [
    ...markdownBelow('docs'),
    ...markdownBelow('examples').map((name) => `../examples/${name}`),
    '../README.md',
    '../CONTRIBUTING.md',
  ];

  const readmes = ['packages', 'plugins'].flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((name) => ['README.md', 'ARCHITECTURE.md'].map((file) => `../${folder}/${name}/${file}`)),
  );
  const presentReadmes = readmes.filter((name) => existsSync(join(root, 'docs', name)));
  it.each([...pages, ...presentReadmes])('has valid links: %s', (name) => {
    expect(brokenLinks(join(root, 'docs', name))).toEqual([]);
  });

  it.each(pages)('names only files and folders that exist: %s', (name) => {
    const missing = repositoryPaths(page(name)).filter((path) => !pathExists(path));
    expect(missing).toEqual([]);
  });

  // packages/cli checks the commands of oarlock, from its command table
  it.each([...pages, ...presentReadmes])('names only scripts that exist: %s', (name) => {
    expect(missingScripts(page(name))).toEqual([]);
  });

  const withYaml = [...pages, ...presentReadmes].filter((name) => yamlBlocks(page(name)).length > 0);
  it.each(withYaml)('has valid YAML, and valid cluster files with existing plugins and valid configs: %s', async (name) => {
    const problems = await Promise.all(
      yamlBlocks(page(name)).map(async (block) => (await yamlProblems(block)).map((problem) => `line ${block.line}: ${problem}`)),
    );
    expect(problems.flat()).toEqual([]);
  });

  it.each([...pages, ...presentReadmes])('has only code blocks of languages that are checked: %s', (name) => {
    const blocks = [...page(name).matchAll(/^( *)```(.*)\n([\s\S]*?)^ *```$/gm)];
    const languages = blocks.map(([, indentation = '', language = '']) => (indentation === '' ? language : `${language} in a list`));
    const checked = ['sh', 'sh in a list', 'yaml', 'yaml in a list', 'ts', 'json', 'console', 'console in a list', 'mermaid', 'text'];
    expect(languages.filter((language) => !checked.includes(language))).toEqual([]);
    for (const [, , language, code = ''] of blocks) if (language === 'json') expect(() => JSON.parse(code) as unknown).not.toThrow();
  });

  const shellBlock = /^( *)```sh\n([\s\S]*?)^\1```/gm;
  const withShell = [...pages, ...presentReadmes].filter((name) => page(name).search(shellBlock) >= 0);
  it.each(withShell)('has shell examples that a shell can parse: %s', (name) => {
    const blocks = [...page(name).matchAll(shellBlock)].map(([, , code = '']) => code);
    const problems = blocks.map((input) => spawnSync('bash', ['-n'], { input, encoding: 'utf8' }).stderr);
    expect(problems.filter((text) => text !== '')).toEqual([]);
  });

  it.each(pages)('names only modules that packages export: %s', (name) => {
    const missing = [...page(name).matchAll(/@oarlock\/[\w./-]*\w/g)].map(([id]) => id).filter((id) => !moduleExists(id));
    expect(missing).toEqual([]);
  });

  it.each(readdirSync(join(root, 'docs/slots')))('have the form of a slot page: %s', (name) => {
    const headings = [...page(`slots/${name}`).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
    const form = ['Interface', 'Example', 'Rules', 'Errors', 'Contract suite', 'In a cluster', 'Plugins'];
    expect(headings.slice(0, form.length)).toEqual(form);
  });

  it.each(decisions)('have the form of a decision record: %s', (name) => {
    const text = page(`adr/${name}`);
    const [, number = '', title = ''] = /^# ADR (\d+): (.*)\n/.exec(text) ?? [];
    expect(name).toMatch(new RegExp(`^${number.padStart(4, '0')}-`));
    expect(text).toMatch(/^- Status: \w.*\n- Date: (\d{4}-\d{2}-\d{2})\n- Supersedes: \S.*$/m);
    expect([...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual(['Context', 'Options', 'Decision', 'Consequences']);
    expect(page('adr/README.md')).toContain(`| [${number}](${name}) | ${title} |`);
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

  describe('examples', () => {
    let checkout = '';
    const tests: string[] = [];
    let fileCount = 0;
    beforeAll(async () => {
      checkout = await mkdtemp(join(tmpdir(), 'oarlock-docs-'));
      for (const name of [...pages, ...presentReadmes]) {
        for (const [index, [, path = `src/block-${index}.ts`, code = '']] of [...page(name).matchAll(typescriptBlock)].entries()) {
          const file = join(name.replace(/^\.\.\/|\.md$/g, '').replaceAll('/', '-'), path);
          await mkdir(dirname(join(checkout, file)), { recursive: true });
          await writeFile(join(checkout, file), code);
          fileCount += 1;
          // tests with a declared function leave a part of their fixture to the reader
          if (path.startsWith('test/') && !code.includes('declare function') && !withoutDataPath.has(name)) tests.push(file);
        }
      }
      await symlink(join(root, 'node_modules'), join(checkout, 'node_modules'));
      await writeFile(join(checkout, 'package.json'), '{ "type": "module" }');
    });
    afterAll(() => rm(checkout, { recursive: true, force: true }));

    it('compile', async () => {
      expect(fileCount).toBeGreaterThan(45);
      await writeFile(
        join(checkout, 'tsconfig.json'),
        JSON.stringify({ extends: join(root, 'tsconfig.base.json'), compilerOptions: { noEmit: true }, include: ['*/src', '*/test'] }),
      );
      const { stdout } = await run(join(root, 'node_modules/.bin/tsc'), ['-p', checkout]).catch((error: { stdout: string }) => error);
      expect(stdout).toBe('');
    });

    it('pass their tests', async () => {
      expect(tests.length).toBeGreaterThan(12);
      const { files, failures } = await runTests(checkout, tests);
      expect(failures).toEqual([]);
      expect(files).toBe(tests.length);
    });
  });
});

describe('documentation checks', () => {
  it.each([
    ['spec:\n  storages: storage-memory\n', /storages/],
    ['apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  storage: storage-none\n', /storage-none/],
    ['admission: [admission-priority, authn-anonymous]\n', /authn-anonymous belongs to another section/],
    ['audit:\n  - use: audit-log\n    config: { maxByte: 1 }\n', /spec.audit.0.*maxByte/],
    ['a: [\n', /./],
    ['containers: [{ name: a, image: b }]\n', /neither a cluster file, nor a part of one, nor a manifest/],
    ['apiVersion: v1\nkind: Pods\n', /no kind Pods in v1/],
    ['apiVersion: v1\nkind: Pod\nmetadata: { name: a }\nspec: { container: [] }\n', /unknown field "spec.container"/],
    ['apiVersion: v1\nkind: Pod\nmetadata: { name: A }\nspec: { containers: [{ name: a, image: b }] }\n', /metadata.name: Invalid/],
  ])('find a mistake in a cluster file, a part of one or a manifest: %s', async (text, problem) => {
    const [block] = yamlBlocks(`- text\n\n  \`\`\`yaml\n${text.replace(/^(?=.)/gm, '  ')}  \`\`\`\n`);
    expect(await yamlProblems(block ?? { line: 0, text: '' })).toEqual([expect.stringMatching(problem)]);
  });

  it('find a missing file in text and in a diagram', () => {
    const text =
      'See `packages/kernel/src/slot.ts` and `packages/*/nothing.ts`.\n```mermaid\nA["kernel/src/{x}"] --> B["kernel/src/nothing.ts"]\n```\n';
    expect(repositoryPaths(text).filter((path) => !pathExists(path))).toEqual(['packages/*/nothing.ts', 'packages/kernel/src/nothing.ts']);
  });

  it('find a missing module', () => {
    expect(
      ['@oarlock/kernel/slot', '@oarlock/spi/admission/contract', '@oarlock/kernel/nothing'].filter((id) => !moduleExists(id)),
    ).toEqual(['@oarlock/kernel/nothing']);
  });

  it('find a missing script', () => {
    expect(missingScripts('`npm run bench`, `npm run nothing`\n```sh\n$ npm run none -- x\n```\n')).toEqual(['none', 'nothing']);
  });

  it('find a link to a missing page or heading', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'oarlock-links-'));
    try {
      await writeFile(join(folder, 'a.md'), '# A\n[b](b.md#b) [c](b.md#c) [d](d.md) [a](#a) [web](https://example.com/x#y)\n');
      await writeFile(join(folder, 'b.md'), '# B\n');
      expect(brokenLinks(join(folder, 'a.md'))).toEqual(['b.md#c', 'd.md']);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('compute the anchors of GitHub', () => {
    expect(anchorsOf('## Storage: `StorageError`\n### settings.kubelet\n')).toEqual(['storage-storageerror', 'settingskubelet']);
  });
});
