// `npm run pack [-- --out DIR] [--standalone] [--single-file] [--write-sizes]`: writes each publishable package as a folder that `npm publish` takes, with its own manifest, LICENSE and
// README. The manifests of the repository serve the workspaces; the published ones name no sources and no tests.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { argumentsOf } from './arguments.mjs';
import { bundle } from './bundle.mjs';
import { writeSizes } from './package-sizes.mjs';
import { run } from './setup.mjs';
import { singleFile, standalone } from './standalone.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const rootManifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** The export condition that selects sources, which are not published. */
const sourceCondition = '@oarlock/source';
/** The package of `npm create oarlock-plugin`. */
const initializer = 'packages/cli/create-oarlock-plugin';
/** The command is published under the name that `npx` takes. */
const publishedNames = { '@oarlock/cli': 'oarlock' };
export const publishedName = (name) => publishedNames[name] ?? name;

const readManifest = (folder) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
/** Returns the folders of all publishable packages, relative to the root. */
export const publishable = () =>
  [...['packages', 'plugins'].flatMap((group) => readdirSync(join(root, group)).map((name) => `${group}/${name}`)), initializer].filter(
    (folder) => existsSync(join(root, folder, 'package.json')) && readManifest(folder).private !== true,
  );

const withoutSources = (value) =>
  typeof value === 'object' && value !== null
    ? Object.fromEntries(
        Object.entries(value)
          .filter(([key]) => key !== sourceCondition)
          .map(([key, inner]) => [key, withoutSources(inner)]),
      )
    : value;

/** A dependency on a package with another published name is an alias, because the code imports it by its name in the repository. */
const published = (dependencies = {}) =>
  Object.fromEntries(
    Object.entries(dependencies).map(([name, range]) => [name, name in publishedNames ? `npm:${publishedNames[name]}@${range}` : range]),
  );

/** Returns the manifest to publish. */
export function publishedManifest(manifest, directory) {
  const { devDependencies: _, dependencies, ...rest } = manifest;
  return {
    ...rest,
    name: publishedName(manifest.name),
    description: manifest.description ?? `${manifest.name} of Oarlock, a Kubernetes in TypeScript.`,
    repository: { ...rootManifest.repository, directory },
    engines: rootManifest.engines,
    sideEffects: false,
    exports: withoutSources(manifest.exports),
    ...(dependencies && { dependencies: published(dependencies) }),
    publishConfig: { access: 'public' },
  };
}

const manifestOf = {
  // one package without the others: the bundle contains them. esbuild compiles plugins in TypeScript, where its user installed it
  '@oarlock/cli': (manifest) => ({
    ...manifest,
    description: rootManifest.description,
    sideEffects: true,
    exports: { './joined': manifest.exports['./joined'] },
    files: ['bin', 'bundle', 'clusters', 'examples', 'templates', 'versions.json', 'cluster.schema.json'],
    dependencies: { 'reflect-metadata': manifest.dependencies['reflect-metadata'] },
    peerDependencies: { esbuild: manifest.dependencies.esbuild },
    peerDependenciesMeta: { esbuild: { optional: true } },
  }),
};

async function addCommandFiles(folder) {
  await bundle({ outdir: join(folder, 'bundle'), minify: true });
  cpSync(join(root, 'clusters'), join(folder, 'clusters'), { recursive: true });
  for (const name of ['hello', 'hello-image']) cpSync(join(root, 'examples', name), join(folder, 'examples', name), { recursive: true });
  cpSync(join(root, 'README.md'), join(folder, 'README.md'));
  const { code, output } = await run(process.execPath, [join(root, 'packages', 'cli', 'bin', 'oarlock.js'), 'config', 'schema']);
  if (code !== 0) throw new Error(`the command cannot print the schema of cluster.yaml:\n${output}`);
  writeFileSync(join(folder, 'cluster.schema.json'), output);
}

/** Writes all packages into folders below `out`, by their published names, and returns the folders. */
export async function pack(out) {
  rmSync(out, { recursive: true, force: true });
  const folders = [];
  for (const directory of publishable()) {
    const manifest = readManifest(directory);
    const folder = join(out, publishedName(manifest.name));
    mkdirSync(folder, { recursive: true });
    const draft = publishedManifest(manifest, directory);
    const final = manifestOf[manifest.name]?.(draft) ?? draft;
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(final, null, 2)}\n`);
    cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
    const ownFiles = [...final.files, 'README.md'].filter((name) => name !== 'bundle' && existsSync(join(root, directory, name)));
    for (const name of ownFiles) cpSync(join(root, directory, name), join(folder, name), { recursive: true });
    if (manifest.name in manifestOf) await addCommandFiles(folder);
    folders.push(folder);
  }
  return folders;
}

const sizeOf = (folder) =>
  readdirSync(folder, { recursive: true })
    .map((name) => statSync(join(folder, name)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.size : 0), 0);

const usage = `npm run pack [-- --out DIR] [--standalone] [--single-file] [--write-sizes]
  --out DIR      folder to write to; default .packages
  --standalone   also write a tar archive of the command with this Node, for machines without Node
  --single-file  also write the command and this Node as one executable file
  --write-sizes  also write docs/package-sizes.md`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const args = argumentsOf(usage, { flags: ['--standalone', '--single-file', '--write-sizes'], values: { '--out': [] } });
  const { '--out': out = '.packages' } = args;
  const folders = await pack(resolve(root, out));
  const command = folders.find((folder) => folder.endsWith('/oarlock'));
  console.log(`${folders.length} packages in ${out}; oarlock has ${(sizeOf(command) / 2 ** 20).toFixed(1)} MiB`);
  const write = async (flag, make) => {
    if (!args[flag] && !args['--write-sizes']) return undefined;
    const file = await make(command, resolve(root, out));
    console.log(file);
    return file;
  };
  const archive = await write('--standalone', standalone);
  const program = await write('--single-file', singleFile);
  if (args['--write-sizes']) writeSizes({ folders, command, archive, program });
}
