// Writes the tsconfig.json of every package from its imports, and checks its package.json against them.
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
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
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

const faults = [];
const write = (file, content) => {
  const old = existsSync(file) ? readFileSync(file, 'utf8') : '';
  if (old === content) return;
  if (check) faults.push(`${relative(root, file)} is out of date: run npm run sync`);
  else writeFileSync(file, content);
};

for (const folder of folders) {
  const manifest = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  const declared = new Set([...Object.keys(manifest.dependencies ?? {}), ...Object.keys(manifest.peerDependencies ?? {})]);
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
        },
        include: ['src'],
        references,
      },
      null,
      2,
    )}\n`,
  );
}
if (faults.length > 0) {
  console.error(faults.join('\n'));
  process.exit(1);
}
