// The packed command with Node, for machines without Node: an archive, and a single file.
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeCodeCache } from './bundle.mjs';
import { installIn, run } from './setup.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The mark in each Node for the program that it contains. */
const sentinel = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** Resolves links of the command itself, as a link in a directory of PATH. */
const launcher = `#!/bin/sh
self=$(readlink -f -- "$0") || exit 1
lib=$(dirname -- "$(dirname -- "$self")")/lib
exec "$lib/node" "$lib/oarlock/bin/oarlock.js" "$@"
`;

/** Returns the license of a Node installation, which its copies must contain. */
function licenseOf(node) {
  const prefix = dirname(dirname(node));
  const found = [join(prefix, 'LICENSE'), join(prefix, 'share', 'doc', 'nodejs', 'LICENSE')].find((path) => existsSync(path));
  if (found === undefined) throw new Error(`the license of ${node} is neither in ${prefix} nor in its share/doc/nodejs`);
  return found;
}

async function required(command, args, options) {
  const { code, output } = await run(command, args, options);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${output}`);
}

/** Writes a packed command with its dependencies and Node into a folder, with V8's code cache. */
async function writeCommand({ command, lib, node }) {
  const { dependencies } = JSON.parse(readFileSync(join(command, 'package.json'), 'utf8'));
  cpSync(command, join(lib, 'oarlock'), { recursive: true });
  for (const dependency of Object.keys(dependencies))
    cpSync(join(root, 'node_modules', dependency), join(lib, 'oarlock', 'node_modules', dependency), { recursive: true });
  cpSync(process.execPath, node, { dereference: true });
  cpSync(licenseOf(process.execPath), join(lib, 'node.LICENSE'));
  await writeCodeCache({ node, joined: join(lib, 'oarlock', 'bin', 'joined.js') });
}

const nameOf = (command) => {
  const { version } = JSON.parse(readFileSync(join(command, 'package.json'), 'utf8'));
  return `oarlock-${version}-${process.platform}-${process.arch}`;
};

/**
 * Writes `oarlock-VERSION-PLATFORM-ARCHITECTURE.tar.gz` into `out` from the folder of the packed command, and returns its path. The archive has the Node
 * that runs this program; a build of Node that needs libraries of its own, as some distributions have, does not run on other machines. `compression` is
 * the level of gzip.
 */
export async function standalone(command, out, { compression = 6 } = {}) {
  const name = nameOf(command);
  const folder = join(out, name);
  const lib = join(folder, 'lib');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'bin'), { recursive: true });
  await writeCommand({ command, lib, node: join(lib, 'node') });
  cpSync(join(command, 'LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'bin', 'oarlock'), launcher);
  chmodSync(join(folder, 'bin', 'oarlock'), 0o755);
  const archive = join(out, `${name}.tar.gz`);
  await required('tar', [
    '--create',
    `--use-compress-program=gzip -${compression}`,
    '--file',
    archive,
    '--owner=0',
    '--group=0',
    '--directory',
    out,
    name,
  ]);
  rmSync(folder, { recursive: true, force: true });
  return archive;
}

/**
 * Writes the program `oarlock-VERSION-PLATFORM-ARCHITECTURE` into `out`: a copy of the Node that runs this program, with the packed command inside, and
 * returns its path. See packaging/single-file/main.cjs for what it does when it starts.
 */
export async function singleFile(command, out) {
  if (process.platform !== 'linux') throw new Error('a single file can be made on Linux only');
  const source = join(root, 'packaging', 'single-file');
  const { code, output } = await installIn(source);
  if (code !== 0) throw new Error(`the packages of ${source} cannot be installed:\n${output}`);
  const program = join(out, nameOf(command));
  const parts = `${program}.parts`;
  rmSync(parts, { recursive: true, force: true });
  await writeCommand({ command, lib: join(parts, 'lib'), node: program });
  const paths = readdirSync(join(parts, 'lib'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(join(parts, 'lib'), join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
  const digest = createHash('sha256');
  for (const path of paths) digest.update(`${path}\0`).update(readFileSync(join(parts, 'lib', path)));
  const name = `${nameOf(command)}-${digest.update(readFileSync(program)).digest('hex').slice(0, 16)}`;
  writeFileSync(join(parts, 'contents.json'), JSON.stringify({ name, paths }));
  const blob = join(parts, 'program.blob');
  const config = {
    main: join(source, 'main.cjs'),
    output: blob,
    disableExperimentalSEAWarning: true,
    assets: { 'contents.json': join(parts, 'contents.json'), ...Object.fromEntries(paths.map((path) => [path, join(parts, 'lib', path)])) },
  };
  writeFileSync(join(parts, 'config.json'), JSON.stringify(config));
  await required(process.execPath, ['--experimental-sea-config', join(parts, 'config.json')]);
  const inject = join(source, 'node_modules', 'postject', 'dist', 'cli.js');
  await required(process.execPath, [inject, program, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', sentinel]);
  chmodSync(program, 0o755);
  rmSync(parts, { recursive: true, force: true });
  return program;
}
