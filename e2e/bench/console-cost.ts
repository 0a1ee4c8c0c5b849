// What the plugin `console` costs an API server whose console is not opened: the memory that it keeps, and the processor time that loads and creates it. Each run is
// a process that has loaded the API server before, which is the reference, from the bundled program with V8's code cache: as `npm start` and `oarlock up` run it.
// Processor time is measured in runs of their own, because a collection drops compiled code, and other threads work on it.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../harness/oarlock.ts';
import { median, print, type Figure } from './support/statistics.ts';

const runs = 21;

/** Memory in KiB, or processor time in milliseconds. */
interface Measured {
  readonly apiServer: number;
  readonly plugin: number;
}

const program = `
  import { joined } from './bin/joined.js';
  const { loadModule } = joined();
  const used = () => {
    for (let each = 0; each < 4; each += 1) gc();
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 1024;
  };
  const processorTime = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  const figure = globalThis.gc === undefined ? processorTime : used;
  const costOf = async (work) => {
    const before = figure();
    await work();
    return figure() - before;
  };
  const load = async (name) => (await loadModule('@oarlock/' + name + '/plugin')).default;
  const apiServer = await costOf(async () => {
    for (const name of ['apiserver', 'authn-client-certificate', 'authn-service-account', 'authz-rbac']) await load(name);
  });
  const plugin = await costOf(async () => {
    const plugin = await load('console');
    const cluster = { name: 'bench', version: 'v1', serverUrl: 'https://127.0.0.1:6443' };
    const log = { info() {}, warn() {}, debug() {} };
    const needs = { cluster, authz: [], client: { raw() {} } };
    globalThis.handler = plugin.create({ config: plugin.config.parse({}), ...needs }, { clock: { now: Date.now, monotonic: () => 0 }, log });
  });
  console.log(JSON.stringify({ apiServer, plugin }));
`;

async function measure(...options: readonly string[]): Promise<Measured> {
  const args = [...options, '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: join(root, 'packages', 'cli') });
  return JSON.parse(stdout) as Measured;
}

const memory: Measured[] = [];
const time: Measured[] = [];
for (let run = 0; run < runs; run += 1) {
  memory.push(await measure('--expose-gc'));
  time.push(await measure());
}
const figure = (what: string, unit: string, costs: readonly Measured[]): Figure => ({
  what,
  value: median(costs.map(({ plugin }) => plugin)),
  unit,
  reference: { what: 'modules of the API server', value: median(costs.map(({ apiServer }) => apiServer)) },
});
print([
  figure('memory of the plugin before the console is opened', 'KiB', memory),
  figure('processor time that loads and creates it', 'ms', time),
]);
