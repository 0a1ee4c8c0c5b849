import { watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Timer } from '@oarlock/kernel/clock';
import type { KubeletContext } from '../node-context.ts';
import type { FoundPod, NodePods } from '../node/node-pods.ts';
import { isDeleted, podUid } from '../pods.ts';
import { configHash, configMirror } from './annotations.ts';
import { fetchManifests, readManifests, type Manifest } from './manifests.ts';

export interface StaticPodsOptions {
  readonly context: KubeletContext;
  readonly nodeName: string;
  readonly pods: NodePods;
  /** A directory of manifests, or one file; looked at when something in it changes, and this often anyway. */
  readonly path: string | undefined;
  readonly url: string | undefined;
  readonly urlHeaders: Readonly<Record<string, string>>;
  /** Milliseconds. */
  readonly everyMs: number;
  /** What the runtime has of a pod since before this kubelet began. */
  found(uid: string): FoundPod | undefined;
  /** The node's object; undefined until it is registered. */
  node(): Node | undefined;
}

interface Static {
  readonly manifest: Manifest;
  mirror: Pod | undefined;
  backoff: Backoff | undefined;
  creating: boolean;
}
const keyOf = ({ metadata }: Pod) => `${metadata?.namespace}/${metadata?.name}`;

/**
 * Runs the pods of a directory or a URL, with and without an API server, and shows each in the API as a mirror: an object that others can
 * look at, and that nobody but the manifest's author can change. A changed manifest is another pod: it begins when the old one has gone.
 */
export class StaticPods {
  readonly #options: StaticPodsOptions;
  readonly #byKey = new Map<string, Static>();
  /** New pods whose name is still taken by one that is ending. */
  readonly #waiting = new Map<string, Manifest>();
  /** Mirrors that were seen before their pods were. */
  readonly #mirrors = new Map<string, Pod>();
  #last = new Map<'path' | 'url', readonly Manifest[]>();
  #watcher: FSWatcher | undefined;
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #again = false;
  #synced = false;

  constructor(options: StaticPodsOptions) {
    this.#options = options;
  }

  /** Begins: resolves when what is there was read once. */
  async start(): Promise<void> {
    const { path, context } = this.#options;
    this.#options.pods.onGone((key) => this.#freed(key));
    await this.#look();
    if (path !== undefined) {
      try {
        this.#watcher = watch(path, { persistent: false }, () => void this.#look());
        this.#watcher.on('error', (error) => context.log.warn({ err: error, path }, 'static pods are looked for from time to time only'));
      } catch (error) {
        context.log.warn({ err: error, path, parent: dirname(path) }, 'static pods are looked for from time to time only');
      }
    }
    this.#arm();
  }

  stop(): void {
    this.#watcher?.close();
    this.#timer?.cancel();
  }

  /** All mirrors that the API has were seen: those without a pod go. */
  synced(): void {
    this.#synced = true;
    for (const mirror of this.#mirrors.values()) if (!this.#byKey.has(keyOf(mirror))) void this.#deleteMirror(mirror);
    for (const one of this.#byKey.values()) this.#reflect(one);
  }

  /** A mirror of this node, as the API has it. */
  mirror(pod: Pod): void {
    this.#mirrors.set(keyOf(pod), pod);
    const one = this.#byKey.get(keyOf(pod));
    if (one === undefined) {
      if (this.#synced) void this.#deleteMirror(pod);
      return;
    }
    one.mirror = pod;
    if (isDeleted(pod) || pod.metadata?.annotations?.[configMirror] !== one.manifest.hash) void this.#deleteMirror(pod);
    else this.#options.pods.mirrored(podUid(one.manifest.pod), pod);
  }

  mirrorGone(pod: Pod): void {
    this.#mirrors.delete(keyOf(pod));
    const one = this.#byKey.get(keyOf(pod));
    if (one === undefined || podUid(one.mirror ?? {}) !== podUid(pod)) return;
    one.mirror = undefined;
    this.#options.pods.mirrored(podUid(one.manifest.pod), undefined);
    this.#reflect(one);
  }

  #arm(): void {
    const { context, everyMs } = this.#options;
    this.#timer = context.clock.after(everyMs, () => {
      if (context.signal.aborted) return;
      void this.#look().finally(() => this.#arm());
    });
  }

  /** One look at a time; what changes meanwhile leads to another. */
  #look(): Promise<void> {
    if (this.#looking) {
      this.#again = true;
      return this.#looking;
    }
    this.#looking = this.#read().finally(() => {
      this.#looking = undefined;
      if (!this.#again) return;
      this.#again = false;
      void this.#look();
    });
    return this.#looking;
  }

  async #read(): Promise<void> {
    const { path, url, urlHeaders, nodeName, context } = this.#options;
    const { clock, log, signal } = context;
    const now = formatTime(clock.now());
    for (const [source, read] of [
      ['path', path === undefined ? undefined : () => readManifests(path, nodeName, now)],
      ['url', url === undefined ? undefined : () => fetchManifests(url, urlHeaders, nodeName, now, signal)],
    ] as const) {
      if (!read) continue;
      try {
        const { found, problems } = await read();
        for (const problem of problems) log.warn({ problem }, 'a static pod could not be read');
        this.#last.set(source, found);
      } catch (error) {
        // what was there last goes on
        if (!signal.aborted) log.warn({ err: error }, 'static pods could not be read');
      }
    }
    if (!signal.aborted) this.#take([...this.#last.values()].flat());
  }

  #take(manifests: readonly Manifest[]): void {
    const wanted = new Map(manifests.map((manifest) => [keyOf(manifest.pod), manifest]));
    for (const [key, { manifest }] of this.#byKey) {
      if (wanted.get(key)?.hash === manifest.hash) continue;
      this.#byKey.delete(key);
      this.#options.pods.deleted(manifest.pod, undefined);
    }
    for (const key of this.#waiting.keys()) if (!wanted.has(key)) this.#waiting.delete(key);
    for (const [key, manifest] of wanted) {
      if (this.#byKey.has(key)) continue;
      if (this.#options.pods.taken(key)) this.#waiting.set(key, manifest);
      else this.#run(key, manifest);
    }
  }

  #run(key: string, manifest: Manifest): void {
    const one: Static = { manifest, mirror: undefined, backoff: undefined, creating: false };
    this.#byKey.set(key, one);
    this.#options.pods.addedStatic(manifest.pod, this.#options.found(podUid(manifest.pod)));
    const known = this.#mirrors.get(key);
    if (known) this.mirror(known);
    else if (this.#synced) this.#reflect(one);
  }

  /** A name is free again. */
  #freed(key: string): void {
    const next = this.#waiting.get(key);
    if (next) {
      this.#waiting.delete(key);
      this.#run(key, next);
      return;
    }
    const mirror = this.#mirrors.get(key);
    if (mirror && !this.#byKey.has(key)) void this.#deleteMirror(mirror);
  }

  /** Makes the mirror, when there is none. Tries until it succeeds, or nobody wants it any more. */
  #reflect(one: Static): void {
    const node = this.#options.node();
    const { context, nodeName } = this.#options;
    const { client, signal, log, clock, random } = context;
    const { pod, hash } = one.manifest;
    if (!this.#synced || one.mirror || one.creating || signal.aborted || this.#byKey.get(keyOf(pod)) !== one) return;
    const uid = node?.metadata?.uid;
    one.creating = true;
    const { uid: _own, ...metadata } = pod.metadata ?? {};
    const mirror: Pod = {
      ...pod,
      metadata: {
        ...metadata,
        annotations: { ...metadata.annotations, [configHash]: hash, [configMirror]: hash },
        ...(uid !== undefined && { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid, controller: true }] }),
      },
    };
    client
      .create(pods, mirror, { signal })
      .then(
        () => undefined,
        (error: unknown) => {
          if (signal.aborted || isStatus(error, 'AlreadyExists')) return;
          one.backoff ??= new Backoff({ firstMs: 1000, longestMs: 60_000, jitter: 0.2, random });
          log.warn({ err: error, pod: keyOf(pod) }, 'the mirror of a static pod could not be made; trying again');
          clock.after(one.backoff.next(), () => this.#reflect(one));
        },
      )
      .finally(() => {
        one.creating = false;
      });
  }

  async #deleteMirror(mirror: Pod): Promise<void> {
    const { context } = this.#options;
    const { namespace = '', name = '' } = mirror.metadata ?? {};
    try {
      await context.client.delete(
        pods,
        { namespace, name },
        { gracePeriodSeconds: 0, preconditions: { uid: podUid(mirror) }, signal: context.signal },
      );
    } catch (error) {
      if (!context.signal.aborted && !isStatus(error, 'NotFound', 'Conflict'))
        context.log.warn({ err: error, pod: keyOf(mirror) }, 'the mirror of a static pod could not be deleted');
    }
  }
}
