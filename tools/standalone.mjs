// An archive of the packed command with Node, for machines without Node.
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeCodeCache } from './bundle.mjs';
import { run } from './setup.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

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

/**
 * Writes `oarlock-VERSION-PLATFORM-ARCHITECTURE.tar.gz` into `out` from the folder of the packed command, and returns its path. The archive has the Node
 * that runs this program; a build of Node that needs libraries of its own, as some distributions have, does not run on other machines.
 */
export async function standalone(command, out) {
  const { version, dependencies } = JSON.parse(readFileSync(join(command, 'package.json'), 'utf8'));
  const name = `oarlock-${version}-${process.platform}-${process.arch}`;
  const folder = join(out, name);
  const lib = join(folder, 'lib');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'bin'), { recursive: true });
  cpSync(command, join(lib, 'oarlock'), { recursive: true });
  for (const dependency of Object.keys(dependencies))
    cpSync(join(root, 'node_modules', dependency), join(lib, 'oarlock', 'node_modules', dependency), { recursive: true });
  const node = join(lib, 'node');
  cpSync(process.execPath, node, { dereference: true });
  cpSync(licenseOf(process.execPath), join(lib, 'node.LICENSE'));
  cpSync(join(command, 'LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'bin', 'oarlock'), launcher);
  chmodSync(join(folder, 'bin', 'oarlock'), 0o755);
  await writeCodeCache({ node, joined: join(lib, 'oarlock', 'bin', 'joined.js') });
  const archive = join(out, `${name}.tar.gz`);
  await required('tar', ['--create', '--gzip', '--file', archive, '--owner=0', '--group=0', '--directory', out, name]);
  rmSync(folder, { recursive: true, force: true });
  return archive;
}
