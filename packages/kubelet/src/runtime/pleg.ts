import type { Clock, Timer } from '@oarlock/primitives/clock';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import type { Logger } from '@oarlock/primitives/logger';
import {
  RuntimeError,
  type Container,
  type ContainerStatus,
  type ImageSupport,
  type Limitation,
  type PodIsolation,
  type PodSandbox,
  type PodSandboxStatus,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeFeatures,
} from '@oarlock/spi/runtime';
import type { PLEGMetrics, Relist } from '../metrics/pleg-metrics.ts';
import { runtimeLabels } from './labels.ts';
import type { RuntimePodStatus } from './runtime-pod-status.ts';

/** Receives the lifecycle events of one pod. Implemented by the pod worker. */
export interface PodLifecycleListener {
  /** Marks the status of a container or a sandbox as stale. If both ids are undefined, the status of the whole pod is stale. */
  invalidate(sandboxId: string | undefined, containerId: string | undefined): void;
  readonly state: RuntimePodStatus;
  /** True during a pass of the worker. The worker itself reads the status of the containers that it starts. */
  readonly isSyncing: boolean;
}

/** The sandboxes and containers of one pod that the runtime had when the kubelet started. */
export interface RuntimePod {
  readonly sandboxes: readonly PodSandbox[];
  readonly containers: readonly Container[];
}

export interface PLEGOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** The relist period. Milliseconds. */
  readonly relistMs: number;
  /** The owner ids of this process's nodes. */
  readonly ownerIds: ReadonlySet<string>;
  readonly metrics: PLEGMetrics;
}

/**
 * The pod lifecycle event generator (PLEG) of one runtime, shared by all kubelets of the process. It passes the runtime's events to the pod
 * workers; a periodic relist finds changes that the event stream missed.
 */
export class PLEG {
  readonly driver: RuntimeDriver;
  /** The name under which the runtime is configured. A RuntimeClass selects the runtime by this handler name. */
  readonly handler: string;
  readonly simulated: boolean;
  /** The name that the runtime reports, for example `containerd`; empty before `open`. */
  name = '';
  version = '';
  /** The cgroup driver that the runtime uses; set by `open`. */
  cgroupDriver: 'cgroupfs' | 'systemd' = 'cgroupfs';
  /** The features that the runtime reported at the last relist. */
  features: RuntimeFeatures | undefined;
  /** Whether the runtime isolates pods, as of the last relist; undefined if the runtime does not report it. */
  isolation: PodIsolation | undefined;
  /** What the runtime does not enforce on this machine, as of the last relist; undefined if the runtime does not report it. */
  limitations: readonly Limitation[] | undefined;
  /** Whether images run on this machine, as of the last relist; undefined if the runtime does not report it. */
  imageSupport: ImageSupport | undefined;
  readonly #options: PLEGOptions;
  readonly #listenerBySandbox = new Map<string, PodLifecycleListener>();
  readonly #listeners = new Set<PodLifecycleListener>();
  readonly #loading = new Set<PodLifecycleListener>();
  #timer: Timer | undefined;
  #lastRelist: Relist | undefined;
  #relister: CoalescingRunner | undefined;

  constructor(handler: string, driver: RuntimeDriver, options: PLEGOptions) {
    this.driver = driver;
    this.handler = handler;
    this.simulated = driver.traits.simulated === true;
    this.#options = options;
  }

  /** Reads the name and version of the runtime and subscribes to its events. @throws RuntimeError if the runtime does not answer */
  async open(signal: AbortSignal): Promise<void> {
    const { name, version } = await this.driver.version({ signal });
    this.name = name;
    this.version = version;
    this.features = await this.driver.features?.({ signal });
    this.isolation = await this.driver.isolation?.({ signal });
    this.limitations = await this.driver.limitations?.({ signal });
    this.imageSupport = await this.driver.imageSupport?.({ signal });
    this.cgroupDriver = (await this.driver.cgroupDriver?.({ signal })) ?? 'cgroupfs';
    const relister = new CoalescingRunner({
      ...this.#options,
      failureMessage: `listing the pods of the runtime ${this.handler} failed`,
      run: () => this.#relist(signal),
    });
    this.#relister = relister;
    void this.#consumeEvents(relister, signal);
    this.#scheduleRelist(relister, signal);
  }

  /** Returns true if the runtime handler supports the feature. */
  supports(handler: string, feature: 'recursiveReadOnlyMounts' | 'userNamespaces'): boolean {
    return this.features?.handlers.find(({ name }) => name === handler)?.[feature] === true;
  }

  /** Lists the pods of this process's nodes in the runtime, keyed by owner id and pod uid. */
  async listPods(signal: AbortSignal): Promise<ReadonlyMap<string, ReadonlyMap<string, RuntimePod>>> {
    const [sandboxes, containers] = await Promise.all([
      this.driver.listPodSandbox({}, { signal }),
      this.driver.listContainers({}, { signal }),
    ]);
    const found = new Map<string, Map<string, { sandboxes: PodSandbox[]; containers: Container[] }>>();
    const podOf = ({ labels }: PodSandbox | Container) => {
      const owner = labels[runtimeLabels.owner] ?? '';
      const uid = labels[runtimeLabels.podUid] ?? '';
      if (uid === '' || !this.#options.ownerIds.has(owner)) return undefined;
      const pods = found.get(owner) ?? new Map<string, { sandboxes: PodSandbox[]; containers: Container[] }>();
      found.set(owner, pods);
      const pod = pods.get(uid) ?? { sandboxes: [], containers: [] };
      pods.set(uid, pod);
      return pod;
    };
    for (const sandbox of sandboxes) podOf(sandbox)?.sandboxes.push(sandbox);
    for (const container of containers) podOf(container)?.containers.push(container);
    return found;
  }

  /** Reads the runtime status of one pod into the listener's state. */
  async reload(listener: PodLifecycleListener, uid: string, signal: AbortSignal): Promise<void> {
    const labels = { [runtimeLabels.podUid]: uid };
    const [sandboxes, containers] = await Promise.all([
      this.driver.listPodSandbox({ labels }, { signal }),
      this.driver.listContainers({ labels }, { signal }),
    ]);
    await this.adopt(listener, { sandboxes, containers }, signal);
  }

  /** Reads the statuses of a pod's sandboxes and containers into the listener's state, and subscribes the listener to the pod's events. */
  async adopt(listener: PodLifecycleListener, { sandboxes, containers }: RuntimePod, signal: AbortSignal): Promise<void> {
    // subscribe first: events during the reads must not be lost
    for (const { id } of sandboxes) this.watch(id, listener);
    this.#listeners.add(listener);
    this.#loading.add(listener);
    try {
      const [sandboxStatuses, containerStatuses] = await Promise.all([
        Promise.all(sandboxes.map(({ id }) => this.sandboxStatus(id, signal))),
        Promise.all(containers.map(({ id }) => this.containerStatus(id, signal))),
      ]);
      const before = listener.state.sandboxes;
      listener.state.replace(
        sandboxStatuses.filter((status) => status !== undefined),
        containerStatuses.filter((status) => status !== undefined),
      );
      for (const { id } of before) if (listener.state.sandbox(id) === undefined) this.#listenerBySandbox.delete(id);
    } finally {
      this.#loading.delete(listener);
    }
  }

  /** Subscribes the listener to the events of a sandbox. */
  watch(sandboxId: string, listener: PodLifecycleListener): void {
    this.#listenerBySandbox.set(sandboxId, listener);
    this.#listeners.add(listener);
  }
  unwatch(sandboxId: string): void {
    this.#listenerBySandbox.delete(sandboxId);
  }
  unregister(listener: PodLifecycleListener): void {
    for (const { id } of listener.state.sandboxes) this.#listenerBySandbox.delete(id);
    this.#listeners.delete(listener);
  }

  /** Returns the status of a sandbox, or undefined if the sandbox does not exist. */
  async sandboxStatus(id: string, signal?: AbortSignal): Promise<PodSandboxStatus | undefined> {
    return this.driver.podSandboxStatus(id, { ...(signal && { signal }) }).catch(undefinedIfNotFound);
  }
  async containerStatus(id: string, signal?: AbortSignal): Promise<ContainerStatus | undefined> {
    return this.driver.containerStatus(id, { ...(signal && { signal }) }).catch(undefinedIfNotFound);
  }

  close(): void {
    this.#timer?.cancel();
    void this.#relister?.stop();
  }

  async #consumeEvents(relister: CoalescingRunner, signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#options;
    let first = true;
    while (!signal.aborted) {
      try {
        for await (const event of this.driver.events(signal)) {
          if (event !== 'resync') this.#dispatch(event);
          // the first resync reports the start of the stream; existing pods are adopted anyway
          else if (!first) await relister.trigger();
          first = false;
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error, runtime: this.handler }, 'the event stream of the runtime ended');
      }
      if (signal.aborted) return;
      first = false;
      await clock.sleep(1000, signal).catch(() => undefined);
    }
  }

  #dispatch({ type, sandboxId, containerId }: RuntimeEvent): void {
    const listener = this.#listenerBySandbox.get(sandboxId);
    if (listener === undefined) return;
    if (this.#loading.has(listener)) {
      listener.invalidate(undefined, undefined);
      return;
    }
    if (containerId === undefined) {
      const known = listener.state.sandbox(sandboxId)?.state;
      if (
        // the worker reads the status of a sandbox that it creates, but may have read it before the sandbox stopped
        (known === undefined && type !== 'STOPPED') ||
        ((type === 'STARTED' || type === 'CREATED') && known === 'READY') ||
        (type === 'STOPPED' && known === 'NOTREADY')
      )
        return;
    } else {
      // the worker knows what it did itself
      const known = listener.state.container(containerId)?.state;
      if (
        known === undefined ||
        type === 'CREATED' ||
        (type === 'STARTED' && (known !== 'CREATED' || listener.isSyncing)) ||
        (type === 'STOPPED' && known === 'EXITED')
      )
        return;
    }
    listener.invalidate(sandboxId, containerId);
  }

  #scheduleRelist(relister: CoalescingRunner, signal: AbortSignal): void {
    this.#timer = this.#options.clock.after(this.#options.relistMs, () => {
      void relister.trigger().finally(() => {
        if (!signal.aborted) this.#scheduleRelist(relister, signal);
      });
    });
  }

  /** Lists all sandboxes and containers, and invalidates the pods whose last known state differs. @throws RuntimeError */
  async #relist(signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#options;
    const [startedAt, monotonic] = [clock.now(), clock.monotonic()];
    try {
      const [sandboxes, containers] = await Promise.all([
        this.driver.listPodSandbox({}, { signal }),
        this.driver.listContainers({}, { signal }),
      ]);
      const now = new Map<string, string>();
      for (const { id, state } of sandboxes) now.set(id, state);
      for (const { id, state } of containers) now.set(id, state);
      for (const listener of this.#listeners) {
        const { state } = listener;
        const differs = [...state.sandboxes, ...state.containers].some((known) => now.get(known.id) !== known.state);
        if (differs) listener.invalidate(undefined, undefined);
      }
      const relist = { startedAt, monotonic, took: clock.monotonic() - monotonic };
      metrics.relisted(relist, this.#lastRelist);
      this.#lastRelist = relist;
      // the runtime may have been upgraded
      this.features = await this.driver.features?.({ signal });
      this.isolation = await this.driver.isolation?.({ signal });
      this.limitations = await this.driver.limitations?.({ signal });
      this.imageSupport = await this.driver.imageSupport?.({ signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

export function undefinedIfNotFound(error: unknown): undefined {
  if (error instanceof RuntimeError && error.code === 'NotFound') return undefined;
  throw error;
}
