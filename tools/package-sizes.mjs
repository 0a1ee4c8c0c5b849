// The sizes of the published packages and the start-up times of the command: `npm run pack -- --write-sizes` writes docs/package-sizes.md, and a test compares the
// sizes with those of the packed folders.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './setup.mjs';

const page = join(root, 'docs', 'package-sizes.md');
/** A size may differ by a third, and by 32 KiB: the page shows what a package costs, not each change. */
const tolerance = { share: 1 / 3, kib: 32 };
const kib = (bytes) => Math.max(1, Math.round(bytes / 1024));

/** Returns name, number of files and unpacked size in KiB of the packed folders. */
export const sizesOf = (folders) =>
  folders
    .map((folder) => {
      const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      const bytes = files.reduce((sum, entry) => sum + statSync(join(entry.parentPath ?? entry.path, entry.name)).size, 0);
      return {
        name: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).name,
        files: files.length,
        unpacked: kib(bytes),
        folder,
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));

/** Returns where the page and the packages differ, as lines. */
export function sizeFaults(sizes, text = readFileSync(page, 'utf8')) {
  const listed = new Map(
    [...text.matchAll(/^\| `([^`]+)` \| \d+ \| (\d+) \| \d+ \|$/gm)].map(([, name, unpacked]) => [name, Number(unpacked)]),
  );
  const faults = [...listed.keys()].filter((name) => !sizes.some((size) => size.name === name)).map((name) => `${name} is not published`);
  for (const { name, unpacked } of sizes) {
    const known = listed.get(name);
    if (known === undefined) faults.push(`${name} is missing`);
    else if (Math.abs(unpacked - known) > Math.max(tolerance.kib, known * tolerance.share))
      faults.push(`${name} has ${unpacked} KiB unpacked instead of ${known}`);
  }
  return faults;
}

/** Returns the sizes in KiB of the archives that `npm pack` makes, by the names of the packages. */
function packedSizes(folders) {
  // outside of the checkout, whose workspaces npm would read
  const output = execFileSync('npm', ['pack', ...folders, '--dry-run', '--json', '--ignore-scripts'], {
    cwd: tmpdir(),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return new Map(JSON.parse(output).map(({ name, size }) => [name, kib(size)]));
}

/** Returns the median processor time of some runs of a command, in seconds. It depends less on other programs than the elapsed time. */
function processorTime(command, runs = 5) {
  const times = Array.from({ length: runs }, () => {
    const output = execFileSync('sh', ['-c', '"$@" > /dev/null; times', 'sh', ...command], { encoding: 'utf8' });
    const ofChildren = output.trimEnd().split('\n').at(-1);
    return [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
      (sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds),
      0,
    );
  });
  return times.sort((a, b) => a - b)[Math.floor(runs / 2)].toFixed(2);
}

/** Returns the rows of the table of installations: from npm, from the archive, and as a single file. */
function installations({ command, archive, program, packed }) {
  const folder = mkdtempSync(join(tmpdir(), 'oarlock-sizes-'));
  const mib = (path) => `${(statSync(path).size / 2 ** 20).toFixed(0)} MiB`;
  const row = (what, size, words) =>
    `| ${what} | ${size} | ${processorTime([...words, '--version'])} s | ${processorTime([...words, 'config', 'validate', '-f', 'embedded'])} s |`;
  try {
    const installed = join(folder, 'node_modules', 'oarlock');
    cpSync(command, installed, { recursive: true });
    cpSync(join(root, 'node_modules', 'reflect-metadata'), join(folder, 'node_modules', 'reflect-metadata'), { recursive: true });
    execFileSync('tar', ['-xzf', archive, '-C', folder, '--strip-components=1']);
    return [
      row('`oarlock` from npm', `${(packed.get('oarlock') / 1024).toFixed(1)} MiB`, [
        process.execPath,
        join(installed, 'bin', 'oarlock.js'),
      ]),
      row('archive with Node', mib(archive), [join(folder, 'bin', 'oarlock')]),
      row('single file', mib(program), ['env', `OARLOCK_UNPACK_DIR=${join(folder, 'unpacked')}`, program]),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes the page. */
export function writeSizes({ folders, ...files }) {
  const sizes = sizesOf(folders);
  const packed = packedSizes(folders);
  const text = [
    '# Sizes of the packages',
    '',
    '`npm run pack -- --write-sizes` writes this page. `npm test` fails if an unpacked size differs by more than a third and by more than 32 KiB.',
    '',
    '## Installations of the command',
    '',
    `Measured with Node ${process.versions.node} on ${process.platform} (${process.arch}, ${cpus().length} processors): the median processor time of five runs. The first start of the single file`,
    'also unpacks it. [Benchmarks](benchmarks.md) has the start of a cluster.',
    '',
    '| installation | size | `oarlock --version` | `oarlock config validate` |',
    '|---|---|---|---|',
    ...installations({ ...files, packed }),
    '',
    '## Packages',
    '',
    `${sizes.length} packages, without their dependencies:`,
    '',
    '| package | `npm pack`, KiB | unpacked, KiB | files |',
    '|---|---|---|---|',
    ...sizes.map(({ name, unpacked, files: count }) => `| \`${name}\` | ${packed.get(name)} | ${unpacked} | ${count} |`),
    '',
  ].join('\n');
  writeFileSync(page, text);
}
