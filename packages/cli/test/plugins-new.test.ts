import { existsSync } from 'node:fs';
import { copyFile, cp, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { manifest, readTemplate, readVersions, standaloneManifest, templateSlots } from '../src/plugin-templates.ts';
import { create } from '../src/plugins-new.ts';
import { built, oarlock, runNode } from './support/plugins-command.ts';

interface Launch {
  readonly configurations: readonly { readonly name: string; readonly program: string }[];
}

const root = fileURLToPath(new URL('../../..', import.meta.url));
const slots = await templateSlots();
const skeletons = ['runtime', 'network', 'proxy'];
const createProgram = fileURLToPath(new URL('../create-oarlock-plugin/bin/create.js', import.meta.url));
const name = 'made-4-test';

/** A checkout that shares the packages of this one and contains only the created plugins. */
let checkout: string;
const output = new Map<string, string>();
const folderOf = (slot: string) => join(checkout, 'plugins', `${slot}-${name}`);

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'oarlock-plugins-new-'));
  for (const shared of ['node_modules', 'packages']) await symlink(join(root, shared), join(checkout, shared));
  await cp(join(root, 'tools', 'vitest'), join(checkout, 'tools', 'vitest'), { recursive: true });
  for (const file of ['tsconfig.base.json', 'vitest.config.ts', 'vitest.built.config.ts', 'package.json', 'tools/sync-tsconfig.mjs'])
    await copyFile(join(root, file), join(checkout, file));
  await writeFile(
    join(checkout, 'tsconfig.json'),
    JSON.stringify({ extends: './tsconfig.base.json', compilerOptions: { noEmit: true }, include: ['plugins/*/src', 'plugins/*/test'] }),
  );
  for (const slot of slots) {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    await create(slot, name, { dir: folderOf(slot) });
    output.set(slot, log.mock.calls.flat().join('\n'));
    log.mockRestore();
  }
});
afterAll(() => rm(checkout, { recursive: true, force: true }));

describe('a created package', () => {
  it.each(slots)('has a manifest, a README and a cluster.yaml example: %s', async (slot) => {
    const id = `${slot}-${name}`;
    const manifest = JSON.parse(await readFile(join(folderOf(slot), 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(manifest).toMatchObject({ name: `@oarlock/${id}`, type: 'module', exports: { './internal/*': null } });
    const readme = await readFile(join(folderOf(slot), 'README.md'), 'utf8');
    expect(readme).toMatch(new RegExp(`^# ${id}\n`));
    for (const text of [readme, output.get(slot) ?? '']) expect(text).not.toMatch(/__[A-Za-z]+__|undefined/);
    expect(readme.includes('## First steps'), 'a skeleton lists first steps').toBe(skeletons.includes(slot));
    const stanza = /```yaml\n([^`]*)```/.exec(readme)?.[1] ?? '';
    expect(output.get(slot)).toContain(stanza.trim());
    expect(output.get(slot)).toMatch(/\nNext steps:\n {2}npm install .*\n {2}npx vitest run .*\n {2}npx .*$/);
    const { section } = await readTemplate(slot);
    if (section === undefined) return;
    const { spec } = parse(stanza) as { readonly spec: Record<string, unknown> };
    const entries = [spec[section.key]].flat().map((use) => (typeof use === 'string' ? use : (use as { readonly use: string }).use));
    expect(entries).toContain(id);
  });

  it('passes the checks of the checkout', async () => {
    const { stdout, stderr } = await runNode(['tools/sync-tsconfig.mjs', '--check'], checkout);
    // messages about other packages do not matter here
    expect(`${stdout}${stderr}`.split('\n').filter((line) => line.startsWith('plugins/'))).toEqual([]);
  });

  it('accepts the config of its own example, and an empty one', async () => {
    const { PluginHost } = await import('@oarlock/kernel/plugin-host');
    for (const slot of slots) {
      const { default: plugin } = await import(join(folderOf(slot), 'src', 'plugin.ts'));
      expect(plugin.id).toBe(`${slot}-${name}`);
      const { config: example } = await readTemplate(slot);
      for (const config of [{}, parse(example)]) {
        const faults = new PluginHost().add({ plugin, config }).check();
        expect(
          faults.filter(({ code }) => code !== 'SlotEmpty'),
          slot,
        ).toEqual([]);
      }
    }
  });

  it('passes the type checker', async () => {
    const { code, stdout } = await runNode([join(root, 'node_modules', '.bin', 'tsc'), '-p', 'tsconfig.json'], checkout);
    expect(stdout.split('\n').filter((line) => line.startsWith('plugins/'))).toEqual([]);
    expect(code, stdout).toBe(0);
  });

  it('declares each package that its sources and tests import, in a checkout and outside of one', async () => {
    const versions = await readVersions();
    for (const slot of slots) {
      const template = await readTemplate(slot);
      const imported = [...template.files.values()].flatMap((text) =>
        [...text.matchAll(/ from '((?:@[^/']+\/)?[^./'][^/']*)/g)].map(([, name]) => name),
      );
      const packages = [...new Set(imported)].filter((each) => each?.startsWith('node:') !== true);
      expect(packages, slot).toContain('zod');
      for (const text of [manifest(template, versions, `${slot}-${name}`), standaloneManifest(template, versions, `${slot}-${name}`)]) {
        const { dependencies, devDependencies } = JSON.parse(text) as Readonly<Record<string, object>>;
        expect(Object.keys({ ...dependencies, ...devDependencies }), slot).toEqual(expect.arrayContaining(packages));
      }
    }
  });
});

interface Case {
  readonly status: string;
  readonly failureMessages: readonly string[];
}

/** One run of the tests of all created packages. */
describe('the tests of a created package', () => {
  let results: readonly { readonly name: string; readonly assertionResults: readonly Case[] }[];
  const casesOf = (slot: string): readonly Case[] =>
    results.find((each) => each.name.endsWith(`/${slot}-${name}/test/contract.test.ts`))?.assertionResults ?? [];
  const withStatus = (cases: readonly Case[], expected: string) => cases.filter(({ status }) => status === expected);

  beforeAll(async () => {
    const report = join(checkout, 'report.json');
    const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
    await runNode(
      [
        vitest,
        'run',
        '--config',
        built ? 'vitest.built.config.ts' : 'vitest.config.ts',
        '--reporter=json',
        `--outputFile=${report}`,
        'plugins/',
      ],
      checkout,
    );
    results = (JSON.parse(await readFile(report, 'utf8')) as { readonly testResults: typeof results }).testResults;
  });

  it.each(slots.filter((slot) => !skeletons.includes(slot)))('pass: %s', (slot) => {
    const own = results.filter((each) => each.name.includes(`/${slot}-${name}/test/`)).flatMap(({ assertionResults }) => assertionResults);
    expect(own.filter(({ status }) => status === 'failed')).toEqual([]);
    expect(withStatus(casesOf(slot), 'passed').length).toBeGreaterThanOrEqual(3);
  });

  it.each([
    [
      'runtime',
      'implement runPodSandbox in src/runtime.ts: create the environment that the containers of a pod share, and resolve with its id',
      0,
    ],
    ['network', 'implement add in src/network.ts: allocate an address of podCIDRs', 1],
    ['proxy', 'implement apply in src/proxy.ts: forward traffic to the cluster IPs of a ServicePort to one of its endpoints', 0],
  ])('fail for a skeleton, with messages that name the method to implement: %s', (slot, first, sure) => {
    const failed = withStatus(casesOf(slot), 'failed');
    expect(failed.length).toBeGreaterThan(5);
    expect(withStatus(casesOf(slot), 'passed').length).toBeGreaterThanOrEqual(sure);
    expect(failed.some(({ failureMessages: [message = ''] }) => message.includes(first))).toBe(true);
    // assertions on a rejection truncate the message
    const named = failed.filter(({ failureMessages }) => /implement \w+ in s/.test(failureMessages.join()));
    expect(named.length).toBeGreaterThan(failed.length / 2);
  });
});

describe('oarlock plugins new', () => {
  it('rejects invalid names, unknown slots and existing directories with exit code 2', async () => {
    const [none, unnamed, untemplated, slot, capital, parent, there] = await Promise.all([
      oarlock(['plugins', 'new'], checkout),
      runNode([createProgram], checkout),
      oarlock(['plugins', 'new', 'paths', 'mine'], checkout),
      oarlock(['plugins', 'new', 'cache', 'mine'], checkout),
      oarlock(['plugins', 'new', 'authn', 'Mine'], checkout),
      oarlock(['plugins', 'new', 'authn', '../mine'], checkout),
      oarlock(['plugins', 'new', 'authn', name], checkout),
    ]);
    expect([none.code, unnamed.code, untemplated.code, slot.code]).toEqual([2, 2, 2, 2]);
    expect(none.stderr).toContain(`name a slot and the new plugin; slots are: ${slots.join(', ')}\n`);
    expect(unnamed.stderr).toMatch(/^usage: npm create oarlock-plugin SLOT NAME [^]*^name a slot and the new plugin; slots are: /m);
    expect(untemplated.stderr).toMatch(
      /^there is no template for the slot paths: read the comments of `PathHandler` in @oarlock\/spi\/paths/m,
    );
    expect(slot.stderr).toContain(`slots are: ${slots.join(', ')}`);
    expect([capital.code, parent.code]).toEqual([2, 2]);
    expect(capital.stderr).toMatch(/invalid plugin name "Mine"/);
    expect(there.code).toBe(2);
    expect(there.stderr).toMatch(new RegExp(`plugins/authn-${name} already exists`));
    expect(existsSync(join(checkout, 'plugins', 'authn-Mine'))).toBe(false);
  });

  it('states why a directory cannot be created', async () => {
    const below = join(checkout, 'package.json', 'mine');
    await expect(create('authn', 'mine', { dir: below })).rejects.toMatchObject({
      message: `${below} cannot be created: a part of its path is a file; nothing was written. \`--dir DIR\` names another directory`,
      exitCode: 2,
    });
  });

  it('creates packages outside a checkout, with their own compiler settings and an example with a path', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'oarlock-elsewhere-'));
    try {
      const { code, stdout, stderr } = await oarlock(['plugins', 'new', 'scheduling', 'mine', '--dir', 'mine'], elsewhere);
      expect(code, stderr).toBe(0);
      expect(stdout).toContain('use: ./mine/src/plugin.ts');
      const modules = join(elsewhere, 'mine', 'node_modules');
      expect(existsSync(join(modules, '@oarlock', 'spi', 'package.json'))).toBe(true);
      // npm removes entries of these folders, which must not be the ones of the checkout
      for (const own of ['@oarlock', '@types', '.bin'])
        expect(await realpath(join(modules, own))).toBe(await realpath(modules).then((at) => join(at, own)));
      const manifest = JSON.parse(await readFile(join(elsewhere, 'mine', 'package.json'), 'utf8')) as Record<string, unknown>;
      expect(manifest).toMatchObject({
        name: 'oarlock-scheduling-mine',
        scripts: { test: 'vitest run', dev: 'oarlock dev ./src/plugin.ts' },
      });
      expect(JSON.stringify(manifest)).not.toContain('"*"');
      const tsconfig = JSON.parse(await readFile(join(elsewhere, 'mine', 'tsconfig.json'), 'utf8')) as Record<string, unknown>;
      expect(await readFile(join(elsewhere, 'mine', '.gitignore'), 'utf8')).toContain('node_modules/');
      const workflow = parse(await readFile(join(elsewhere, 'mine', '.github', 'workflows', 'ci.yml'), 'utf8')) as Record<string, unknown>;
      expect(workflow).toMatchObject({
        jobs: { test: { steps: expect.arrayContaining([{ run: 'npm test' }, { run: 'npm run build' }]) } },
      });
      const launch = JSON.parse(await readFile(join(elsewhere, 'mine', '.vscode', 'launch.json'), 'utf8')) as Launch;
      expect(launch.configurations.map(({ name }) => name)).toEqual(['Test this file', 'Develop']);
      for (const { program } of launch.configurations)
        expect(
          existsSync(
            program.replace('${workspaceFolder}/node_modules', join(root, 'node_modules')).replace('oarlock/bin', '@oarlock/cli/bin'),
          ),
        ).toBe(true);
      expect(tsconfig).not.toHaveProperty('extends');
      expect(tsconfig).toMatchObject({ compilerOptions: { strict: true, rootDir: 'src' } });
    } finally {
      await rm(elsewhere, { recursive: true, force: true });
    }
  });
});
