// Prints the time from the driver's call to the exec of the command, for the first pod and the next. Not a test.
import { openRuntime } from './fixture.ts';
import type { PodSandboxConfig, ContainerConfig } from '@oarlock/spi/runtime';
const isolation = process.argv.includes('--isolated') ? 'required' : 'none';
const config = { isolation, ...(process.argv.includes('--plain') && { namespaces: false, cgroups: false }) } as const;
const f = await openRuntime(config);
const sandbox = (i: number): PodSandboxConfig => ({
  metadata: { name: `p${i}`, uid: `u${i}`, namespace: 'd', attempt: 0 },
  hostname: 'h',
  logDirectory: `${f.dataDir}/logs/${i}`,
  portMappings: [],
  labels: {},
  annotations: {},
  linux: { security: { namespaces: { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } } },
});
const container: ContainerConfig = {
  metadata: { name: 'c', attempt: 0 },
  image: { image: 'host' },
  command: ['/bin/sleep', '100'],
  args: [],
  envs: [],
  mounts: [{ containerPath: '/etc/hosts', hostPath: '/etc/hosts' }],
  labels: {},
  annotations: {},
  logPath: 'c/0.log',
  stdin: false,
  stdinOnce: false,
  tty: false,
  linux: { resources: {}, security: { namespaces: { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } } },
};
for (let i = 0; i < 12; i++) {
  const t = performance.now();
  const s = await f.driver.runPodSandbox(sandbox(i), '');
  const a = performance.now();
  const c = await f.driver.createContainer(s, container, sandbox(i));
  const b = performance.now();
  await f.driver.startContainer(c);
  const e = performance.now();
  console.log(
    `pod ${i}: ${(e - t).toFixed(1)} ms (sandbox ${(a - t).toFixed(1)}, create ${(b - a).toFixed(1)}, start ${(e - b).toFixed(1)})`,
  );
}
await f.dispose();
