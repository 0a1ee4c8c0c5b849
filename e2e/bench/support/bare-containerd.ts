import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Duplex, type Readable } from 'node:stream';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { ContainerdRuntime } from '@oarlock/runtime-containerd/containerd-runtime';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import { busyboxImage } from '../../fixtures/test-image.ts';

export interface BareRuntime {
  /** Creates a sandbox with network and starts a container in it: a pod without Kubernetes. Returns the sandbox. */
  startPod(): Promise<string>;
  removePod(sandbox: string): Promise<void>;
  /** Runs `true` in its own container so many times. Returns the milliseconds of each. */
  execTimes(times: number): Promise<readonly number[]>;
  /** Counts the output of a command in a pod's first container until the signal aborts. */
  output(pod: string, command: readonly string[], signal: AbortSignal): Promise<Readable>;
  /** Connects to a port of a pod. */
  forward(pod: string, port: number): Promise<Duplex>;
  close(): Promise<void>;
}

/** containerd through CRI calls, without a cluster: the reference for everything that starts pods. */
export async function bareRuntime(socket: string): Promise<BareRuntime> {
  const dir = await mkdtemp(join(tmpdir(), 'oarlock-bare-'));
  const driver = new ContainerdRuntime(
    { socket, requestTimeoutSeconds: 60, imagePullTimeoutSeconds: 60, streamIdleSeconds: 600 },
    { clock: systemClock, log: silentLogger },
  );
  await driver.start(AbortSignal.timeout(10_000));
  const call = {};
  const runtime: BareRuntime = {
    async startPod() {
      const uid = randomUUID();
      const namespaces = { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } as const;
      const sandboxConfig: PodSandboxConfig = {
        metadata: { name: uid, uid, namespace: 'bare', attempt: 0 },
        hostname: 'bare',
        logDirectory: join(dir, uid),
        portMappings: [],
        labels: {},
        annotations: {},
        linux: { security: { namespaces } },
      };
      const sandbox = await driver.runPodSandbox(sandboxConfig, '', call);
      const config: ContainerConfig = {
        metadata: { name: 'main', attempt: 0 },
        image: { image: busyboxImage },
        command: ['sleep', '3600'],
        args: [],
        envs: [],
        mounts: [],
        labels: {},
        annotations: {},
        logPath: 'main/0.log',
        stdin: false,
        stdinOnce: false,
        tty: false,
        linux: { resources: {}, security: { namespaces } },
      };
      await driver.startContainer(await driver.createContainer(sandbox, config, sandboxConfig, call), call);
      return sandbox;
    },
    async removePod(sandbox) {
      await driver.stopPodSandbox(sandbox, call);
      await driver.removePodSandbox(sandbox, call);
    },
    async execTimes(times) {
      const sandbox = await runtime.startPod();
      const [container] = await driver.listContainers({ sandboxId: sandbox }, call);
      const took: number[] = [];
      for (let round = 0; round < times; round++) {
        const from = performance.now();
        await driver.execSync(container?.id ?? '', ['true'], 30);
        took.push(performance.now() - from);
      }
      await runtime.removePod(sandbox);
      return took;
    },
    async output(pod, command, signal) {
      const [container] = await driver.listContainers({ labels: { 'io.kubernetes.pod.name': pod } }, call);
      const stdout = new PassThrough({ highWaterMark: 256 * 1024 });
      // it ends by the signal and reports that
      driver.exec(container?.id ?? '', command, { tty: false, stdout }, { signal }).catch(() => stdout.destroy());
      return stdout;
    },
    async forward(pod, port) {
      const [sandbox] = await driver.listPodSandbox({ labels: { 'io.kubernetes.pod.name': pod } }, call);
      return driver.portForward(sandbox?.id ?? '', port, call);
    },
    async close() {
      await driver.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return runtime;
}
