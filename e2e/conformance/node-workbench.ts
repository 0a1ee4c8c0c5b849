import { beforeAll } from 'vitest';
import { ApiError, type Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { busyboxImage } from '../fixtures/test-image.ts';
import { until } from '../harness/until.ts';
import { PodFollower, type FullPod } from './pod-follower.ts';
import { nodeStages, type NodeStageName } from './node-environments.ts';
import { startRootlessNode, startTwoNodes, type RealNodes } from './real-nodes.ts';

export type Spec = Readonly<Record<string, unknown>>;
/** An object with a name. */
export type Named = Spec & { readonly metadata: Spec & { readonly name: string } };
export interface Ended {
  readonly pod: FullPod;
  /** Of its first container. */
  readonly log: string;
}

/** The nodes of a test file, in one namespace: tests run concurrently and give their objects different names. */
export class NodeWorkbench {
  readonly machine = Machine.use();
  readonly namespace = 'behaviour';
  #nodes: RealNodes | undefined;
  #pods: PodFollower | undefined;
  #numbers = 0;

  static use(stage: NodeStageName): NodeWorkbench {
    const bench = new NodeWorkbench();
    beforeAll(() => bench.#start(stage));
    return bench;
  }

  async #start(stage: NodeStageName): Promise<void> {
    this.#nodes = await (nodeStages[stage].rootless === true ? startRootlessNode : startTwoNodes)(this.machine, stage);
    await this.create('/api/v1/namespaces', { metadata: { name: this.namespace } });
    await until(
      'the namespace has its service account',
      async () => (await this.api.call('GET', `${this.at('serviceaccounts')}/default`)).status === 200,
    );
    const pods = new PodFollower(this.api, this.at('pods'));
    this.#pods = pods;
    this.machine.undo('follower', () => pods.close());
  }

  get nodes(): RealNodes {
    if (!this.#nodes) throw new Error('the cluster has not been started');
    return this.#nodes;
  }
  get cluster(): Cluster {
    return this.nodes.cluster;
  }
  get api() {
    return this.cluster.api;
  }
  get pods(): PodFollower {
    if (!this.#pods) throw new Error('the cluster has not been started');
    return this.#pods;
  }

  /** Returns the path of a core resource, or of `group/version/resource`, in the namespace. */
  at(resource: string, namespace = this.namespace): string {
    const [version, name] = resource.includes('/')
      ? [resource.slice(0, resource.lastIndexOf('/')), resource.split('/').at(-1)]
      : ['', resource];
    return `${version === '' ? '/api/v1' : `/apis/${version}`}/namespaces/${namespace}/${name}`;
  }
  name(word: string): string {
    return `${word}-${++this.#numbers}`;
  }
  /** Creates an object; deletes one that an earlier attempt left. */
  create<T extends Item = Item>(path: string, body: Spec & { readonly metadata: Spec & { readonly name: string } }): Promise<T> {
    return this.api.renew<T>(path, body);
  }
  merge<T = Item>(path: string, body: object, type = 'merge-patch'): Promise<T> {
    return this.api.json<T>('PATCH', path, { body, headers: { 'content-type': `application/${type}+json` } });
  }
  async remove(path: string, body: object = {}): Promise<void> {
    await this.api.json('DELETE', path, { body });
  }
  k(...args: string[]): Promise<string> {
    return this.cluster.kubectl.run(['-n', this.namespace, ...args]);
  }

  /** A busybox container that runs a script, or what `more` specifies. */
  container(script: string, more: Spec = {}): Spec {
    return { name: 'main', image: busyboxImage, imagePullPolicy: 'IfNotPresent', command: ['sh', '-c', script], ...more };
  }

  /** Creates a pod; `spec` may be a script for its only container. */
  async pod(spec: Spec | string, metadata: Spec = {}): Promise<FullPod> {
    const full = typeof spec === 'string' ? { containers: [this.container(spec)] } : spec;
    return this.create<FullPod>(this.at('pods'), {
      metadata: { name: this.name('pod'), ...metadata },
      spec: { restartPolicy: 'Never', terminationGracePeriodSeconds: 1, ...full },
    });
  }

  async log(name: string, query = ''): Promise<string> {
    const { status, body } = await this.api.call('GET', `${this.at('pods')}/${name}/log${query}`);
    if (status !== 200) throw new ApiError('GET', `log of ${name}`, status, body);
    return body;
  }

  /** Runs a pod to completion and forgets it. @throws Error if it fails, unless that is expected */
  async run(
    spec: Spec | string,
    { metadata = {}, fails = false }: { readonly metadata?: Spec; readonly fails?: boolean } = {},
  ): Promise<Ended> {
    const { metadata: metadataOf } = await this.pod(spec, metadata);
    const pod = await this.pods.until(metadataOf.name, 'end', ({ status }) => status.phase === 'Succeeded' || status.phase === 'Failed');
    const first = pod.spec.containers[0]?.name ?? '';
    const log = await this.log(metadataOf.name, `?container=${first}`);
    if ((pod.status.phase === 'Failed') !== fails)
      throw new Error(`${metadataOf.name} ${pod.status.phase}: ${JSON.stringify(pod.status)}\n${log}`);
    this.forget(metadataOf.name);
    return { pod, log };
  }

  /** Returns the output of a pod's script if it succeeds. */
  async outputOf(spec: Spec | string): Promise<string> {
    return (await this.run(spec)).log;
  }

  running(name: string): Promise<FullPod> {
    return this.pods.until(name, 'run', ({ status }) => status.phase === 'Running');
  }
  ready(name: string): Promise<FullPod> {
    return this.pods.until(
      name,
      'be ready',
      ({ status }) => status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true,
    );
  }
  /** Creates a pod and waits until it runs. */
  async start(spec: Spec | string, metadata: Spec = {}): Promise<FullPod> {
    return this.running((await this.pod(spec, metadata)).metadata.name);
  }
  async exec(name: string, ...command: string[]): Promise<string> {
    return this.k('exec', name, '-c', this.pods.get(name)?.spec.containers[0]?.name ?? 'main', '--', ...command);
  }
  /** Deletes a pod without waiting. */
  forget(name: string): void {
    void this.api.call('DELETE', `${this.at('pods')}/${name}?gracePeriodSeconds=0`).catch(() => undefined);
  }
  async gone(name: string): Promise<void> {
    await this.pods.untilGone(name);
  }
}
