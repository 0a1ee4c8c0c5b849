import { setTimeout as delay } from 'node:timers/promises';
import { Api, type Answer, type Item } from '../../harness/api.ts';
import { until, untilValue } from '../../harness/until.ts';
import type { History, ListRecord, Operation, OperationInput, OperationOutput, WatchRecord } from '../checker/history.ts';

interface ConfigMapItem extends Item {
  readonly data?: Readonly<Record<string, string>>;
}
interface ConfigMapItems {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly ConfigMapItem[];
}
type WatchEvent = { readonly type: string; readonly object: ConfigMapItem & { readonly code?: number } };

const requestTimeoutMs = 5000;
/** Errors that certainly precede the request: the server has not received it. */
const neverSent = /ECONNREFUSED|EHOSTUNREACH|ENETUNREACH/;
/** Pauses of writers and lists, in milliseconds: enough requests for concurrency, few enough for a busy machine. */
const writerPauseMs = 15;
const listPauseMs = 300;
const retryPauseMs = 50;
/** The number of objects that the writers use at a time. */
const keysAtOnce = 6;
/** The default number of acknowledged writes between two faults or steps. */
export const writesBetween = 20;

/** Returns true for the objects of the writers; controllers create the ConfigMap kube-root-ca.crt in every namespace. */
const isOwn = ({ metadata }: ConfigMapItem) => metadata.name !== 'kube-root-ca.crt';
const revisionOf = ({ metadata }: { readonly metadata: { readonly resourceVersion?: string } }) => Number(metadata.resourceVersion);
const valueOf = ({ data }: ConfigMapItem) => data?.['value'] ?? '';

/**
 * Writes, reads, lists and watches ConfigMaps through several servers and records what each client saw. Each worker has connections of its own to
 * every server and picks one at random for each request.
 */
export class HistoryRecorder {
  readonly #kubeconfigs: readonly string[];
  readonly #path: string;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  readonly #operations: Operation[] = [];
  readonly #lists: ListRecord[] = [];
  readonly #watches: { readonly watcher: string; readonly records: WatchRecord[] }[] = [];
  readonly #workers: Promise<void>[] = [];
  readonly #watchers: Promise<void>[] = [];
  readonly #stopWatching = new AbortController();
  #keys: readonly string[] = [];
  #keySets = 0;
  #values = 0;
  #relists = 0;
  /** Number of acknowledged writes so far. */
  acknowledged = 0;

  constructor(kubeconfigs: readonly string[], { namespace, random }: { readonly namespace: string; readonly random: () => number }) {
    this.#kubeconfigs = kubeconfigs;
    this.#path = `/api/v1/namespaces/${namespace}/configmaps`;
    this.#random = random;
  }

  /** Number of watches that had to list again, as after a restart of their server. */
  get relists(): number {
    return this.#relists;
  }

  /** Uses new objects from now on: the histories of the previous ones stay short enough to check. */
  #useNewKeys(): void {
    this.#keySets += 1;
    this.#keys = Array.from({ length: keysAtOnce }, (_, index) => `k${this.#keySets}-${index}`);
  }

  /**
   * Uses new objects and waits until more writes are acknowledged, which shows that the cluster works. `what` is the state of the cluster, such as `after a
   * restart`.
   */
  async untilWritten(what: string, writes = writesBetween): Promise<void> {
    this.#useNewKeys();
    const before = this.acknowledged;
    await untilValue(
      `writes are acknowledged ${what}`,
      () => this.acknowledged,
      (count) => count > before + writes,
    );
  }

  /** Starts the watchers, then the writers, so that the watchers receive every write. */
  async start(writers: number): Promise<void> {
    this.#useNewKeys();
    // watchers of one server each, and two that move
    for (const [index] of this.#kubeconfigs.entries()) this.#watchers.push(this.#watch(`server-${index}`, () => index));
    for (const name of ['moving-a', 'moving-b']) this.#watchers.push(this.#watch(name, () => this.#anyServer()));
    await until('every watcher watches', () => this.#watches.every(({ records }) => records.length > 0));
    for (let client = 0; client < writers; client += 1) this.#workers.push(this.#write(client));
    this.#workers.push(this.#listRepeatedly());
  }

  /** Stops the writers, waits until every watcher and the store's own watch, if it has one, have received the last write, and returns the history. */
  async finish(etcd?: { readonly records: readonly WatchRecord[] }): Promise<History> {
    this.#stop.abort();
    await Promise.all(this.#workers);
    const api = await this.#apis();
    const last = await until('the last write is acknowledged', async () => {
      const [any] = api;
      const name = `last-${(this.#values += 1)}`;
      const answer = await any?.call('POST', this.#path, { body: configMap(name, name), timeoutMs: requestTimeoutMs });
      return answer?.status === 201 && { name, revision: revisionOf(JSON.parse(answer.body) as ConfigMapItems) };
    });
    // a watcher that had to list again may have received the write in its list
    await until('every watcher has received the last write', () =>
      [...(etcd ? [etcd] : []), ...this.#watches].every(({ records }) =>
        records.some((record) =>
          'key' in record ? record.key === last.name : record.type === 'request' && record.revision >= last.revision,
        ),
      ),
    );
    for (const each of api) await this.#list(each);
    for (const each of api) each.close();
    this.#stopWatching.abort();
    await Promise.all(this.#watchers);
    return {
      operations: this.#operations,
      watches: [...(etcd ? [{ watcher: 'etcd', records: etcd.records }] : []), ...this.#watches],
      lists: this.#lists,
    };
  }

  #anyServer(): number {
    return Math.floor(this.#random() * this.#kubeconfigs.length);
  }
  #apis(): Promise<readonly Api[]> {
    return Promise.all(this.#kubeconfigs.map((kubeconfig) => Api.of(kubeconfig)));
  }

  async #write(client: number): Promise<void> {
    const apis = await this.#apis();
    const known = new Map<string, number>();
    while (!this.#stop.signal.aborted) {
      const api = apis[this.#anyServer()];
      const key = this.#keys[Math.floor(this.#random() * this.#keys.length)];
      if (api !== undefined && key !== undefined) await this.#request(api, { client, key, input: this.#nextInput(known.get(key)) }, known);
      await delay(writerPauseMs * this.#random());
    }
    for (const api of apis) api.close();
  }

  #nextInput(revision: number | undefined): OperationInput {
    const choice = this.#random();
    if (choice < 0.35) return { verb: 'get' };
    this.#values += 1;
    const value = `v${this.#values}`;
    if (revision === undefined) return choice < 0.8 ? { verb: 'create', value } : { verb: 'get' };
    if (choice < 0.85) return { verb: 'update', value, ifRevision: revision };
    return choice < 0.95 ? { verb: 'delete', ifRevision: revision } : { verb: 'create', value };
  }

  /** Sends a request and records it, unless it certainly had no effect and no result. */
  async #request(api: Api, { client, key, input }: Pick<Operation, 'client' | 'key' | 'input'>, known: Map<string, number>): Promise<void> {
    const calledAt = performance.now();
    let output: OperationOutput | undefined;
    try {
      output = outputOf(input, await send(api, this.#path, key, input));
    } catch (error) {
      output = neverSent.test(String(error)) ? undefined : { result: 'unknown' };
    }
    if (output === undefined || (output.result === 'unknown' && input.verb === 'get')) {
      await delay(retryPauseMs);
      return;
    }
    const returnedAt = output.result === 'unknown' ? Number.POSITIVE_INFINITY : performance.now();
    this.#operations.push({ client, key, calledAt, returnedAt, input, output });
    if (output.result === 'ok' && input.verb !== 'get') this.acknowledged += 1;
    if (output.result === 'ok' && output.revision !== undefined) known.set(key, output.revision);
    else if (output.result !== 'unknown') known.delete(key);
  }

  async #listRepeatedly(): Promise<void> {
    const apis = await this.#apis();
    while (!this.#stop.signal.aborted) {
      const api = apis[this.#anyServer()];
      try {
        if (api !== undefined) await this.#list(api);
      } catch {
        // a server that is down: a list without an answer proves nothing
      }
      await delay(listPauseMs * this.#random());
    }
    for (const api of apis) api.close();
  }

  /** Lists, records the answer and returns its revision. */
  async #list(api: Api): Promise<number> {
    const calledAt = performance.now();
    const list = await api.json<ConfigMapItems>('GET', this.#path, { timeoutMs: requestTimeoutMs });
    const items = new Map(
      list.items.filter(isOwn).map((item) => [item.metadata.name, { revision: revisionOf(item), value: valueOf(item) }]),
    );
    const revision = revisionOf(list);
    this.#lists.push({ calledAt, revision, items });
    return revision;
  }

  async #watch(watcher: string, server: () => number): Promise<void> {
    const records: WatchRecord[] = [];
    this.#watches.push({ watcher, records });
    const { signal } = this.#stopWatching;
    let revision: number | undefined;
    while (!signal.aborted) {
      const api = await Api.of(this.#kubeconfigs[server()] ?? '');
      try {
        if (revision === undefined) {
          revision = await this.#list(api);
          this.#relists += 1;
        }
        records.push({ type: 'request', revision });
        for await (const event of api.watch<WatchEvent['object']>(this.#path, String(revision), signal)) {
          if (event.type === 'ERROR') {
            if (event.object.code === 410) revision = undefined;
            break;
          }
          revision = revisionOf(event.object);
          if (event.type === 'BOOKMARK' || isOwn(event.object)) records.push(recordOf(event, revision));
        }
      } catch (error) {
        if (String(error).includes('answered 410')) revision = undefined;
        if (!signal.aborted) await delay(retryPauseMs);
      } finally {
        api.close();
      }
    }
  }
}

function recordOf({ type, object }: WatchEvent, revision: number): WatchRecord {
  if (type === 'BOOKMARK') return { type, revision };
  if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED') throw new Error(`an unknown event: ${type}`);
  return { type, revision, key: object.metadata.name, value: valueOf(object) };
}

const configMap = (name: string, value: string, resourceVersion?: number) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...(resourceVersion !== undefined && { resourceVersion: String(resourceVersion) }) },
  data: { value },
});

function send(api: Api, path: string, key: string, input: OperationInput): Promise<Answer> {
  const timeoutMs = requestTimeoutMs;
  switch (input.verb) {
    case 'get':
      return api.call('GET', `${path}/${key}`, { timeoutMs });
    case 'create':
      return api.call('POST', path, { timeoutMs, body: configMap(key, input.value) });
    case 'update':
      return api.call('PUT', `${path}/${key}`, { timeoutMs, body: configMap(key, input.value, input.ifRevision) });
    case 'delete': {
      const preconditions = input.ifRevision === undefined ? {} : { resourceVersion: String(input.ifRevision) };
      return api.call('DELETE', `${path}/${key}`, { timeoutMs, body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions } });
    }
  }
}

/** Returns the output of an answer; undefined if the server has certainly not processed the request. */
function outputOf({ verb }: OperationInput, { status, body }: Answer): OperationOutput | undefined {
  if (status === 429) return undefined;
  if (status >= 500) return { result: 'unknown' };
  if (status === 404) return { result: 'not-found' };
  if (status === 409) return { result: verb === 'create' ? 'exists' : 'conflict' };
  if (status !== 200 && status !== 201) throw new Error(`${verb}: status ${status}: ${body}`);
  if (verb === 'delete') return { result: 'ok' };
  const item = JSON.parse(body) as ConfigMapItem;
  return { result: 'ok', revision: revisionOf(item), value: valueOf(item) };
}
