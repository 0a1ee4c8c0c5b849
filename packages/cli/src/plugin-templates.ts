import { readdir, readFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The content of `templates/<slot>/template.json`, which describes a package that `oarlock plugins new` creates. */
interface Description {
  /** Packages that the sources import, in addition to @oarlock/kernel, @oarlock/spi and zod. */
  readonly dependencies?: readonly string[];
  /** Packages that only the tests import, in addition to vitest. */
  readonly devDependencies?: readonly string[];
  /** Key under `spec` of a cluster.yaml, and how that section holds plugins; undefined if a cluster.yaml cannot place the plugin. */
  readonly section?: { readonly key: string; readonly many: boolean; readonly first?: boolean };
  /** Example of the plugin's config, as YAML on one line. */
  readonly config: string;
  readonly summary: string;
  /** Rows of the config table in the README. */
  readonly keys: readonly string[];
  readonly needs?: string;
  readonly tests: string;
  /** First steps for the author, if the template has no behavior yet. */
  readonly steps?: readonly string[];
}

/**
 * The files that `oarlock plugins new` creates for one slot. In every text `__ID__` stands for the plugin's id (`authn-ldap`), `__Class__` for
 * the id as a class name (`AuthnLdap`), `__NAME__` for the name alone (`ldap`), and `__Kind__` for the name as a kind (`Ldap`).
 */
export interface PluginTemplate extends Description {
  /** Sources and tests by path. */
  readonly files: ReadonlyMap<string, string>;
}

const camelCase = (name: string) => name.replace(/(?:^|-+)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
/** A kind begins with a letter. */
const kindOf = (name: string) => camelCase(name).replace(/^(?=[0-9])/, 'Kind');

/** Replaces the placeholders in a text of a template. */
export const fillTemplate = (text: string, { id, name }: { readonly id: string; readonly name: string }): string =>
  text
    .replaceAll('__ID__', id)
    .replaceAll('__NAME__', name)
    .replaceAll('__Kind__', kindOf(name))
    .replaceAll('__METRIC__', `oarlock_${id.replaceAll('-', '_')}`)
    .replaceAll('__Class__', camelCase(id));

// `templates` is a sibling of src, dist and bundle
const templates = fileURLToPath(new URL('../templates', import.meta.url));

/** Returns the slots that have a template, as they appear in package names. */
export async function templateSlots(): Promise<readonly string[]> {
  return (await readdir(templates)).toSorted();
}

/** Reads the template of a slot. @throws Error if the slot has no template */
export async function readTemplate(slot: string): Promise<PluginTemplate> {
  const folder = join(templates, slot);
  const read = (path: string) => readFile(join(folder, path), 'utf8');
  const sources = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.ts')).toSorted();
  return {
    ...(JSON.parse(await read('template.json')) as Description),
    files: new Map(await Promise.all(sources.map(async (path) => [path.split(sep).join('/'), await read(path)] as const))),
  };
}

/** The version of Oarlock, and the version ranges of other packages by name. `tools/sync-tsconfig.mjs` writes them. */
export interface Versions {
  readonly oarlock: string;
  readonly [name: string]: string;
}

/** Reads the versions of the packages that a created package depends on. */
export const readVersions = async (): Promise<Versions> =>
  JSON.parse(await readFile(fileURLToPath(new URL('../versions.json', import.meta.url)), 'utf8')) as Versions;

/** Returns the versions of packages by name. */
const versionsOf = (names: readonly string[], { oarlock, ...others }: Versions): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, name === 'oarlock' || name.startsWith('@oarlock/') ? oarlock : (others[name] ?? '*')]));

/** Returns the key `oarlock` of a manifest, which describes the plugin in catalogs. The author completes it. */
const metadataOf = (id: string) => ({ slot: `${id.slice(0, id.indexOf('-'))}/v1`, platforms: ['any'], needs: [] });

const sorted = (names: readonly string[]) =>
  names.toSorted((a, b) => Number(b.startsWith('@oarlock/')) - Number(a.startsWith('@oarlock/')) || (a < b ? -1 : 1));
export const dependenciesOf = ({ dependencies = [] }: PluginTemplate) =>
  sorted([...dependencies, '@oarlock/kernel', '@oarlock/spi', 'zod']);

/** Returns the manifest of a package in a checkout, in the form of the checkout's own manifests. */
export function manifest(template: PluginTemplate, versions: Versions, id: string): string {
  const table = (names: readonly string[]) =>
    `{ ${Object.entries(versionsOf(names, versions))
      .map(([name, version]) => `"${name}": "${version}"`)
      .join(', ')} }`;
  return `{
  "name": "@oarlock/${id}",
  "version": "${versions.oarlock}",
  "license": "Apache-2.0",
  "type": "module",
  "oarlock": { "slot": "${metadataOf(id).slot}", "platforms": ["any"], "needs": [] },
  "exports": {
    "./internal/*": null,
    "./*": { "@oarlock/source": "./src/*.ts", "types": "./dist/*.d.ts", "default": "./dist/*.js" }
  },
  "files": ["dist"],
  "dependencies": ${table(dependenciesOf(template))},
  "devDependencies": ${table(sorted([...(template.devDependencies ?? []), 'vitest']))}
}
`;
}

/** Returns the manifest of a package with a repository of its own. */
export function standaloneManifest(template: PluginTemplate, versions: Versions, id: string): string {
  const tools = ['@oarlock/testing', '@types/node', 'esbuild', 'fast-check', 'oarlock', 'typescript', 'vitest'];
  return `${JSON.stringify(
    {
      name: `oarlock-${id}`,
      version: '0.1.0',
      license: 'Apache-2.0',
      type: 'module',
      oarlock: metadataOf(id),
      engines: { node: '>=20.19' },
      exports: { './plugin': { types: './dist/plugin.d.ts', default: './dist/plugin.js' } },
      files: ['dist'],
      scripts: {
        build: 'tsc -p tsconfig.json',
        test: 'vitest run',
        ...(canDevelop(id) && { dev: 'oarlock dev ./src/plugin.ts' }),
      },
      dependencies: versionsOf(dependenciesOf(template), versions),
      devDependencies: versionsOf([...new Set([...tools, ...(template.devDependencies ?? [])])].sort(), versions),
    },
    null,
    2,
  )}\n`;
}

/** Returns true if `oarlock dev` can run the plugin beside a default cluster. */
export const canDevelop = (id: string): boolean =>
  ['admission', 'authn', 'authz', 'scheduling', 'controller'].some((slot) => id.startsWith(`${slot}-`));

const ignored = 'node_modules/\ndist/\n.oarlock*/\n*.tsbuildinfo\n';

/** The oldest and the newest version of Node that Oarlock supports. */
const workflow = `name: CI
on:
  push:
    branches: [main]
  pull_request:
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        node: ['20.19', '24']
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: \${{ matrix.node }}
      - run: npm ci --ignore-scripts
      - run: npm run build
      - run: npm test
`;

function launch(id: string): object {
  const node = { type: 'node', request: 'launch', skipFiles: ['<node_internals>/**'], console: 'integratedTerminal' };
  const inModules = (path: string) => `\${workspaceFolder}/node_modules/${path}`;
  return {
    version: '0.2.0',
    configurations: [
      {
        ...node,
        name: 'Test this file',
        program: inModules('vitest/vitest.mjs'),
        args: ['run', '${relativeFile}', '--no-file-parallelism'],
      },
      ...(canDevelop(id)
        ? [{ ...node, name: 'Develop', program: inModules('oarlock/bin/oarlock.js'), args: ['dev', './src/plugin.ts'] }]
        : []),
    ],
  };
}

/** Returns the files of a plugin that has a repository of its own, beside those of its package. */
export const repositoryFiles = (id: string): ReadonlyMap<string, string> =>
  new Map([
    ['.gitignore', ignored],
    ['.github/workflows/ci.yml', workflow],
    ['.vscode/launch.json', `${JSON.stringify(launch(id), null, 2)}\n`],
  ]);
