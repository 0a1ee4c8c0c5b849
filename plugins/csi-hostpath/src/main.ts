import { errorText } from '@oarlock/primitives/error-text';
import { fstatSync, statfsSync, mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { driver } from './driver.ts';
import { Faults } from './faults.ts';

const { values } = parseArgs({
  options: {
    endpoint: { type: 'string' },
    'node-id': { type: 'string' },
    'data-dir': { type: 'string' },
    name: { type: 'string', default: 'hostpath.csi.oarlock.dev' },
    /** The total capacity of all volumes in bytes; by default the size of the data directory's file system. */
    capacity: { type: 'string' },
    /** True if a volume must be attached to a node before the node can use it. */
    attach: { type: 'boolean', default: false },
    /** True if all nodes share the data directory. */
    shared: { type: 'boolean', default: false },
    /** The name of a parameter that ControllerModifyVolume may change. */
    mutable: { type: 'string', multiple: true, default: [] },
    /** True if volumes that are directories require NodeExpandVolume. */
    'node-expansion': { type: 'boolean', default: false },
    /** The maximum number of volumes per node; 0 for no limit. */
    'max-volumes': { type: 'string', default: '0' },
    /** The path of a JSON file with faults to inject, for tests. */
    faults: { type: 'string' },
  },
});
const { endpoint, 'node-id': nodeId, 'data-dir': dataDir, name, capacity, attach, shared, mutable, faults } = values;
if (endpoint === undefined || nodeId === undefined || dataDir === undefined) {
  console.error('csi-hostpath: --endpoint, --node-id and --data-dir are required');
  process.exit(2);
}
const maxVolumes = Number(values['max-volumes']);
if (!Number.isInteger(maxVolumes) || maxVolumes < 0) {
  console.error(`csi-hostpath: --max-volumes ${JSON.stringify(values['max-volumes'])} is not a non-negative integer`);
  process.exit(2);
}
mkdirSync(dataDir, { recursive: true, mode: 0o700 });
const { bsize, blocks } = statfsSync(dataDir);
const server = await driver({
  name,
  endpoint: endpoint.replace(/^unix:(\/\/)?/, ''),
  nodeId,
  dataDir,
  capacityBytes: capacity === undefined ? bsize * blocks : Number(capacity),
  version: '0.1.0',
  attach,
  shared,
  mutable,
  maxVolumes,
  nodeExpansion: values['node-expansion'],
  ...(faults !== undefined && { faults: new Faults(faults) }),
  now: Date.now,
  failed: (path, error) => console.error(`${path}: ${errorText(error)}`),
});
console.log('ready');
const end = () => void server.close().then(() => process.exit(0));
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, end);
// a parent process that holds a pipe open has ended when the pipe ends; the end of another standard input, such as /dev/null, has no meaning
const stdin = fstatSync(process.stdin.fd);
if (stdin.isFIFO() || stdin.isSocket())
  process.stdin
    .on('end', () => {
      console.error('csi-hostpath: the parent process closed standard input, exiting');
      end();
    })
    .resume();
