import type { Clock } from '@oarlock/primitives/clock';
import type { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import type { Logger } from '@oarlock/primitives/logger';
import {
  RuntimeError,
  type PodSandbox,
  type PodSandboxConfig,
  type PodSandboxStatus,
  type RuntimeCallOptions,
  type SandboxFilter,
} from '@oarlock/spi/runtime';
import { listedName, sandbox, stateOf } from './internal/status-mapping.ts';
import { sandboxRequest } from './internal/create-request.ts';
import type { EngineClient } from '../engine/engine-client.ts';
import type { EngineContainers } from './engine-containers.ts';
import type { EngineInfo } from '../engine/engine-types.ts';
import { sandboxLabels, sandboxName } from '../engine/names-and-labels.ts';
import { ensureOwnPauseImage, ownPauseImage } from './pause-image.ts';
import { writeResolvConf, type SandboxNetwork } from './sandbox-network.ts';

export interface SandboxesOptions {
  readonly engine: EngineClient;
  readonly containers: EngineContainers;
  readonly network: SandboxNetwork;
  readonly locks: KeyedLock;
  readonly clock: Clock;
  readonly log: Logger;
  /** The sandbox image; undefined for the built-in image. */
  readonly image: string | undefined;
  /** The owner label of the sandboxes that this node creates. */
  readonly owner: string;
  /** The lowest OOM score that may be set. */
  readonly lowestOom: number;
  onStarted(id: string): void;
}

/** Implements CRI sandboxes, which the Docker engine does not have, with pause containers whose network namespace the pod's containers join. */
export class Sandboxes {
  readonly #options: SandboxesOptions;
  readonly #engine: EngineClient;
  readonly #containers: EngineContainers;
  readonly #network: SandboxNetwork;
  #cgroupDriver: string | undefined;

  constructor(options: SandboxesOptions) {
    this.#options = options;
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#network = options.network;
  }

  async run(config: PodSandboxConfig, handler: string, call: RuntimeCallOptions = {}): Promise<string> {
    const { signal } = call;
    if (this.#options.image === undefined) await this.#options.locks.run('pause image', () => ensureOwnPauseImage(this.#engine, call));
    const { Id: id } = await this.#engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name: sandboxName(config.metadata) },
      body: await sandboxRequest(config, {
        image: this.#options.image ?? ownPauseImage,
        runtime: handler === '' ? undefined : handler,
        labels: sandboxLabels(config, this.#options.owner, this.#options.clock.now()),
        cgroupParent: await this.cgroupParent(config, signal),
        lowestOom: this.#options.lowestOom,
      }),
      signal,
    });
    try {
      await this.#engine.call('POST', `/containers/${id}/start`, { signal });
      const { NetworkSettings, ResolvConfPath } = await this.#containers.inspect(id, signal);
      if (config.dns) await writeResolvConf(ResolvConfPath, config.dns);
      if (config.linux.security.namespaces.network !== 'NODE')
        await this.#network.connect(id, { netns: NetworkSettings.SandboxKey, config }, call);
    } catch (error) {
      await this.remove(id).catch((failure: unknown) =>
        this.#options.log.warn(
          { sandbox: id, error: String(failure) },
          'cannot remove a failed sandbox; its remains stay until it is removed',
        ),
      );
      throw error;
    }
    this.#options.onStarted(id);
    return id;
  }

  async stop(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    call.signal?.throwIfAborted();
    await this.#options.locks.run(id, async () => {
      const containers = await this.#containers.list('container', { sandboxId: id }, call.signal);
      await Promise.all(
        containers.filter(({ State }) => stateOf({ Status: State, ExitCode: 0 }) === 'RUNNING').map(({ Id }) => this.#containers.kill(Id)),
      );
      await this.#network.disconnect(id, call);
      await this.#containers.kill(id);
    });
  }

  async remove(id: string, call: RuntimeCallOptions = {}): Promise<void> {
    await this.stop(id, call);
    const containers = await this.#containers.list('container', { sandboxId: id }, call.signal);
    await Promise.all(containers.map(({ Id }) => this.#containers.remove(Id, call)));
    await this.#containers.remove(id, call);
  }

  /** Returns the OCI runtime of a sandbox. @throws RuntimeError `FailedPrecondition` if the sandbox is not ready */
  async runtimeOf(id: string, { signal }: RuntimeCallOptions = {}): Promise<string> {
    const { State, HostConfig } = await this.#containers.sandbox(id, signal);
    if (!this.#isReady(id, State.Running, HostConfig.NetworkMode === 'host'))
      throw new RuntimeError('FailedPrecondition', `sandbox ${id} is not ready`);
    return HostConfig.Runtime;
  }

  async status(id: string, { signal }: RuntimeCallOptions = {}): Promise<PodSandboxStatus> {
    const found = await this.#containers.sandbox(id, signal);
    const ready = this.#isReady(id, found.State.Running, found.HostConfig.NetworkMode === 'host');
    return {
      ...sandbox(found.Id, found.Name, { labels: found.Config.Labels ?? {}, created: Date.parse(found.Created), ready }),
      ips: this.#network.ipsOf(id),
    };
  }

  async list({ id, labels, state }: SandboxFilter = {}, { signal }: RuntimeCallOptions = {}): Promise<readonly PodSandbox[]> {
    const listed = await this.#containers.list('podsandbox', { id, labels }, signal);
    return listed
      .map((item) =>
        sandbox(item.Id, listedName(item), {
          labels: item.Labels ?? {},
          created: item.Created * 1000,
          ready: this.#isReady(item.Id, item.State === 'running', item.HostConfig?.NetworkMode === 'host'),
        }),
      )
      .filter((item) => (state ?? item.state) === item.state);
  }

  #isReady(id: string, running: boolean, onNode: boolean): boolean {
    return running && (onNode || this.#network.ipsOf(id).length > 0);
  }

  async cgroupDriver(signal: AbortSignal | undefined): Promise<'cgroupfs' | 'systemd'> {
    this.#cgroupDriver ??= (await this.#engine.call<EngineInfo>('GET', '/info', { signal })).CgroupDriver;
    return this.#cgroupDriver === 'systemd' ? 'systemd' : 'cgroupfs';
  }

  /** Returns the cgroup parent in the form of the engine's cgroup driver. The systemd driver requires the name of a slice. */
  async cgroupParent({ linux: { cgroupParent } }: PodSandboxConfig, signal: AbortSignal | undefined): Promise<string | undefined> {
    if (cgroupParent === undefined) return undefined;
    if ((await this.cgroupDriver(signal)) !== 'systemd' || cgroupParent.endsWith('.slice')) return cgroupParent;
    const names = cgroupParent.split('/').filter((name) => name !== '');
    return `${names.map((name) => name.replaceAll('-', '_')).join('-')}.slice`;
  }
}
