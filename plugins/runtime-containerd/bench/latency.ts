import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ContainerConfig, NamespaceMode, PodSandboxConfig } from '@oarlock/spi/runtime';
import { startContainerd } from '../../../e2e/fixtures/containerd.ts';
import { busyboxImage } from '../../../e2e/fixtures/test-image.ts';
import { ContainerdRuntime } from '../src/containerd-runtime.ts';

/** Prints the latency of each step of a pod's lifecycle on this machine. Run as root: see the README. */
const iterations = Number(process.argv[2] ?? 20);
const dir = await mkdtemp(join(tmpdir(), 'oarlock-latency-'));
await mkdir(join(dir, 'cni'));
await writeFile(
  join(dir, 'cni', '10-bench.conflist'),
  JSON.stringify({
    cniVersion: '0.4.0',
    name: 'bench',
    plugins: [
      {
        type: 'bridge',
        bridge: 'oarbn0',
        isGateway: true,
        ipam: { type: 'host-local', dataDir: join(dir, 'ipam'), ranges: [[{ subnet: '10.213.78.0/24' }]] },
      },
    ],
  }),
);
const containerd = await startContainerd({
  dir,
  cniConfDir: join(dir, 'cni'),
  ...(process.argv[3] === 'native' && { snapshotter: 'native' as const }),
});
const driver = new ContainerdRuntime(
  { socket: containerd.socket, requestTimeoutSeconds: 60, imagePullTimeoutSeconds: 60, streamIdleSeconds: 600 },
  { clock: systemClock, log: silentLogger },
);
await driver.start(AbortSignal.timeout(10_000));

const times = new Map<string, number[]>();
async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  const list = times.get(name) ?? [];
  times.set(name, list);
  list.push(performance.now() - began);
  return result;
}

const sandboxConfig = (network: NamespaceMode): PodSandboxConfig => {
  const uid = randomUUID();
  return {
    metadata: { name: uid, uid, namespace: 'bench', attempt: 0 },
    hostname: 'bench',
    logDirectory: join(dir, 'logs', uid),
    portMappings: [],
    labels: {},
    annotations: {},
    linux: { security: { namespaces: { network, pid: 'CONTAINER', ipc: 'POD' } } },
  };
};
const containerConfig: ContainerConfig = {
  metadata: { name: 'main', attempt: 0 },
  image: { image: busyboxImage },
  command: ['/bin/sh', '-c', 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'],
  args: [],
  envs: [],
  mounts: [],
  labels: {},
  annotations: {},
  logPath: 'main/0.log',
  stdin: false,
  stdinOnce: false,
  tty: false,
  linux: { resources: {}, security: { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } },
};
for (const network of ['POD', 'NODE'] as const) {
  for (let round = 0; round < iterations; round++) {
    const config = sandboxConfig(network);
    const sandbox = await timed(`runPodSandbox (${network} network)`, () => driver.runPodSandbox(config, ''));
    const id = await timed('createContainer', () => driver.createContainer(sandbox, containerConfig, config));
    await timed('startContainer', () => driver.startContainer(id));
    await timed('containerStatus', () => driver.containerStatus(id));
    await timed('execSync true', () => driver.execSync(id, ['true'], 5));
    await timed('exec true (streams)', () => driver.exec(id, ['true'], { tty: false }));
    await timed('stopContainer', () => driver.stopContainer(id, 5));
    await timed('removeContainer', () => driver.removeContainer(id));
    await timed(`stopPodSandbox (${network} network)`, () => driver.stopPodSandbox(sandbox));
    await timed('removePodSandbox', () => driver.removePodSandbox(sandbox));
  }
}
const quantile = (samples: readonly number[], q: number) =>
  [...samples].sort((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * q))] ?? 0;
for (const [name, list] of times)
  console.log(
    `${name.padEnd(34)} p50 ${quantile(list, 0.5).toFixed(1).padStart(7)} ms   p95 ${quantile(list, 0.95).toFixed(1).padStart(7)} ms`,
  );

const config = sandboxConfig('NODE');
const sandbox = await driver.runPodSandbox(config, '');
const id = await driver.createContainer(sandbox, containerConfig, config);
await driver.startContainer(id);
const gibibyte = 1024 ** 3;
const peak = { rss: 0 };
const watching = setInterval(() => {
  peak.rss = Math.max(peak.rss, process.memoryUsage().rss);
}, 50);
let down = 0;
const sink = new Writable({
  write(chunk: Buffer, _encoding, done) {
    down += chunk.length;
    done();
  },
});
const rate = async (direction: string, work: () => Promise<number>) => {
  const began = performance.now();
  await work();
  const seconds = (performance.now() - began) / 1000;
  console.log(
    `exec, 1 GiB ${direction}: ${(1024 / seconds).toFixed(0)} MiB/s, resident memory up to ${(peak.rss / 1024 ** 2).toFixed(0)} MiB`,
  );
};
await rate('out', () => driver.exec(id, ['head', '-c', `${gibibyte}`, '/dev/zero'], { tty: false, stdout: sink }));
let left = 1024;
const block = Buffer.alloc(1024 ** 2);
const source = new Readable({
  read() {
    this.push(left-- > 0 ? block : null);
  },
});
await rate('in', () =>
  driver.exec(id, ['sh', '-c', `test "$(wc -c)" = ${gibibyte}`], { tty: false, stdin: source }).then((code) => {
    if (code !== 0) throw new Error('bytes were lost');
    return code;
  }),
);
if (down !== gibibyte) throw new Error('bytes were lost');
clearInterval(watching);

await driver.removePodSandbox(sandbox);
await driver.stop();
await containerd.stop();
execFileSync('ip', ['link', 'delete', 'oarbn0']);
await rm(dir, { recursive: true, force: true });
