// Writes the tsconfig.json of every package from its imports, checks its package.json against them, and writes the versions of its
// dependencies: the exact version of packages of this repository, and the range of the root manifest for others. Also writes the version of the
// product into sources.
// `--check` writes nothing and fails if a file is out of date.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { builtinModules } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const check = process.argv.includes('--check');
const builtin = new Set(builtinModules);

const folders = ['packages', 'plugins']
  .flatMap((group) => (existsSync(join(root, group)) ? readdirSync(join(root, group)).map((name) => `${group}/${name}`) : []))
  .filter((folder) => existsSync(join(root, folder, 'package.json')));
const folderOf = new Map(folders.map((folder) => [JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')).name, folder]));

const filesIn = (folder) =>
  (existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [])
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const packageName = (specifier) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
const importsOf = (file) =>
  [...readFileSync(file, 'utf8').matchAll(/(?:^|\n)\s*(?:import|export)\s(?:[^'";]*?\sfrom\s+)?'([^'.][^']*)'|\bimport\('([^'.][^']*)'\)/g)]
    .map((match) => match[1] ?? match[2])
    .filter((specifier) => !specifier.startsWith('node:') && !builtin.has(specifier))
    .map(packageName);

const rootManifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const ranges = { ...rootManifest.devDependencies, ...rootManifest.dependencies };
/** Returns the version range of a dependency; undefined if the root manifest does not have it. */
const rangeOf = (name) => (folderOf.has(name) ? rootManifest.version : ranges[name]);
const sections = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies'];

/** Returns the text of a manifest with the current version and version ranges. */
function withVersions(file, text) {
  const manifest = JSON.parse(text);
  let result = text.replace(`"version": "${manifest.version}"`, `"version": "${rootManifest.version}"`);
  for (const section of sections)
    for (const [name, range] of Object.entries(manifest[section] ?? {})) {
      const wanted = rangeOf(name);
      if (wanted === undefined) faults.push(`${file}: ${section}.${name} is not a dependency of the root manifest`);
      else result = result.replaceAll(`"${name}": "${range}"`, `"${name}": "${wanted}"`);
    }
  return result;
}

/** Compiler options of packages whose sources run in browsers. `tools/console-page.mjs` builds them. */
const browserOptions = {
  lib: ['ES2023', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'],
  types: [],
  jsx: 'react-jsx',
  jsxImportSource: 'preact',
  emitDeclarationOnly: true,
};
const browserPackages = new Set(['packages/console-page']);

const faults = [];
const write = (file, content) => {
  const old = existsSync(file) ? readFileSync(file, 'utf8') : '';
  if (old === content) return;
  if (check) faults.push(`${relative(root, file)} is out of date: run npm run sync`);
  else writeFileSync(file, content);
};

for (const folder of folders) {
  const manifestFile = join(root, folder, 'package.json');
  const text = readFileSync(manifestFile, 'utf8');
  const manifest = JSON.parse(text);
  write(manifestFile, withVersions(join(folder, 'package.json'), text));
  // the build of a browser package includes its dependencies
  const { dependencies, peerDependencies, devDependencies } = manifest;
  const declared = new Set(Object.keys({ ...dependencies, ...peerDependencies, ...(browserPackages.has(folder) && devDependencies) }));
  const used = new Set(filesIn(join(root, folder, 'src')).flatMap(importsOf));
  used.delete(manifest.name);
  for (const name of used)
    if (!declared.has(name)) faults.push(`${folder}/package.json does not declare ${name}, which its sources import`);
  const references = [...used]
    .filter((name) => folderOf.has(name))
    .map((name) => ({ path: relative(folder, folderOf.get(name)) }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  write(
    join(root, folder, 'tsconfig.json'),
    `${JSON.stringify(
      {
        extends: '../../tsconfig.base.json',
        compilerOptions: {
          composite: true,
          rootDir: 'src',
          outDir: 'dist',
          tsBuildInfoFile: 'tsconfig.tsbuildinfo',
          declaration: true,
          sourceMap: true,
          inlineSources: true,
          ...(browserPackages.has(folder) && browserOptions),
        },
        include: ['src'],
        references,
      },
      null,
      2,
    )}\n`,
  );
}

const examples = join('examples', 'plugins');
const exampleNames = existsSync(join(root, examples)) ? readdirSync(join(root, examples)) : [];
for (const folder of [...exampleNames.map((name) => join(examples, name)), join('packages', 'cli', 'create-oarlock-plugin')]) {
  const file = join(folder, 'package.json');
  write(join(root, file), withVersions(file, readFileSync(join(root, file), 'utf8')));
}

// what programs report as their version, and the image of the manifests
const versionOf = /(\b(?:version: |const (?:oarlockV|v)ersion = )'|newTag: |^(?:v|appV)ersion: )[0-9][^' }\n]*/gm;
for (const file of [
  'packages/cluster/src/process/version.ts',
  'packages/process-supervisor/src/client/supervised-runtime.ts',
  'plugins/csi-hostpath/src/main.ts',
  'plugins/runtime-simulated/src/simulated-runtime.ts',
  'packaging/helm/oarlock/Chart.yaml',
  'packaging/kubernetes/kustomization.yaml',
].filter((each) => existsSync(join(root, each)))) {
  const text = readFileSync(join(root, file), 'utf8');
  write(
    join(root, file),
    text.replace(versionOf, (_, start) => `${start}${rootManifest.version}`),
  );
}

// `oarlock plugins new` writes these versions into the manifests that it creates
const ofTemplates = { ...ranges, typescript: ranges['@typescript/native'].replace(/^npm:typescript@/, '') };
const templates = join(root, 'packages', 'cli', 'templates');
const namesOfTemplates = new Set(['@types/node', 'esbuild', 'fast-check', 'typescript', 'vitest', 'zod']);
for (const slot of readdirSync(templates)) {
  const { dependencies = [], devDependencies = [] } = JSON.parse(readFileSync(join(templates, slot, 'template.json'), 'utf8'));
  for (const name of [...dependencies, ...devDependencies]) if (!name.startsWith('@oarlock/')) namesOfTemplates.add(name);
}
write(
  join(root, 'packages', 'cli', 'versions.json'),
  `${JSON.stringify({ oarlock: rootManifest.version, ...Object.fromEntries([...namesOfTemplates].sort().map((name) => [name, ofTemplates[name]])) }, null, 2)}\n`,
);
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
