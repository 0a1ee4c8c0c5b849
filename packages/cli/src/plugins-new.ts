import { existsSync } from 'node:fs';
import { mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defaultPlacements } from '@oarlock/cluster/cluster-file/sections';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from './common/command-error.ts';
import {
  canDevelop,
  dependenciesOf,
  fillTemplate,
  manifest,
  type PluginTemplate,
  readTemplate,
  readVersions,
  repositoryFiles,
  standaloneManifest,
  templateSlots,
  type Versions,
} from './plugin-templates.ts';

const maxNameLength = 40; // characters

/** The interface and a package of each slot without a template. */
const examples: ReadonlyMap<string, string> = new Map([
  ['paths', '`PathHandler` in @oarlock/spi/paths, and the package @oarlock/console'],
  ['policy', '`NetworkPolicies` in @oarlock/spi/policy, and the package @oarlock/policy-nftables'],
]);

/**
 * Creates a plugin package from the template of a slot and prints how to use it. @throws CommandError for an unknown slot, an invalid name or
 * a directory that already exists
 */
export async function create(slot: string, name: string, options: { readonly dir?: string }): Promise<void> {
  const slots = await templateSlots();
  const example = examples.get(slot);
  if (example !== undefined)
    throw new CommandError(`there is no template for the slot ${slot}: read the comments of ${example} as an example`, exitCodes.usage);
  if (slot === '' || name === '') throw new CommandError(`name a slot and the new plugin; slots are: ${slots.join(', ')}`, exitCodes.usage);
  if (!slots.includes(slot))
    throw new CommandError(`unknown slot ${JSON.stringify(slot)}; slots are: ${slots.join(', ')}`, exitCodes.usage);
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name) || name.length > maxNameLength)
    throw new CommandError(
      `invalid plugin name ${JSON.stringify(name)}: use a to z, 0 to 9 and inner "-", at most ${maxNameLength} characters`,
      exitCodes.usage,
    );
  const id = `${slot}-${name}`;
  const folder = resolve(options.dir ?? join('plugins', id));
  const checkout = checkoutOf(folder);
  const template = await readTemplate(slot);
  const files = packageFiles(template, await readVersions(), { slot, name, folder, checkout });
  try {
    await mkdir(dirname(folder), { recursive: true });
    await mkdir(folder);
  } catch (cause) {
    const exists = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    // a file in the place of a directory above also is EEXIST
    const reason = exists ? 'a part of its path is a file' : fileErrorReason(cause);
    const problem = exists && existsSync(folder) ? 'already exists' : `cannot be created: ${reason}`;
    throw new CommandError(
      `${displayPath(folder)} ${problem}; nothing was written. \`--dir DIR\` names another directory`,
      exitCodes.usage,
      {
        cause,
      },
    );
  }
  for (const [path, text] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const isComplete = checkout === undefined && (await linkCheckout(folder));
  const linked = inWorkspaces(folder, checkout);
  console.log(`wrote ${[...files.keys()].join(', ')} to ${displayPath(folder)}\n`);
  console.log(`A cluster.yaml in the current directory runs it with:\n\n${stanza(template, id, linked ? id : pluginPath(folder))}\n`);
  console.log(['Next steps:', ...commands(template, { id, folder, checkout, isComplete })].join('\n  '));
}

/** Packages and commands that a plugin package needs for its tests. */
const linkedPackages = ['@types/node', 'esbuild', 'fast-check', 'reflect-metadata', 'vitest', 'zod'];
const linkedCommands = ['oarlock', 'vitest', 'tsc'];

/**
 * Links the packages of the checkout that this command belongs to, which no registry has. Links each package alone: a link to a folder of
 * packages would let `npm install` in the plugin change the checkout. Returns false for an installed command.
 */
async function linkCheckout(folder: string): Promise<boolean> {
  const source = checkoutOf(fileURLToPath(import.meta.url));
  if (source === undefined) return false;
  const installed = join(source, 'node_modules');
  const own = join(folder, 'node_modules');
  const oarlock = (await readdir(join(installed, '@oarlock'))).map((name) => join('@oarlock', name));
  for (const name of [...oarlock, ...linkedPackages, ...linkedCommands.map((command) => join('.bin', command))]) {
    if (!existsSync(join(installed, name))) continue;
    await mkdir(dirname(join(own, name)), { recursive: true });
    await symlink(await realpath(join(installed, name)), join(own, name));
  }
  return true;
}

interface PackageLocation {
  readonly slot: string;
  readonly name: string;
  readonly folder: string;
  readonly checkout: string | undefined;
}

/** Returns the content of all files by their path within the package. */
export function packageFiles(template: PluginTemplate, versions: Versions, location: PackageLocation): ReadonlyMap<string, string> {
  const { slot, name, folder, checkout } = location;
  const id = `${slot}-${name}`;
  const fill = (text: string) => fillTemplate(text, { id, name });
  const use = inWorkspaces(folder, checkout) ? id : pluginPath(folder);
  return new Map([
    ['package.json', checkout === undefined ? standaloneManifest(template, versions, id) : manifest(template, versions, id)],
    ['tsconfig.json', tsconfig(template, folder, checkout)],
    ...(checkout === undefined ? [['vitest.config.ts', vitestConfig] as const, ...repositoryFiles(id)] : []),
    ['README.md', fill(readme(template, id, use))],
    ...[...template.files].map(([path, text]): [string, string] => [path, fill(text)]),
  ]);
}

/** Returns the nearest Oarlock checkout that contains a folder, or undefined. A package in a checkout shares the checkout's compiler settings. */
function checkoutOf(folder: string): string | undefined {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (existsSync(join(at, 'tsconfig.base.json')) && existsSync(join(at, 'packages', 'kernel'))) return at;
    if (dirname(at) === at) return undefined;
  }
}

/** Returns true if the folder belongs to the checkout's npm workspaces. npm links such packages, so that plugins are found by name. */
function inWorkspaces(folder: string, checkout: string | undefined): boolean {
  return checkout !== undefined && dirname(folder) === join(checkout, 'plugins');
}

/** Returns the tsconfig that tools/sync-tsconfig.mjs would write. Outside a checkout, returns a tsconfig that includes all settings. */
function tsconfig(template: PluginTemplate, folder: string, checkout: string | undefined): string {
  const own = {
    composite: true,
    rootDir: 'src',
    outDir: 'dist',
    tsBuildInfoFile: 'tsconfig.tsbuildinfo',
    declaration: true,
    sourceMap: true,
    inlineSources: true,
  };
  const include = ['src'];
  const within = (path: string) =>
    relative(folder, join(checkout ?? '', path))
      .split(sep)
      .join('/');
  const references = dependenciesOf(template)
    .filter((name) => name.startsWith('@oarlock/') && importsPackage(template, name))
    .map((name) => ({ path: within(`packages/${name.slice('@oarlock/'.length)}`) }));
  const settings =
    checkout === undefined
      ? { compilerOptions: { ...standaloneOptions, ...own }, include }
      : { extends: within('tsconfig.base.json'), compilerOptions: own, include, references };
  return `${JSON.stringify(settings, null, 2)}\n`;
}

const vitestConfig = `|import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    testTimeout: 60_000,
    // the installed Oarlock is compiled already
    server: { deps: { external: [/\\/dist\\/.*\\.js$/] } },
  },
});
`.replace('|import', 'import');

const standaloneOptions = {
  target: 'ES2023',
  lib: ['ES2023', 'ESNext.Disposable'],
  module: 'NodeNext',
  moduleResolution: 'NodeNext',
  types: ['node'],
  strict: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
  allowImportingTsExtensions: true,
  rewriteRelativeImportExtensions: true,
  skipLibCheck: true,
};

const importsPackage = ({ files }: PluginTemplate, name: string) =>
  [...files].some(([path, text]) => path.startsWith('src/') && text.includes(`from '${name}/`));

function readme(template: PluginTemplate, id: string, use: string): string {
  const { summary, keys, needs = 'nothing', tests, steps = [] } = template;
  const rows = keys.some((key) => key.startsWith('|'))
    ? ['| key | default | |', '|---|---|---|', ...keys].join('\n')
    : `${keys.join('\n').replace(/\.?$/, '.')}`;
  const first = steps.length === 0 ? '' : `## First steps\n\n${steps.map((step, index) => `${index + 1}. ${step}`).join('\n')}\n\n`;
  return `# ${id}

${summary}

${first}## Config

\`\`\`yaml
${stanza(template, id, use)}
\`\`\`

${rows}

Needs: ${needs}.

## Tests

${tests}
`;
}

/** Returns the lines of a cluster.yaml that place the plugin. A section replaces its default list, so the default plugins are listed too. */
function stanza({ section, config }: PluginTemplate, id: string, use: string): string {
  if (section === undefined)
    return `# a cluster.yaml cannot place roles of other packages; place this one in code:\n#   host.add({ plugin, config: ${config} })`;
  const { key, many, first = false } = section;
  const plain = config === '{}';
  if (!many) return plain ? `spec:\n  ${key}: ${use}` : `spec:\n  ${key}:\n    use: ${use}\n    config: ${config}`;
  const own = plain ? [`    - ${use}`] : [`    - use: ${use}`, `      config: ${config}`];
  const others = (defaultPlacements[key as keyof typeof defaultPlacements] ?? []).map((name) => `    - ${name}`);
  return ['spec:', `  ${key}:`, ...(first ? [...own, ...others] : [...others, ...own])].join('\n').replaceAll('__ID__', id);
}

interface NextSteps {
  readonly id: string;
  readonly folder: string;
  readonly checkout: string | undefined;
  /** True if the package has everything it needs for its tests. */
  readonly isComplete: boolean;
}

function commands(template: PluginTemplate, { id, folder, checkout, isComplete }: NextSteps): readonly string[] {
  if (checkout === undefined)
    return [
      `cd ${displayPath(folder)}`,
      ...(isComplete ? [] : ['npm install']),
      isComplete ? 'npx vitest run' : 'npm test',
      ...(canDevelop(id) ? [isComplete ? 'npx oarlock dev ./src/plugin.ts' : 'npm run dev'] : []),
    ];
  const test = `npx vitest run --config vitest.config.ts ${relative(checkout, folder).split(sep).join('/')}`;
  const link = inWorkspaces(folder, checkout) ? `npm install   # links @oarlock/${id}` : `cd ${displayPath(checkout)}`;
  return [link, test, template.section === undefined ? 'npx tsc -p tsconfig.json' : 'npx oarlock config validate -f cluster.yaml'];
}

/** Returns how a cluster.yaml in the current directory refers to a plugin that is not an installed package. */
function pluginPath(folder: string): string {
  const path = relative(process.cwd(), join(folder, 'src', 'plugin.ts'))
    .split(sep)
    .join('/');
  return path.startsWith('../') ? join(folder, 'src', 'plugin.ts') : `./${path}`;
}

const displayPath = (path: string): string => {
  const short = relative(process.cwd(), path);
  return short.startsWith('..') ? path : short === '' ? '.' : short;
};
