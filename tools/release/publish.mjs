// The target `nx-release-publish` of a package: publishes the folder that `npm run pack` wrote, unless the registry has this version, so that a publication
// that failed half way is repeated by the same command.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { publishedName } from '../pack.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { values, positionals } = parseArgs({
  options: {
    dryRun: { type: 'string' },
    tag: { type: 'string' },
    registry: { type: 'string' },
    otp: { type: 'string' },
    access: { type: 'string' },
  },
  allowPositionals: true,
  strict: false, // Nx passes its version data as well
});
const [source = ''] = positionals;
const name = publishedName(JSON.parse(readFileSync(join(root, source, 'package.json'), 'utf8')).name);
const folder = join(root, '.packages', name);
if (!existsSync(folder)) {
  console.error(`${folder} does not exist: run \`npm run pack\` first`);
  process.exit(1);
}
const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const registry = values.registry === undefined ? [] : ['--registry', values.registry];
const npm = (args, stdio) => spawnSync('npm', args, { cwd: folder, stdio, encoding: 'utf8' });

if (npm(['view', `${name}@${version}`, 'version', ...registry], 'pipe').stdout.trim() === version) {
  console.log(`${name}@${version} is already published`);
  process.exit(0);
}
const options = ['tag', 'otp'].flatMap((key) => (values[key] === undefined ? [] : [`--${key}`, values[key]]));
const dryRun = values.dryRun === undefined || values.dryRun === 'false' ? [] : ['--dry-run'];
process.exit(npm(['publish', '.', ...registry, ...options, ...dryRun], 'inherit').status ?? 1);
