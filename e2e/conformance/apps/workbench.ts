import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect } from 'vitest';
import { ApiError, type Api, type Item } from '../../harness/api.ts';
import type { Cluster } from '../../harness/cluster.ts';
import type { Machine } from '../../harness/machine.ts';
import { patienceMs } from '../../harness/until.ts';

export type Fields = Readonly<Record<string, unknown>>;
export interface Thing extends Item {
  readonly metadata: Item['metadata'] & { readonly generation?: number; readonly finalizers?: readonly string[] };
  readonly spec?: Fields;
  readonly status?: Fields;
  readonly data?: Fields;
  readonly revision?: number;
}
interface List {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly Thing[];
}

const kinds = {
  pods: ['v1', 'Pod'],
  replicationcontrollers: ['v1', 'ReplicationController'],
  resourcequotas: ['v1', 'ResourceQuota'],
  events: ['v1', 'Event'],
  deployments: ['apps/v1', 'Deployment'],
  replicasets: ['apps/v1', 'ReplicaSet'],
  statefulsets: ['apps/v1', 'StatefulSet'],
  daemonsets: ['apps/v1', 'DaemonSet'],
  controllerrevisions: ['apps/v1', 'ControllerRevision'],
  jobs: ['batch/v1', 'Job'],
  cronjobs: ['batch/v1', 'CronJob'],
  poddisruptionbudgets: ['policy/v1', 'PodDisruptionBudget'],
} as const;
export type Plural = keyof typeof kinds;
const patches = {
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  json: 'application/json-patch+json',
} as const;

const rootOf = (plural: Plural): string => (kinds[plural][0] === 'v1' ? '/api/v1' : `/apis/${kinds[plural][0]}`);

/** Returns whether an object contains everything in the pattern; lists are compared as a whole. */
export function has(pattern: unknown): (value: unknown) => boolean {
  return (value) => {
    if (typeof pattern !== 'object' || pattern === null) return pattern === value || (pattern === undefined && value === null);
    if (Array.isArray(pattern))
      return Array.isArray(value) && value.length === pattern.length && pattern.every((each, at) => has(each)(value[at]));
    return (
      typeof value === 'object' &&
      value !== null &&
      Object.entries(pattern).every(([key, each]) => has(each)((value as Record<string, unknown>)[key]))
    );
  };
}
export const condition = ({ status }: Thing, type: string): Fields | undefined =>
  ((status?.['conditions'] as readonly Fields[] | undefined) ?? []).find((each) => each['type'] === type);
export const isTrue = (thing: Thing, type: string): boolean => condition(thing, type)?.['status'] === 'True';
export const ready = (pod: Thing): boolean => isTrue(pod, 'Ready') && pod.metadata.deletionTimestamp === undefined;
export const named =
  (name: string) =>
  ({ metadata }: Thing): boolean =>
    metadata.name === name;

/** A namespace for one behavior. */
export class Space {
  readonly name: string;
  readonly api: Api;

  constructor(api: Api, name: string) {
    this.api = api;
    this.name = name;
  }

  path(plural: Plural, name?: string, subresource?: string): string {
    const parts = [rootOf(plural), 'namespaces', this.name, plural, name, subresource];
    return parts.filter((part) => part !== undefined).join('/');
  }
  async create(plural: Plural, name: string, parts: object, metadata: object = {}): Promise<Thing> {
    const [apiVersion, kind] = kinds[plural];
    return this.api.json('POST', this.path(plural), { body: { apiVersion, kind, metadata: { name, ...metadata }, ...parts } });
  }
  get(plural: Plural, name: string, subresource?: string): Promise<Thing> {
    return this.api.get(this.path(plural, name, subresource));
  }
  list(plural: Plural, selector = ''): Promise<List> {
    return this.api.get(`${this.path(plural)}?labelSelector=${encodeURIComponent(selector)}`);
  }
  everywhere(plural: Plural, selector: string): Promise<List> {
    return this.api.get(`${rootOf(plural)}/${plural}?labelSelector=${encodeURIComponent(selector)}`);
  }
  patch(
    plural: Plural,
    name: string,
    body: unknown,
    { type = 'merge', subresource }: { readonly type?: keyof typeof patches; readonly subresource?: string } = {},
  ): Promise<Thing> {
    return this.api.json('PATCH', this.path(plural, name, subresource), { body, headers: { 'content-type': patches[type] } });
  }
  /** Reads, changes and writes an object, and retries after a conflict with a controller. */
  async update(plural: Plural, name: string, change: (thing: Thing) => object, subresource?: string): Promise<Thing> {
    for (;;) {
      const thing = await this.get(plural, name, subresource);
      try {
        return await this.api.json('PUT', this.path(plural, name, subresource), { body: { ...thing, ...change(thing) } });
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      }
    }
  }
  async remove(plural: Plural, name: string, options: object = {}): Promise<void> {
    await this.api.json('DELETE', this.path(plural, name), { body: { kind: 'DeleteOptions', apiVersion: 'v1', ...options } });
  }
  async removeAll(plural: Plural, selector: string): Promise<void> {
    await this.api.json('DELETE', `${this.path(plural)}?labelSelector=${encodeURIComponent(selector)}`);
  }
  evict(pod: string): Promise<{ readonly status: number; readonly body: string }> {
    const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace: this.name, name: pod } };
    return this.api.call('POST', this.path('pods', pod, 'eviction'), { body });
  }

  until(plural: Plural, what: string, wanted: (items: readonly Thing[]) => boolean): Promise<readonly Thing[]> {
    return this.api.until<Thing>(`${what} in ${this.name}`, this.path(plural), wanted);
  }
  /** Waits until one object matches the pattern. */
  async untilHas(plural: Plural, name: string, pattern: unknown): Promise<Thing> {
    const like = has(pattern);
    const items = await this.until(plural, `${name} with ${JSON.stringify(pattern)}`, (all) =>
      all.some((each) => named(name)(each) && like(each)),
    );
    return items.find(named(name)) as Thing;
  }
  async untilTrue(plural: Plural, name: string, type: string): Promise<Thing> {
    const items = await this.until(plural, `${name} is ${type}`, (all) => all.some((each) => named(name)(each) && isTrue(each, type)));
    return items.find(named(name)) as Thing;
  }
  untilReady(count: number): Promise<readonly Thing[]> {
    return this.until('pods', `${count} ready pods`, (pods) => pods.filter(ready).length === count);
  }
  untilNone(plural: Plural): Promise<readonly Thing[]> {
    return this.until(plural, `no ${plural}`, (all) => all.length === 0);
  }

  /** Asserts that a watch reports the changes: collects the types of events until `wanted` are complete. */
  async watching(plural: Plural, action: () => Promise<unknown>, wanted: (type: string, thing: Thing) => boolean): Promise<void> {
    const { metadata } = await this.list(plural);
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), patienceMs);
    const seen = (async () => {
      for await (const { type, object } of this.api.watch<Thing>(this.path(plural), metadata.resourceVersion, stop.signal))
        if (wanted(type, object)) return true;
      return false;
    })();
    try {
      await action();
      expect(await seen, `a watch of ${plural} did not report the changes`).toBe(true);
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }

  /** Reads, updates and patches the scale subresource. */
  async scales(plural: Plural, name: string, from: number): Promise<void> {
    expect((await this.get(plural, name, 'scale')).spec).toMatchObject({ replicas: from });
    await this.update(plural, name, () => ({ spec: { replicas: from + 1 } }), 'scale');
    expect((await this.get(plural, name)).spec).toMatchObject({ replicas: from + 1 });
    await this.patch(plural, name, { spec: { replicas: from + 2 } }, { subresource: 'scale' });
    expect((await this.get(plural, name)).spec).toMatchObject({ replicas: from + 2 });
    await this.untilReady(from + 2);
  }

  /** Reads, updates and patches the status subresource: a watch reports each change, and the spec stays the same. */
  async hasStatus(plural: Plural, name: string): Promise<void> {
    const { spec, status } = await this.get(plural, name, 'status');
    expect(status).toBeDefined();
    const own = { type: 'StatusUpdate', status: 'True', reason: 'E2E', message: 'Set from e2e test' };
    const conditionsOf = (thing: Thing) => (thing.status?.['conditions'] as readonly Fields[] | undefined) ?? [];
    await this.watching(
      plural,
      () => this.update(plural, name, (thing) => ({ status: { ...thing.status, conditions: [...conditionsOf(thing), own] } }), 'status'),
      (type, thing) =>
        type === 'MODIFIED' && named(name)(thing) && has({ status: 'True', reason: 'E2E' })(condition(thing, 'StatusUpdate')),
    );
    await this.watching(
      plural,
      () => this.patch(plural, name, { status: { conditions: [{ ...own, type: 'StatusPatched' }] } }, { subresource: 'status' }),
      (type, thing) => type === 'MODIFIED' && named(name)(thing) && isTrue(thing, 'StatusPatched'),
    );
    expect((await this.get(plural, name)).spec).toEqual(spec);
  }
}

export interface Workbench {
  space(): Promise<Space>;
}

/** An API server in one process; controllers, scheduler and the kubelet of four simulated nodes in another, which connects with a kubeconfig. */
export function workbench(machine: Machine): Workbench {
  let server: Cluster;
  let count = 0;
  beforeAll(async () => {
    server = await machine.cluster({ spec: { roles: ['apiserver'], storage: 'storage-memory' } });
    const managers = await machine.prepare({
      spec: {
        roles: ['controllers', 'scheduler', 'kubelet'],
        runtimes: ['runtime-simulated'],
        settings: { kubelet: { nodeName: 'node', count: 4, port: 0 } },
      },
      args: ['--kubeconfig', server.kubeconfig],
    });
    // as in the pki directory of a control plane machine
    await mkdir(managers.dataDir, { recursive: true });
    await cp(join(server.dataDir, 'pki'), join(managers.dataDir, 'pki'), { recursive: true });
    const daemon = managers.launch();
    await daemon.line(/ is ready at /);
    await server.api.until(
      'four nodes',
      '/api/v1/nodes',
      (nodes) => (nodes as readonly Thing[]).filter((node) => isTrue(node, 'Ready')).length === 4,
    );
  });
  return {
    async space() {
      const name = `apps-${++count}`;
      await server.api.json('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } } });
      // pods are rejected until their service account exists
      await server.api.until('the default account', `/api/v1/namespaces/${name}/serviceaccounts`, (all) => all.length > 0);
      return new Space(server.api, name);
    },
  };
}

export const labels = { app: 'test' };
export const selector = { matchLabels: labels };
export const container = (image = 'web:1', more: object = {}) => ({ name: 'c', image, ...more });
/** A template of pods that run until they are stopped. */
export const template = (image?: string, spec: object = {}, annotations: Readonly<Record<string, string>> = {}) => ({
  metadata: { labels, annotations },
  spec: { containers: [container(image)], terminationGracePeriodSeconds: 1, ...spec },
});
export const newImage = (image: string) => ({ spec: { template: { spec: { containers: [container(image)] } } } });
export const imageOf = ({ spec }: Thing): unknown => (spec?.['containers'] as readonly Fields[] | undefined)?.[0]?.['image'];
