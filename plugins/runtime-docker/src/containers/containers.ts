import { mkdir } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';
import type { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import {
  RuntimeError,
  type Container,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStatus,
  type LinuxResources,
  type PodSandboxConfig,
  type RuntimeCallOptions,
} from '@oarlock/spi/runtime';
import { container, containerStatus, listedName, stateOf } from './internal/status-mapping.ts';
import { containerRequest, resources } from './internal/create-request.ts';
import type { EngineClient } from '../engine/engine-client.ts';
import type { EngineContainers } from './engine-containers.ts';
import { hasCode } from '../engine/engine-errors.ts';
import { isZeroTime } from '../engine/engine-types.ts';
import type { EventBroadcaster } from '../events/event-broadcaster.ts';
import type { Images } from '../engine/images.ts';
import type { LogCopiers } from '../logs/log-copier.ts';
import { containerLabels, containerName, logPathLabel, sandboxLabel } from '../engine/names-and-labels.ts';
import type { Sandboxes } from './sandboxes.ts';

/** How long a status or stop call waits for the log of an exited container to be complete. */
const logTimeoutMs = 10_000;

export interface ContainersOptions {
  readonly engine: EngineClient;
  readonly containers: EngineContainers;
  readonly sandboxes: Sandboxes;
  readonly images: Images;
  readonly logs: LogCopiers;
  readonly events: EventBroadcaster;
  readonly locks: KeyedLock;
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  /** The owner label of the containers that this node creates. */
  readonly owner: string;
  /** The lowest OOM score adjustment that the engine may set. */
  readonly lowestOom: number;
}

/** The CRI configs of the container and its sandbox. */
export interface ContainerCreation {
  readonly config: ContainerConfig;
  readonly sandboxConfig: PodSandboxConfig;
}

/** Implements CRI containers with the containers of the Docker engine. A container runs at most once, and its log is written in CRI format. */
export class Containers {
  readonly #options: ContainersOptions;
  readonly #engine: EngineClient;
  readonly #containers: EngineContainers;
  readonly #logs: LogCopiers;

  constructor(options: ContainersOptions) {
    this.#options = options;
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#logs = options.logs;
  }

  async create(sandboxId: string, { config, sandboxConfig }: ContainerCreation, call: RuntimeCallOptions = {}): Promise<string> {
    const { signal } = call;
    const runtime = await this.#options.sandboxes.runtimeOf(sandboxId, call);
    const { id: image, names } = await this.#options.images.resolve(config.image.image, call);
    // the engine rejects mounts of missing host paths; CRI runtimes create a directory
    for (const { hostPath, image: from } of config.mounts)
      if (from === undefined) await mkdir(hostPath, { recursive: true }).catch(() => undefined);
    const labels = containerLabels(config, {
      sandboxId,
      logDirectory: sandboxConfig.logDirectory,
      owner: this.#options.owner,
      now: this.#options.clock.now(),
      image: { image: config.image.userSpecifiedImage ?? names.image, imageRef: names.imageRef },
    });
    const cgroupParent = await this.#options.sandboxes.cgroupParent(sandboxConfig, signal);
    const { Id } = await this.#engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name: containerName(config, sandboxConfig) },
      body: await containerRequest(config, {
        image,
        runtime,
        labels,
        cgroupParent,
        lowestOom: this.#options.lowestOom,
        sandboxId,
        sandbox: sandboxConfig,
        minor: await this.#engine.minor(signal),
      }),
      signal,
    });
    return Id;
  }

  async start(id: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    await this.#options.locks.run(id, async () => {
      const found = await this.#containers.inspect(id, signal);
      // the engine would start an exited container again
      if (stateOf(found.State) !== 'CREATED' || !isZeroTime(found.State.StartedAt))
        throw new RuntimeError('FailedPrecondition', `container ${id} was started before: it is ${found.State.Status}`);
      await this.#logs.prepare({ id, path: found.Config.Labels?.[logPathLabel] ?? '', tty: found.Config.Tty });
      try {
        await this.#engine.call('POST', `/containers/${id}/start`, { signal });
      } catch (error) {
        const after = await this.#containers.inspect(id, undefined).catch(() => undefined); // the caller receives the error of the start
        if (after && stateOf(after.State) === 'EXITED')
          this.#options.events.publish('STOPPED', after.Config.Labels?.[sandboxLabel] ?? '', id);
        throw error;
      } finally {
        this.#logs.begin(id);
      }
    });
  }

  async stop(id: string, timeoutSeconds: number, { signal }: RuntimeCallOptions = {}): Promise<void> {
    const seconds = Math.max(0, Math.ceil(timeoutSeconds));
    if (seconds === 0) await this.#containers.kill(id);
    else
      await ignoreNotFound(
        this.#engine.call('POST', `/containers/${id}/stop`, {
          query: { t: seconds },
          timeoutMs: seconds * 1000 + this.#options.requestTimeoutMs,
          signal,
        }),
      );
    await this.#waitForLog(id);
  }

  async remove(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    await this.#containers.remove(id, call);
  }

  async status(id: string, { signal }: RuntimeCallOptions = {}): Promise<ContainerStatus> {
    const found = await this.#containers.inspect(id, signal);
    const status = containerStatus(found, this.#options.events.wasOomKilled(id));
    if (status.state === 'EXITED') await this.#waitForLog(id);
    return status;
  }

  async list({ id, sandboxId, state, labels }: ContainerFilter = {}, { signal }: RuntimeCallOptions = {}): Promise<readonly Container[]> {
    const listed = await this.#containers.list('container', { id, sandboxId, labels }, signal);
    const containers = await Promise.all(
      listed.map(async (item) =>
        container(item.Id, listedName(item), {
          labels: item.Labels ?? {},
          created: item.Created * 1000,
          state: await this.#containers.stateOf(item, signal),
        }),
      ),
    );
    return containers.filter((item) => (state ?? item.state) === item.state);
  }

  async update(id: string, limits: LinuxResources, { signal }: RuntimeCallOptions = {}): Promise<void> {
    await this.#engine.call('POST', `/containers/${id}/update`, { body: resources(limits), signal });
  }

  async reopenLog(id: string, { signal }: RuntimeCallOptions = {}): Promise<void> {
    const { State } = await this.#containers.inspect(id, signal);
    if (!State.Running) throw new RuntimeError('FailedPrecondition', `container ${id} is not running`);
    await this.#logs.reopen(id);
  }

  async #waitForLog(id: string): Promise<void> {
    await Promise.race([this.#logs.complete(id), this.#options.clock.sleep(logTimeoutMs)]);
  }
}

async function ignoreNotFound(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!hasCode(error, 'NotFound')) throw error;
  }
}
