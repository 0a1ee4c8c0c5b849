import { generateKeyPairSync } from 'node:crypto';
import type { KubeObject } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { kindOfResource } from '@oarlock/api/kinds';
import { StatusError } from '@oarlock/api/status';
import { sleepWith, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { AdmissionPlugin } from '@oarlock/spi/admission';
import type { Authenticator, Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import type { Tracer } from '@opentelemetry/api';
import { Pipeline } from '../../src/pipeline/pipeline.ts';
import { randomFrom, type RandomSource } from '../../src/registry/random.ts';
import type { RuntimeConfig } from '../../src/pipeline/runtime-config.ts';
import type { Component } from '../../src/endpoints/handlers/subresources/component-statuses.ts';
import type { PipelineResponse, WatchFrame } from '../../src/endpoints/request/response.ts';

export const admin: Identity = { name: 'admin', groups: ['system:masters', 'system:authenticated'] };

/** A clock that a test advances. */
export class TestClock implements Clock {
  #now = Date.UTC(2026, 0, 1);
  #elapsed = 0;
  readonly #timers = new Set<{ readonly at: number; readonly fire: () => void }>();
  now(): number {
    return this.#now + this.#elapsed;
  }
  monotonic(): number {
    return this.#elapsed;
  }
  after(ms: number, fire: () => void) {
    const timer = { at: this.#elapsed + ms, fire };
    this.#timers.add(timer);
    return {
      cancel: () => {
        this.#timers.delete(timer);
      },
    };
  }
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepWith(this, ms, signal);
  }
  async advance(ms: number): Promise<void> {
    const until = this.#elapsed + ms;
    for (;;) {
      await settlePromises();
      const [next] = [...this.#timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#elapsed = Math.max(this.#elapsed, next.at);
      next.fire();
    }
    this.#elapsed = until;
    await settlePromises();
  }
}

/** Waits some event loop turns, in which all pending promises settle. */
export async function settlePromises(): Promise<void> {
  for (let i = 0; i < 5; i++)
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
}

export const facts: ClusterFacts = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/24'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://192.0.2.1:6443',
  nodePortRange: { from: 30000, to: 32767 },
  version: 'v1.36.0+oarlock.test',
};

export function testKeys(type: 'ec' | 'rsa' = 'ec'): ClusterKeys {
  const pair = type === 'ec' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('rsa', { modulusLength: 2048 });
  return {
    caBundle: '',
    issue: () => Promise.reject(new Error('no CA here')),
    sign: () => Promise.reject(new Error('no CA here')),
    serviceAccount: {
      issuer: 'https://kubernetes.default.svc.cluster.local',
      signingKey: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      verifyingKeys: [pair.publicKey.export({ type: 'spki', format: 'pem' }).toString()],
    },
  };
}

export const allowAll: Authorizer = { authorize: () => ({ decision: 'allow', reason: 'test' }) };

export function seededRandom(seed = 1): RandomSource {
  let state = seed;
  return randomFrom(() => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  });
}

export interface ServerOptions {
  readonly storage?: StorageDriver;
  readonly clock?: TestClock;
  readonly authz?: readonly Authorizer[];
  readonly authn?: readonly Authenticator[];
  readonly admission?: readonly AdmissionPlugin[];
  readonly keys?: ClusterKeys;
  readonly facts?: Partial<ClusterFacts>;
  readonly tracer?: Tracer;
  readonly log?: Logger;
  readonly random?: RandomSource;
  readonly names?: { readonly authz?: readonly string[]; readonly admission?: readonly string[] };
  readonly components?: () => readonly Component[];
  readonly runtimeConfig?: RuntimeConfig;
  readonly stale?: (value: Uint8Array) => boolean;
}

type Options = Partial<Omit<ApiRequest, 'resource' | 'verb'>>;

/** A pipeline over memory storage, and short methods to call it as the administrator. */
export class TestServer {
  readonly clock: TestClock;
  readonly storage: StorageDriver;
  readonly pipeline: Pipeline;
  readonly keys: ClusterKeys;

  constructor({
    storage,
    clock = new TestClock(),
    authz = [allowAll],
    authn = [],
    admission = [],
    keys = testKeys(),
    facts: more = {},
    tracer,
    log = silentLogger,
    random = seededRandom(),
    names,
    components,
    runtimeConfig,
    stale,
  }: ServerOptions = {}) {
    this.clock = clock;
    this.storage = storage ?? new MemoryStorage({ clock });
    this.keys = keys;
    this.pipeline = new Pipeline({
      storage: this.storage,
      authz,
      authn,
      admission,
      clusterFacts: { ...facts, ...more },
      clusterKeys: keys,
      clock,
      log,
      random,
      ...(tracer && { tracer }),
      ...(names && { names }),
      ...(components && { components }),
      ...(runtimeConfig && { runtimeConfig }),
      ...(stale && { isStale: stale }),
    });
  }

  static async start(options: ServerOptions = {}): Promise<TestServer> {
    const server = new TestServer(options);
    await server.pipeline.start(new AbortController().signal);
    return server;
  }

  stop(): Promise<void> {
    return this.pipeline.stop();
  }

  async handle(verb: ApiRequest['verb'], of: Resource | string, options: Options = {}): Promise<PipelineResponse> {
    return this.pipeline.handle({
      verb,
      resource: typeof of === 'string' ? resourceNamed(of) : of,
      subresource: '',
      namespace: '',
      name: '',
      query: {},
      identity: admin,
      ...options,
    });
  }

  async object<T extends KubeObject = KubeObject>(verb: ApiRequest['verb'], of: Resource | string, options: Options = {}): Promise<T> {
    const response = await this.handle(verb, of, options);
    if (response.kind !== 'object') throw new Error(`a ${response.kind} is not an object`);
    return response.item.object as T;
  }

  create<T extends KubeObject = KubeObject>(of: Resource | string, body: KubeObject, options: Options = {}): Promise<T> {
    return this.object('create', of, { namespace: namespaceFor(of, body), body, ...options });
  }
  update<T extends KubeObject = KubeObject>(of: Resource | string, body: KubeObject, options: Options = {}): Promise<T> {
    return this.object('update', of, { namespace: namespaceFor(of, body), name: body.metadata?.name ?? '', body, ...options });
  }
  get<T extends KubeObject = KubeObject>(of: Resource | string, name: string, options: Options = {}): Promise<T> {
    return this.object('get', of, { namespace: namespaceFor(of), name, ...options });
  }
  patch<T extends KubeObject = KubeObject>(of: Resource | string, name: string, body: unknown, options: Options = {}): Promise<T> {
    return this.object('patch', of, { namespace: namespaceFor(of), name, body, patchType: 'merge', ...options });
  }
  remove<T extends KubeObject = KubeObject>(of: Resource | string, name: string, options: Options = {}): Promise<T> {
    return this.object('delete', of, { namespace: namespaceFor(of), name, ...options });
  }
  async list(of: Resource | string, query: Record<string, string> = {}, options: Options = {}) {
    const response = await this.handle('list', of, { query, ...options });
    if (response.kind !== 'list') throw new Error(`a ${response.kind} is not a list`);
    return { ...response, names: response.items.map(({ object }) => object.metadata?.name ?? '') };
  }
  async watch(of: Resource | string, query: Record<string, string> = {}, options: Options = {}): Promise<Watching> {
    const response = await this.handle('watch', of, { query, ...options });
    if (response.kind !== 'watch') throw new Error(`a ${response.kind} is not a watch`);
    return new Watching(response.frames);
  }
}

/** Reads a watch frame by frame. */
export class Watching {
  readonly #source: AsyncIterator<readonly WatchFrame[]>;
  readonly #seen: WatchFrame[] = [];
  constructor(frames: AsyncIterable<readonly WatchFrame[]>) {
    this.#source = frames[Symbol.asyncIterator]();
  }

  /** Returns the next frame; undefined after the watch ended. */
  async next(): Promise<WatchFrame | undefined> {
    while (this.#seen.length === 0) {
      const { done, value } = await this.#source.next();
      if (done === true) return undefined;
      this.#seen.push(...value);
    }
    return this.#seen.shift();
  }
  async take(count: number): Promise<string[]> {
    const seen: string[] = [];
    while (seen.length < count) {
      const frame = await this.next();
      if (frame === undefined) break;
      seen.push(brief(frame));
    }
    return seen;
  }
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}

export const brief = ({ type, item }: WatchFrame) => `${type} ${item.object.metadata?.name ?? ''}`.trim();

export function resourceNamed(name: string): Resource {
  const [plural = '', ...group] = name.split('.');
  for (const version of ['v1', 'v2']) {
    const kind = kindOfResource({ group: group.join('.'), version, resource: plural });
    if (kind !== undefined) return resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
  }
  throw new Error(`no kind ${name}`);
}

function namespaceFor(of: Resource | string, body?: KubeObject): string {
  const { namespaced } = typeof of === 'string' ? resourceNamed(of) : of;
  return namespaced ? (body?.metadata?.namespace ?? 'default') : '';
}

/** Returns the error with which a call is rejected. */
export async function rejectionOf(call: Promise<unknown>): Promise<StatusError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof StatusError) return error;
    throw error;
  }
  throw new Error('the call was not rejected');
}

export const configMap = (name: string, data: Record<string, string> = {}, more: KubeObject['metadata'] = {}): KubeObject => ({
  kind: 'ConfigMap',
  apiVersion: 'v1',
  metadata: { name, ...more },
  ...{ data },
});
export const pod = (name: string, spec: Record<string, unknown> = {}, more: KubeObject['metadata'] = {}): KubeObject => ({
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name, ...more },
  ...{ spec: { containers: [{ name: 'main', image: 'busybox' }], ...spec } },
});
