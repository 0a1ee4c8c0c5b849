// What the plugin `console` costs an API server whose console is not opened: the memory that it keeps, and the processor time that loads it. Each run is a process
// that has loaded the API server before. Loads the compiled modules one by one; the bundled program has a code cache and needs a small part of the time.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../harness/oarlock.ts';
import { median, print } from './support/statistics.ts';

const runs = 7;

interface Cost {
  readonly kib: number;
  readonly ms: number;
}

const program = `
  const used = () => {
    for (let each = 0; each < 4; each += 1) gc();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  await import('@oarlock/cluster/run');
  await import('@oarlock/apiserver/plugin');
  const [before, began] = [used(), process.cpuUsage()];
  const { default: plugin } = await import('@oarlock/console/plugin');
  const cluster = { name: 'bench', version: 'v1', serverUrl: 'https://127.0.0.1:6443' };
  const log = { info() {}, warn() {} };
  globalThis.handler = plugin.create({ config: plugin.config.parse({}), cluster }, { clock: { now: Date.now, monotonic: () => 0 }, log });
  const { user, system } = process.cpuUsage(began);
  console.log(JSON.stringify({ ms: (user + system) / 1000, kib: (used() - before) / 1024 }));
`;

const costs: Cost[] = [];
for (let run = 0; run < runs; run += 1) {
  const args = ['--expose-gc', '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: join(root, 'packages', 'cli') });
  costs.push(JSON.parse(stdout) as Cost);
}
print([
  { what: 'memory of the plugin before the console is opened', value: median(costs.map(({ kib }) => kib)), unit: 'KiB' },
  { what: 'processor time that loads its modules, without a code cache', value: median(costs.map(({ ms }) => ms)), unit: 'ms' },
]);
