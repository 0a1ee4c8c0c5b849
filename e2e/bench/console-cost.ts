// What the plugin `console` costs an API server whose console is not opened: the memory that it keeps, and the processor time that loads it. Each run is a process
// that has loaded the API server before, which is the reference. Loads the compiled modules one by one; the bundled program has a code cache and needs a small part of the time.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../harness/oarlock.ts';
import { median, print, type Figure } from './support/statistics.ts';

const runs = 7;

/** Memory in KiB and processor time in milliseconds. */
interface Cost {
  readonly kib: number;
  readonly ms: number;
}
interface Measured {
  readonly apiServer: Cost;
  readonly plugin: Cost;
}

const program = `
  const used = () => {
    for (let each = 0; each < 4; each += 1) gc();
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 1024;
  };
  const costOf = async (work) => {
    const [before, began] = [used(), process.cpuUsage()];
    await work();
    const { user, system } = process.cpuUsage(began);
    return { ms: (user + system) / 1000, kib: used() - before };
  };
  const apiServer = await costOf(async () => {
    await import('@oarlock/cluster/run');
    await import('@oarlock/apiserver/plugin');
  });
  const plugin = await costOf(async () => {
    const { default: plugin } = await import('@oarlock/console/plugin');
    const cluster = { name: 'bench', version: 'v1', serverUrl: 'https://127.0.0.1:6443' };
    const log = { info() {}, warn() {} };
    globalThis.handler = plugin.create({ config: plugin.config.parse({}), cluster }, { clock: { now: Date.now, monotonic: () => 0 }, log });
  });
  console.log(JSON.stringify({ apiServer, plugin }));
`;

const costs: Measured[] = [];
for (let run = 0; run < runs; run += 1) {
  const args = ['--expose-gc', '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: join(root, 'packages', 'cli') });
  costs.push(JSON.parse(stdout) as Measured);
}
const figure = (what: string, unit: string, key: keyof Cost): Figure => ({
  what,
  value: median(costs.map(({ plugin }) => plugin[key])),
  unit,
  reference: { what: 'modules of the API server', value: median(costs.map(({ apiServer }) => apiServer[key])) },
});
print([
  figure('memory of the plugin before the console is opened', 'KiB', 'kib'),
  figure('processor time that loads its modules, without a code cache', 'ms', 'ms'),
]);
