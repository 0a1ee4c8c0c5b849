import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import {
  RuntimeError,
  type Container,
  type ContainerStatus,
  type PodSandbox,
  type PodSandboxStatus,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeFeatures,
} from '@oarlock/spi/runtime';
import { names } from './labels.ts';
import type { PodState } from './pod-state.ts';

/** Whoever looks after one pod and is told when something of it may have changed. */
export interface RuntimeListener {
  /** A container, or the sandbox itself, is not as it is known. Both undefined: look at everything. */
  stale(sandboxId: string | undefined, containerId: string | undefined): void;
  readonly state: PodState;
  /** At work on the pod: what it starts itself it looks at itself. */
  readonly active: boolean;
}

/** Everything of one pod that a runtime has, found at the start. */
export interface Found {
  readonly sandboxes: readonly PodSandbox[];
  readonly containers: readonly Container[];
}

export interface RuntimeHubOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** How often everything is listed although no event asked for it, in milliseconds. */
  readonly relistMs: number;
  /** Owners whose pods this process looks after. */
  readonly owners: ReadonlySet<string>;
}

/**
 * One runtime as all kubelets of this process see it: its events, handed to the pod they are about. What the events may have missed
 * (a lost connection, a driver that forgets) is found by listing again, rarely.
 */
export class RuntimeHub {
  readonly driver: RuntimeDriver;
  /** Under which it is placed: what RuntimeClass handlers select. */
  readonly handler: string;
  readonly simulated: boolean;
  /** `containerd`: known after `open`. */
  name = '';
  version = '';
  /** Who makes the runtime's cgroups: known after `open`. */
  cgroupDriver: 'cgroupfs' | 'systemd' = 'cgroupfs';
  /** What the runtime said that it can do, at the last look at everything. */
  features: RuntimeFeatures | undefined;
  readonly #options: RuntimeHubOptions;
  readonly #bySandbox = new Map<string, RuntimeListener>();
  readonly #listeners = new Set<RuntimeListener>();
  readonly #loading = new Set<RuntimeListener>();
  #timer: Timer | undefined;
  #relisting = false;

  constructor(handler: string, driver: RuntimeDriver, options: RuntimeHubOptions) {
    this.driver = driver;
    this.handler = handler;
    this.simulated = driver.traits.simulated === true;
    this.#options = options;
  }

  /** Learns the runtime's name and begins to listen. @throws RuntimeError when it does not answer */
  async open(signal: AbortSignal): Promise<void> {
    const { name, version } = await this.driver.version({ signal });
    this.name = name;
    this.version = version;
    this.features = await this.driver.features?.({ signal });
    this.cgroupDriver = (await this.driver.cgroupDriver?.({ signal })) ?? 'cgroupfs';
    void this.#listen(signal);
    this.#arm(signal);
  }

  /** Whether what a handler runs can have this. */
  supports(handler: string, feature: 'recursiveReadOnlyMounts' | 'userNamespaces'): boolean {
    return this.features?.handlers.find(({ name }) => name === handler)?.[feature] === true;
  }

  /** What this process's owners have in the runtime, by owner and pod uid. */
  async found(signal: AbortSignal): Promise<ReadonlyMap<string, ReadonlyMap<string, Found>>> {
    const [sandboxes, containers] = await Promise.all([
      this.driver.listPodSandbox({}, { signal }),
      this.driver.listContainers({}, { signal }),
    ]);
    const found = new Map<string, Map<string, { sandboxes: PodSandbox[]; containers: Container[] }>>();
    const of = ({ labels }: PodSandbox | Container) => {
      const owner = labels[names.owner] ?? '';
      const uid = labels[names.podUid] ?? '';
      if (uid === '' || !this.#options.owners.has(owner)) return undefined;
      const pods = found.get(owner) ?? new Map<string, { sandboxes: PodSandbox[]; containers: Container[] }>();
      found.set(owner, pods);
      const pod = pods.get(uid) ?? { sandboxes: [], containers: [] };
      pods.set(uid, pod);
      return pod;
    };
    for (const sandbox of sandboxes) of(sandbox)?.sandboxes.push(sandbox);
    for (const container of containers) of(container)?.containers.push(container);
    return found;
  }

  /** Reads everything of one pod into its state. */
  async load(listener: RuntimeListener, uid: string, signal: AbortSignal): Promise<void> {
    const labels = { [names.podUid]: uid };
    const [sandboxes, containers] = await Promise.all([
      this.driver.listPodSandbox({ labels }, { signal }),
      this.driver.listContainers({ labels }, { signal }),
    ]);
    await this.adopt(listener, { sandboxes, containers }, signal);
  }

  /** Reads the statuses of what was found into the pod's state, and tells its events from then on. */
  async adopt(listener: RuntimeListener, { sandboxes, containers }: Found, signal: AbortSignal): Promise<void> {
    // listen first: what happens while the statuses are read must not be lost
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
      for (const { id } of before) if (listener.state.sandbox(id) === undefined) this.#bySandbox.delete(id);
    } finally {
      this.#loading.delete(listener);
    }
  }

  /** Events of the sandbox go to the listener. */
  watch(sandboxId: string, listener: RuntimeListener): void {
    this.#bySandbox.set(sandboxId, listener);
    this.#listeners.add(listener);
  }
  unwatch(sandboxId: string): void {
    this.#bySandbox.delete(sandboxId);
  }
  leave(listener: RuntimeListener): void {
    for (const { id } of listener.state.sandboxes) this.#bySandbox.delete(id);
    this.#listeners.delete(listener);
  }

  /** Undefined when it is gone. */
  async sandboxStatus(id: string, signal?: AbortSignal): Promise<PodSandboxStatus | undefined> {
    return this.driver.podSandboxStatus(id, { ...(signal && { signal }) }).catch(undefinedWhenGone);
  }
  async containerStatus(id: string, signal?: AbortSignal): Promise<ContainerStatus | undefined> {
    return this.driver.containerStatus(id, { ...(signal && { signal }) }).catch(undefinedWhenGone);
  }

  close(): void {
    this.#timer?.cancel();
  }

  async #listen(signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#options;
    let first = true;
    while (!signal.aborted) {
      try {
        for await (const event of this.driver.events(signal)) {
          if (event !== 'resync') this.#tell(event);
          // the first one says that the stream is live, and what was there before is adopted anyway
          else if (!first) await this.#relist(signal);
          first = false;
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error, runtime: this.handler }, 'the events of the runtime broke off');
      }
      if (signal.aborted) return;
      first = false;
      await clock.sleep(1000, signal).catch(() => undefined);
    }
  }

  #tell({ type, sandboxId, containerId }: RuntimeEvent): void {
    const listener = this.#bySandbox.get(sandboxId);
    if (listener === undefined) return;
    if (this.#loading.has(listener)) {
      listener.stale(undefined, undefined);
      return;
    }
    if (containerId === undefined) {
      const known = listener.state.sandbox(sandboxId)?.state;
      if (
        known === undefined ||
        ((type === 'STARTED' || type === 'CREATED') && known === 'READY') ||
        (type === 'STOPPED' && known === 'NOTREADY')
      )
        return;
    } else {
      // what the worker did itself it knows already
      const known = listener.state.container(containerId)?.state;
      if (
        known === undefined ||
        type === 'CREATED' ||
        (type === 'STARTED' && (known !== 'CREATED' || listener.active)) ||
        (type === 'STOPPED' && known === 'EXITED')
      )
        return;
    }
    listener.stale(sandboxId, containerId);
  }

  #arm(signal: AbortSignal): void {
    this.#timer = this.#options.clock.after(this.#options.relistMs, () => {
      void this.#relist(signal).finally(() => {
        if (!signal.aborted) this.#arm(signal);
      });
    });
  }

  /** Compares everything with what is known and wakes those pods for which it differs. */
  async #relist(signal: AbortSignal): Promise<void> {
    if (this.#relisting) return;
    this.#relisting = true;
    try {
      const [sandboxes, containers] = await Promise.all([
        this.driver.listPodSandbox({}, { signal }),
        this.driver.listContainers({}, { signal }),
      ]);
      // another version of it may have been started
      this.features = await this.driver.features?.({ signal });
      const now = new Map<string, string>();
      for (const { id, state } of sandboxes) now.set(id, state);
      for (const { id, state } of containers) now.set(id, state);
      for (const listener of this.#listeners) {
        const { state } = listener;
        const differs = [...state.sandboxes, ...state.containers].some((known) => now.get(known.id) !== known.state);
        if (differs) listener.stale(undefined, undefined);
      }
    } catch (error) {
      if (!signal.aborted) this.#options.log.warn({ err: error, runtime: this.handler }, 'the runtime could not be listed');
    } finally {
      this.#relisting = false;
    }
  }
}

export function undefinedWhenGone(error: unknown): undefined {
  if (error instanceof RuntimeError && error.code === 'NotFound') return undefined;
  throw error;
}
