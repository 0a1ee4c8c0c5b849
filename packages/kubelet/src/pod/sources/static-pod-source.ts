import { watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Timer } from '@oarlock/primitives/clock';
import type { ApiAccess, ProcessContext } from '../node-context.ts';
import type { AdoptedPod, PodWorkers } from '../worker/pod-workers.ts';
import { isDeleted, podUid } from '../../pod-util/pods.ts';
import { configHashAnnotation, configMirrorAnnotation } from '../../pod-util/config-source.ts';
import { fetchManifests, readManifests, type StaticPodManifest } from './static-pod-manifests.ts';

export interface StaticPodSourceOptions {
  readonly context: Pick<ProcessContext, 'clock' | 'log' | 'random' | 'signal'> & Pick<ApiAccess, 'client'>;
  readonly nodeName: string;
  readonly pods: PodWorkers;
  /** A directory of manifests, or one manifest. Read once per period and after each file system change. */
  readonly path: string | undefined;
  readonly url: string | undefined;
  readonly urlHeaders: Readonly<Record<string, string>>;
  /** The period of reads. Milliseconds. */
  readonly periodMs: number;
  /** Removes and returns the state that a pod had in the runtime at startup; undefined if the runtime did not have the pod. */
  takeRuntimePod(uid: string): AdoptedPod | undefined;
  /** Returns the Node object; undefined until the node is registered. */
  node(): Node | undefined;
}

interface Static {
  readonly manifest: StaticPodManifest;
  mirror: Pod | undefined;
  backoff: Backoff | undefined;
  creating: boolean;
}
const keyOf = ({ metadata }: Pod) => `${metadata?.namespace}/${metadata?.name}`;

/**
 * Runs the static pods of a directory and a URL, with or without an API server, and creates a mirror pod for each in the API. A changed manifest
 * is a new pod, which starts when the previous pod has terminated.
 */
export class StaticPodSource {
  readonly #options: StaticPodSourceOptions;
  readonly #byKey = new Map<string, Static>();
  /** Manifests of new pods whose name a terminating pod still uses. */
  readonly #waiting = new Map<string, StaticPodManifest>();
  /** The mirror pods of this node, keyed by name, including mirror pods without a static pod. */
  readonly #mirrors = new Map<string, Pod>();
  #last = new Map<'path' | 'url', readonly StaticPodManifest[]>();
  #watcher: FSWatcher | undefined;
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;
  #again = false;
  #synced = false;

  constructor(options: StaticPodSourceOptions) {
    this.#options = options;
  }

  /** Starts to watch the manifests. Resolves when the manifests were read once. */
  async start(): Promise<void> {
    const { path, context } = this.#options;
    this.#options.pods.onNameReleased((key) => this.#onNameReleased(key));
    await this.#readManifests();
    if (path !== undefined) {
      try {
        this.#watcher = watch(path, { persistent: false }, () => void this.#readManifests());
        this.#watcher.on('error', (error) =>
          context.log.warn({ err: error, path }, 'watching static pod manifests failed; they are polled'),
        );
      } catch (error) {
        context.log.warn({ err: error, path, parent: dirname(path) }, 'watching static pod manifests failed; they are polled');
      }
    }
    this.#arm();
  }

  stop(): void {
    this.#watcher?.close();
    this.#timer?.cancel();
  }

  /** Handles the end of the initial list of mirror pods: deletes the mirror pods that have no static pod. */
  mirrorPodsSynced(): void {
    this.#synced = true;
    for (const mirror of this.#mirrors.values()) if (!this.#byKey.has(keyOf(mirror))) void this.#deleteMirror(mirror);
    for (const one of this.#byKey.values()) this.#createMirrorPod(one);
  }

  /** Handles a mirror pod of this node that was added or changed. */
  mirrorPodUpdated(pod: Pod): void {
    this.#mirrors.set(keyOf(pod), pod);
    const one = this.#byKey.get(keyOf(pod));
    if (one === undefined) {
      if (this.#synced) void this.#deleteMirror(pod);
      return;
    }
    one.mirror = pod;
    if (isDeleted(pod) || pod.metadata?.annotations?.[configMirrorAnnotation] !== one.manifest.hash) void this.#deleteMirror(pod);
    else this.#options.pods.mirrorPodUpdated(podUid(one.manifest.pod), pod);
  }

  mirrorPodDeleted(pod: Pod): void {
    this.#mirrors.delete(keyOf(pod));
    const one = this.#byKey.get(keyOf(pod));
    if (one === undefined || podUid(one.mirror ?? {}) !== podUid(pod)) return;
    one.mirror = undefined;
    this.#options.pods.mirrorPodUpdated(podUid(one.manifest.pod), undefined);
    this.#createMirrorPod(one);
  }

  #arm(): void {
    const { context, periodMs: everyMs } = this.#options;
    this.#timer = context.clock.after(everyMs, () => {
      if (context.signal.aborted) return;
      void this.#readManifests().finally(() => this.#arm());
    });
  }

  /** Reads the manifests. Reads do not overlap: a call during a read starts another read afterwards. */
  #readManifests(): Promise<void> {
    if (this.#looking) {
      this.#again = true;
      return this.#looking;
    }
    this.#looking = this.#read().finally(() => {
      this.#looking = undefined;
      if (!this.#again) return;
      this.#again = false;
      void this.#readManifests();
    });
    return this.#looking;
  }

  async #read(): Promise<void> {
    const { path, url, urlHeaders, nodeName, context } = this.#options;
    const { clock, log, signal } = context;
    const now = formatTime(clock.now());
    for (const [source, read] of [
      ['path', path === undefined ? undefined : () => readManifests(path, nodeName, now)],
      ['url', url === undefined ? undefined : () => fetchManifests({ url, headers: urlHeaders, signal }, nodeName, now)],
    ] as const) {
      if (!read) continue;
      try {
        const { found, problems } = await read();
        for (const problem of problems) log.warn({ problem }, 'reading a static pod manifest failed');
        this.#last.set(source, found);
      } catch (error) {
        // keep the manifests of the last successful read
        if (!signal.aborted) log.warn({ err: error }, 'reading static pod manifests failed');
      }
    }
    if (!signal.aborted) this.#take([...this.#last.values()].flat());
  }

  #take(manifests: readonly StaticPodManifest[]): void {
    const wanted = new Map(manifests.map((manifest) => [keyOf(manifest.pod), manifest]));
    for (const [key, { manifest }] of this.#byKey) {
      if (wanted.get(key)?.hash === manifest.hash) continue;
      this.#byKey.delete(key);
      this.#options.pods.podDeleted(manifest.pod, undefined);
    }
    for (const key of this.#waiting.keys()) if (!wanted.has(key)) this.#waiting.delete(key);
    for (const [key, manifest] of wanted) {
      if (this.#byKey.has(key)) continue;
      if (this.#options.pods.isNameTaken(key)) this.#waiting.set(key, manifest);
      else this.#run(key, manifest);
    }
  }

  #run(key: string, manifest: StaticPodManifest): void {
    const one: Static = { manifest, mirror: undefined, backoff: undefined, creating: false };
    this.#byKey.set(key, one);
    this.#options.pods.staticPodAdded(manifest.pod, this.#options.takeRuntimePod(podUid(manifest.pod)));
    const known = this.#mirrors.get(key);
    if (known) this.mirrorPodUpdated(known);
    else if (this.#synced) this.#createMirrorPod(one);
  }

  /** Starts the pod that waits for the released name. */
  #onNameReleased(key: string): void {
    const next = this.#waiting.get(key);
    if (next) {
      this.#waiting.delete(key);
      this.#run(key, next);
      return;
    }
    const mirror = this.#mirrors.get(key);
    if (mirror && !this.#byKey.has(key)) void this.#deleteMirror(mirror);
  }

  /** Creates the static pod's mirror pod if it does not exist. Retries until the creation succeeds or the static pod is removed. */
  #createMirrorPod(one: Static): void {
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
        annotations: { ...metadata.annotations, [configHashAnnotation]: hash, [configMirrorAnnotation]: hash },
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
          log.warn({ err: error, pod: keyOf(pod) }, 'creating a mirror pod failed; retrying');
          clock.after(one.backoff.next(), () => this.#createMirrorPod(one));
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
        context.log.warn({ err: error, pod: keyOf(mirror) }, 'deleting a mirror pod failed');
    }
  }
}
