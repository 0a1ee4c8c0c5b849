import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface PodRow {
  readonly cells: readonly (string | number)[];
  readonly object: { readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string; readonly uid: string } };
}

const columnDefinitions = ['Name', 'Ready', 'Status', 'Restarts', 'Age', 'IP', 'Node', 'Nominated Node', 'Readiness Gates'].map(
  (name, index) => ({
    name,
    type: 'string',
    format: '',
    description: name,
    priority: index < 5 ? 0 : 1,
  }),
);

/** The managed fields of a pod after its creation and its status, which are most of the bytes of a row. */
const managedFields = ['kube-controller-manager', 'kubelet'].map((manager) => ({
  manager,
  operation: 'Update',
  apiVersion: 'v1',
  time: '2026-01-01T00:00:00Z',
  fieldsType: 'FieldsV1',
  fieldsV1: Object.fromEntries(
    ['f:metadata', 'f:spec', 'f:status'].map((part) => [
      part,
      Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`f:field${index}OfTheObject`, { '.': {}, 'f:value': {} }])),
    ]),
  ),
}));

/** Events of one pod that is replaced: the new pod is created, scheduled, starts and is ready; the old one ends. */
const eventsPerReplacement = 6;

/**
 * An API server with discovery, and tables of pods of one Deployment that a rolling restart replaces. It measures a page alone: a real control plane of this
 * size would take the processor that the page is measured with.
 */
export class PodTableServer {
  readonly #server = createServer((request, response) => void this.#respond(request, response));
  readonly #pods: PodRow[] = [];
  readonly #watchers = new Set<ServerResponse>();
  #version = 1;
  #generation = 0;
  /** The replicas that were replaced, and the events that were sent. */
  replaced = 0;

  constructor(replicas: number) {
    for (let index = 0; index < replicas; index += 1) this.#pods.push(this.#pod(index, 'Running'));
    this.#pods.sort((a, b) => (a.object.metadata.name < b.object.metadata.name ? -1 : 1));
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get events(): number {
    return this.replaced * eventsPerReplacement;
  }

  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** Replaces the next pods of a rolling restart, and resolves when all watchers have accepted the events. */
  async replace(count: number): Promise<void> {
    const lines: string[] = [];
    for (let each = 0; each < count; each += 1) {
      const index = this.replaced % this.#pods.length;
      if (index === 0) this.#generation += 1;
      const old = this.#pods[index] as PodRow;
      const name = old.object.metadata.name;
      const next = (status: string) => this.#pod(index, status);
      const steps: [string, PodRow][] = [
        ['ADDED', next('Pending')],
        ['MODIFIED', next('ContainerCreating')],
        ['MODIFIED', { ...old, object: { metadata: { ...old.object.metadata, name, deletionTimestamp: '2026-01-01T00:00:00Z' } } }],
        ['MODIFIED', next('Running')],
        ['MODIFIED', next('Running')],
        ['DELETED', old],
      ];
      this.#pods[index] = steps[4]?.[1] as PodRow;
      for (const [type, row] of steps)
        lines.push(JSON.stringify({ type, object: { kind: 'Table', apiVersion: 'meta.k8s.io/v1', rows: [row] } }));
      this.replaced += 1;
    }
    const chunk = `${lines.join('\n')}\n`;
    await Promise.all([...this.#watchers].map((watcher) => watcher.write(chunk) || once(watcher, 'drain')));
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #pod(index: number, status: string): PodRow {
    this.#version += 1;
    const suffix = ((index * 2_654_435_761) % 2 ** 32).toString(36).padStart(7, '0').slice(0, 5);
    const name = `big-${(6_500_000_000 + this.#generation).toString(36)}-${suffix}${index}`;
    const ready = status === 'Running' ? '1/1' : '0/1';
    const metadata = {
      name,
      namespace: 'default',
      uid: `${this.#generation}-${index}-0000-4000-8000-000000000000`,
      resourceVersion: String(this.#version),
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: 'big', 'pod-template-hash': String(this.#generation) },
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'big', uid: 'big', controller: true }],
      managedFields,
    };
    return {
      cells: [name, ready, status, 0, '5m', `10.0.${index >> 8}.${index & 255}`, `node-${index % 1000}`, '<none>', '<none>'],
      object: { metadata },
    };
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://api');
    const send = (body: unknown, status = 200) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (pathname === '/version') return send({ gitVersion: 'v1.36.0' });
    if (pathname === '/api') return send({ items: [{ metadata: {}, versions: [{ version: 'v1', resources }] }] });
    if (pathname === '/apis') return send({ items: [] });
    if (pathname !== '/api/v1/pods') return send({ kind: 'Status', code: 404, message: 'not found' }, 404);
    if (searchParams.get('watch') !== null) {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.flushHeaders();
      this.#watchers.add(response);
      response.once('close', () => this.#watchers.delete(response));
      return;
    }
    const from = Number(searchParams.get('continue') ?? 0);
    const to = Math.min(this.#pods.length, from + Number(searchParams.get('limit') ?? this.#pods.length));
    const remaining = this.#pods.length - to;
    const more = remaining > 0 ? { continue: String(to), remainingItemCount: remaining } : {};
    send({
      kind: 'Table',
      metadata: { resourceVersion: String(this.#version), ...more },
      columnDefinitions,
      rows: this.#pods.slice(from, to),
    });
  }
}

const resources = [
  { resource: 'pods', responseKind: { kind: 'Pod' }, scope: 'Namespaced', verbs: ['list', 'watch', 'get'] },
  { resource: 'namespaces', responseKind: { kind: 'Namespace' }, scope: 'Cluster', verbs: ['list', 'watch'] },
];
