import { randomUUID } from 'node:crypto';
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import type { PodItem } from '../../harness/api.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { composition } from '../../harness/composition.ts';
import type { Containers } from '../../harness/containers.ts';
import type { Machine } from '../../harness/machine.ts';
import { mustRun, runProgram } from '../../harness/programs.ts';
import { until, untilValue } from '../../harness/until.ts';
import type { ChaosRuntime } from './chaos-runtime.ts';
import { countLeftovers, type Leftovers } from './leaked-resources.ts';

export const idle = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done';
export const pod = (name: string, script: string, more: object = {}, container: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: busyboxImage, command: ['sh', '-c', script], ...container }],
    ...more,
  },
});

export interface Identity {
  readonly name: string;
  readonly uid: string | undefined;
  readonly id: string | undefined;
  readonly restarts: number | undefined;
  readonly ip: string | undefined;
}
const identity = ({ metadata, status }: PodItem): Identity => ({
  name: metadata.name,
  uid: metadata.uid,
  id: status.containerStatuses?.[0]?.containerID,
  restarts: status.containerStatuses?.[0]?.restartCount,
  ip: status.podIP,
});

/** The state before a fault: healthy pods, running containers, and the count of every resource that can leak. */
export interface Before {
  readonly steady: readonly Identity[];
  readonly running: Containers;
  readonly left: Leftovers;
}

/** One node with its own small disk and three steady pods that must not be disturbed. */
export class ChaosNode {
  readonly machine: Machine;
  #cluster: Cluster | undefined;
  readonly #open: (machine: Machine) => Promise<ChaosRuntime>;
  #runtime: ChaosRuntime | undefined;
  bridge = '';
  /** The directories that the kubelet writes to. */
  disk = '';
  #clock = '';
  readonly #cgroupRoot = `/oarlock-chaos-${randomUUID()}`;
  #numbers = 0;

  constructor(machine: Machine, open: (machine: Machine) => Promise<ChaosRuntime>) {
    this.machine = machine;
    this.#open = open;
  }

  get cluster(): Cluster {
    if (!this.#cluster) throw new Error('the cluster has not been started');
    return this.#cluster;
  }
  get runtime(): ChaosRuntime {
    if (!this.#runtime) throw new Error('the runtime has not been started');
    return this.#runtime;
  }

  async start(): Promise<void> {
    const { machine } = this;
    const runtime = await this.#open(machine);
    this.#runtime = runtime;
    this.disk = machine.path('disk');
    const { disk } = this;
    await mkdir(disk);
    await mustRun('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', disk]);
    if (runtime.runAs) await chown(disk, runtime.runAs.uid, runtime.runAs.gid);
    machine.undo('disk', async () => {
      // pods keep running until the runtime ends, after this step
      await runProgram('umount', ['--lazy', '--recursive', disk]);
      await rm(disk, { recursive: true, force: true });
    });
    const kubelet = {
      rootDir: join(disk, 'kubelet'),
      cgroupRoot: this.#cgroupRoot,
      nodeStatusUpdateMs: 1000,
      evictionHard: { memoryAvailable: '0', diskAvailable: '0', inodesFree: '0', imageAvailable: '0', imageInodesFree: '0' },
    };
    const spec = composition({ storage: 'embedded', runtime: runtime.name, network: 'bridge', kubelet, ...runtime.options });
    this.bridge = spec.bridge ?? '';
    this.#clock = machine.path('clock');
    await writeFile(this.#clock, '0', { mode: 0o644 });
    const env = { NODE_OPTIONS: `--import=${join(import.meta.dirname, 'jumping-clock.mjs')}`, OARLOCK_TEST_CLOCK: this.#clock };
    const volumes = [{ use: 'volume-csi' }];
    const { runAs } = runtime;
    this.#cluster = await machine.cluster({ spec: { ...spec, ...runtime.spec, volumes }, env, ...(runAs && { runAs }) });
    const { api } = this.#cluster;
    await until(
      'the namespace has its service account',
      async () => (await api.call('GET', '/api/v1/namespaces/default/serviceaccounts/default')).status === 200,
    );
    for (const name of ['steady-a', 'steady-b', 'steady-c']) {
      const manifest = pod(name, idle);
      await this.apply({ ...manifest, metadata: { ...manifest.metadata, labels: { app: 'steady' } } });
    }
    await this.steady();
  }

  /** Shifts the clock of the cluster's processes by this many milliseconds from real time. */
  async setClock(shiftMs: number): Promise<void> {
    await writeFile(this.#clock, `${shiftMs}`);
    // a node without root has a process outside of its namespaces, and its children inside
    const children = (await runProgram('pgrep', ['--parent', String(this.cluster.pid), '--exact', 'node'])).stdout.trim();
    const inside = this.runtime.runAs === undefined || children === '' ? [] : children.split('\n').map(Number);
    for (const pid of [this.cluster.pid, ...inside]) process.kill(pid, 'SIGUSR2');
  }

  async steady(): Promise<readonly Identity[]> {
    return (await this.cluster.api.untilReady('default', 'steady', 3)).map(identity).sort((a, b) => (a.name < b.name ? -1 : 1));
  }
  running(): Promise<Containers> {
    return this.runtime.running(this.cluster);
  }
  async counted(): Promise<Leftovers> {
    const { bridge, runtime, cluster, disk } = this;
    return countLeftovers({
      runtime: await runtime.uses(cluster, this.#cgroupRoot),
      view: await runtime.view(cluster),
      bridge,
      dataDir: cluster.dataDir,
      rootDir: join(disk, 'kubelet'),
      cgroupRoot: this.#cgroupRoot,
    });
  }

  async before(): Promise<Before> {
    return { steady: await this.steady(), running: await this.running(), left: await this.counted() };
  }
  /** Asserts that the same pods run in the same containers and processes. */
  async unharmed({ steady, running }: Before): Promise<void> {
    expect(await this.steady()).toEqual(steady);
    const now = await this.running();
    for (const [id, task] of running) expect(now.get(id)).toEqual(task);
  }
  async nothingLeaks({ left }: Before): Promise<void> {
    await untilValue(
      `nothing but ${JSON.stringify(left)}`,
      () => this.counted(),
      (now) => JSON.stringify(now) === JSON.stringify(left),
      { everyMs: 500 },
    );
  }

  /** Creates a pod on the node without checking that the node is ready. */
  get here(): { readonly nodeName: string } {
    return { nodeName: this.cluster.nodeName };
  }
  /** Returns a name that no earlier attempt has used. */
  name(word: string): string {
    return `${word}-${++this.#numbers}`;
  }
  apply(object: object): Promise<unknown> {
    return this.cluster.kubectl.apply(object);
  }
  ready(name: string): Promise<readonly PodItem[]> {
    return this.cluster.api.untilReady('default', name, 1);
  }
  /** Waits until the kubelet has started to sync the pod. */
  untilDeleted(name: string): Promise<unknown> {
    return this.cluster.api.until<PodItem>(`the kubelet syncs ${name}`, this.cluster.api.pods('default', name), (pods) =>
      pods.some(({ status }) => status.startTime !== undefined),
    );
  }
  async delete(name: string): Promise<void> {
    await this.cluster.kubectl.run(['delete', 'pod', name, '--wait=false']);
  }
  async gone(name: string): Promise<void> {
    await this.cluster.api.until(`${name} is gone`, this.cluster.api.pods('default', name), (pods) => pods.length === 0);
  }
  async remove(name: string): Promise<void> {
    await this.delete(name);
    await this.gone(name);
  }
  /** Returns the messages of the pod's events. */
  events(name: string, path: string, more = ''): Promise<string> {
    return this.cluster.kubectl.run(['get', 'events', `--field-selector=involvedObject.name=${name}${more}`, '-o', `jsonpath=${path}`]);
  }
  /** Returns the conditions of the node: type to status and message. */
  async condition(type: string): Promise<{ readonly status: string; readonly message: string } | undefined> {
    const node = await this.cluster.api.get<{
      readonly status: { readonly conditions: readonly { readonly type: string; readonly status: string; readonly message: string }[] };
    }>(`/api/v1/nodes/${this.cluster.nodeName}`);
    return node.status.conditions.find((one) => one.type === type);
  }
}
