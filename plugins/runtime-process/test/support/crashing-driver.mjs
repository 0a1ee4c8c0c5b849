// A test runs this program and kills it: it starts a pod and waits. In JavaScript, because it runs with the built packages.
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { ProcessRuntime } from '@oarlock/runtime-process/process-runtime';

const [dataDir = '', program = ''] = process.argv.slice(2);
const driver = new ProcessRuntime(
  { keepPods: false, stopGraceSeconds: 0, nice: 0, cgroups: false, namespaces: false, isolation: 'auto', hiddenPaths: [], idleSeconds: 30 },
  undefined,
  { clock: systemClock, log: silentLogger, dataDir },
);
await driver.start();
const namespaces = { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' };
const config = {
  metadata: { name: 'p', uid: 'u', namespace: 'd', attempt: 0 },
  hostname: 'p',
  logDirectory: `${dataDir}/logs`,
  portMappings: [],
  labels: {},
  annotations: {},
  linux: { security: { namespaces } },
};
const sandbox = await driver.runPodSandbox(config, '');
const container = await driver.createContainer(
  sandbox,
  {
    metadata: { name: 'c', attempt: 0 },
    image: { image: 'host' },
    command: ['/bin/sh', '-c', program],
    args: [],
    envs: [],
    mounts: [],
    labels: {},
    annotations: {},
    logPath: 'c/0.log',
    stdin: false,
    stdinOnce: false,
    tty: false,
    linux: { resources: {}, security: { namespaces } },
  },
  config,
);
await driver.startContainer(container);
process.stdout.write(`${sandbox} ${container}\n`);
