import { mkdir } from 'node:fs/promises';
import type { Clock } from '@oarlock/kernel/clock';
import type { KeyedLock } from '@oarlock/kernel/keyed-lock';
import {
  RuntimeError,
  type Container,
  type ContainerConfig,
  type ContainerFilter,
  type ContainerStatus,
  type LinuxResources,
  type PodSandboxConfig,
  type RuntimeCall,
} from '@oarlock/spi/runtime';
import { container, containerStatus, listedName, stateOf } from './container-state.ts';
import { containerRequest, resources } from './create-request.ts';
import type { EngineClient } from './engine-client.ts';
import type { EngineContainers } from './engine-containers.ts';
import { hasCode } from './engine-errors.ts';
import { isNever } from './engine-shapes.ts';
import type { EventHub } from './event-hub.ts';
import type { Images } from './images.ts';
import type { LogCopies } from './log-copies.ts';
import { containerLabels, containerName, logPathLabel, sandboxLabel } from './names.ts';
import type { Sandboxes } from './sandboxes.ts';

/** How long a status waits for the end of a log. */
const logPatienceMs = 10_000;

export interface ContainersOptions {
  readonly engine: EngineClient;
  readonly containers: EngineContainers;
  readonly sandboxes: Sandboxes;
  readonly images: Images;
  readonly logs: LogCopies;
  readonly hub: EventHub;
  readonly locks: KeyedLock;
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  /** Whose containers these are. */
  readonly owner: string;
  readonly lowestOom: number;
}

/** The containers of CRI: those of the engine, which run once, with logs in CRI's format. */
export class Containers {
  readonly #options: ContainersOptions;
  readonly #engine: EngineClient;
  readonly #containers: EngineContainers;
  readonly #logs: LogCopies;

  constructor(options: ContainersOptions) {
    this.#options = options;
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#logs = options.logs;
  }

  async create(sandboxId: string, config: ContainerConfig, sandboxConfig: PodSandboxConfig, call: RuntimeCall = {}): Promise<string> {
    const { signal } = call;
    const runtime = await this.#options.sandboxes.runtimeOf(sandboxId, call);
    const { id: image, names } = await this.#options.images.resolve(config.image.image, call);
    // the engine refuses to mount what is not there; CRI makes a directory of it
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

  async start(id: string, { signal }: RuntimeCall = {}): Promise<void> {
    await this.#options.locks.run(id, async () => {
      const found = await this.#containers.inspect(id, signal);
      // the engine would run it once more
      if (stateOf(found.State) !== 'CREATED' || !isNever(found.State.StartedAt))
        throw new RuntimeError('FailedPrecondition', `container ${id} was started before: it is ${found.State.Status}`);
      await this.#logs.prepare({ id, path: found.Config.Labels?.[logPathLabel] ?? '', tty: found.Config.Tty });
      try {
        await this.#engine.call('POST', `/containers/${id}/start`, { signal });
      } catch (error) {
        const after = await this.#containers.inspect(id, undefined).catch(() => undefined); // what failed first is what is told
        if (after && stateOf(after.State) === 'EXITED') this.#options.hub.tell('STOPPED', after.Config.Labels?.[sandboxLabel] ?? '', id);
        throw error;
      } finally {
        this.#logs.begin(id);
      }
    });
  }

  async stop(id: string, timeoutSeconds: number, { signal }: RuntimeCall = {}): Promise<void> {
    const seconds = Math.max(0, Math.ceil(timeoutSeconds));
    if (seconds === 0) await this.#containers.kill(id);
    else
      await unlessGone(
        this.#engine.call('POST', `/containers/${id}/stop`, {
          query: { t: seconds },
          timeoutMs: seconds * 1000 + this.#options.requestTimeoutMs,
          signal,
        }),
      );
    await this.#logsOf(id);
  }

  async remove(id: string, call: RuntimeCall = {}): Promise<void> {
    await this.#containers.remove(id, call);
  }

  async status(id: string, { signal }: RuntimeCall = {}): Promise<ContainerStatus> {
    const found = await this.#containers.inspect(id, signal);
    const status = containerStatus(found, this.#options.hub.starved(id));
    if (status.state === 'EXITED') await this.#logsOf(id);
    return status;
  }

  async list({ id, sandboxId, state, labels }: ContainerFilter = {}, { signal }: RuntimeCall = {}): Promise<readonly Container[]> {
    const listed = await this.#containers.list('container', { id, sandboxId, labels }, signal);
    const found = await Promise.all(
      listed.map(async (one) =>
        container(one.Id, listedName(one), one.Labels ?? {}, one.Created * 1000, await this.#containers.stateOf(one, signal)),
      ),
    );
    return found.filter((one) => (state ?? one.state) === one.state);
  }

  async update(id: string, given: LinuxResources, { signal }: RuntimeCall = {}): Promise<void> {
    await this.#engine.call('POST', `/containers/${id}/update`, { body: resources(given), signal });
  }

  async reopenLog(id: string, { signal }: RuntimeCall = {}): Promise<void> {
    const { State } = await this.#containers.inspect(id, signal);
    if (!State.Running) throw new RuntimeError('FailedPrecondition', `container ${id} does not run`);
    await this.#logs.reopen(id);
  }

  async #logsOf(id: string): Promise<void> {
    await Promise.race([this.#logs.complete(id), this.#options.clock.sleep(logPatienceMs)]);
  }
}

async function unlessGone(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!hasCode(error, 'NotFound')) throw error;
  }
}
