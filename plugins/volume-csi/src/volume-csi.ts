import { join } from 'node:path';
import { nodes, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import type { RegisteringPlugin } from '@oarlock/grpc/plugin-registration';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, EventSource, Informers } from '@oarlock/spi/client';
import { VolumeError, type Mounted, type VolumeCall, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import { isOwn, ownName, type DriverConfig, type VolumeCsiConfig } from './config.ts';
import { meet, type CsiDriver } from './csi-driver.ts';
import { CsiVolumes } from './csi-volumes.ts';
import { runDriver } from './driver-process.ts';
import { firstUse } from './first-use.ts';
import { NodeExpansion } from './node-expansion.ts';
import { NodeLimits } from './node-limits.ts';
import { OnlineGrowth } from './online-growth.ts';
import { PluginSockets } from '@oarlock/grpc/plugin-sockets';
import { problemOf } from './registered-drivers.ts';
import { announce, announceSnapshots, register, unregister } from './registration.ts';
import type { Sidecar } from './sidecar.ts';
import { startSidecars } from './sidecars.ts';
import { defineSnapshots } from './snapshot-definitions.ts';
import { Staging } from './staging.ts';
import { volumeUsage } from './volume-usage.ts';
import { VolumesInUse } from './volumes-in-use.ts';

export interface VolumeCsiOptions {
  readonly config: VolumeCsiConfig;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dataDir: string;
}

const againMs = 1_000;
/** How long a pod's start waits for an attachment before it is tried again. Milliseconds. */
const attachPatienceMs = 120_000;

/** CSI drivers of a node: runs those that it is to run, meets all of them, says so in the API, mounts their volumes and provisions for them. */
export class VolumeCsi implements VolumeDriver {
  readonly #options: VolumeCsiOptions;
  readonly #drivers = new Map<string, CsiDriver>();
  readonly #volumes: CsiVolumes;
  readonly #staging: Staging;
  readonly #expansion: NodeExpansion;
  readonly #growth: OnlineGrowth;
  readonly #stop = new AbortController();
  readonly #processes: (() => Promise<void>)[] = [];
  readonly #limits = new Map<string, NodeLimits>();
  readonly #leave = new Map<string, () => Promise<void>>();
  readonly #meetings: Promise<void>[] = [];
  readonly usage: NonNullable<VolumeDriver['usage']> = (target, call) => volumeUsage(target, this.#drivers, call);
  #inUse: VolumesInUse | undefined;
  #sockets: PluginSockets | undefined;
  #snapshots: Promise<void> | undefined;
  #provisions: Promise<boolean> | undefined;

  constructor(options: VolumeCsiOptions) {
    const { config, client, dataDir, events, clock, log } = options;
    this.#options = options;
    const { kubeletDir } = config;
    this.#staging = new Staging(kubeletDir === undefined ? join(dataDir, 'staging') : join(kubeletDir, 'plugins/kubernetes.io/csi'));
    this.#expansion = new NodeExpansion(client, this.#staging, events.recorder('kubelet'));
    const [staging, expansion] = [this.#staging, this.#expansion];
    this.#growth = new OnlineGrowth({ client, staging, expansion, clock, log, random: Math.random });
    this.#volumes = new CsiVolumes({
      client,
      staging,
      drivers: this.#drivers,
      expansion,
      growth: this.#growth,
      inUse: () => {
        if (this.#inUse === undefined) throw new VolumeError('NotReady', 'the node is not known yet');
        return this.#inUse;
      },
    });
  }

  /** What is the cluster's is made wherever this runs and may: where there is no node yet, too. */
  async start(): Promise<void> {
    for (const driver of this.#options.config.drivers)
      if (isOwn(driver))
        this.#meet('the classes of a volume driver cannot be made', async () => {
          if (await this.#mayProvision()) await this.#announceOwn(driver);
        });
  }

  begin(nodeName: string): void {
    const { config, client, clock, informers } = this.#options;
    const inUse = new VolumesInUse({
      client,
      nodeName,
      clock,
      node: () => informers.of(nodes, { fieldSelector: `metadata.name=${nodeName}` }),
      patienceMs: attachPatienceMs,
      exhausted: (driver) => this.#limits.get(driver)?.exhausted(),
    });
    this.#inUse = inUse;
    this.#meet('what was mounted before cannot be said', () => this.#adopt(inUse));
    for (const [at, driver] of config.drivers.entries())
      this.#meet('a volume driver cannot be used', () => this.#begin(driver, at, nodeName));
    if (config.kubeletDir !== undefined) {
      const directory = join(config.kubeletDir, 'plugins_registry');
      this.#meet('volume drivers cannot register', () => this.#listen(directory, nodeName));
    }
  }

  /** Names of the drivers that have answered. */
  get names(): readonly string[] {
    return [...this.#drivers.keys()];
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    this.#growth.stop();
    await Promise.all(this.#meetings);
    await this.#sockets?.stop();
    for (const leave of this.#leave.values()) await leave();
    await Promise.all(this.#processes.map((stop) => stop()));
  }

  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return this.#volumes.supports(volume, persistentVolume);
  }
  mount(request: VolumeRequest, call?: VolumeCall): Promise<Mounted> {
    return this.#volumes.mount(request, call);
  }
  unmount(target: { readonly path: string }, call?: VolumeCall): Promise<void> {
    return this.#volumes.unmount(target, call);
  }

  #meet(problem: string, work: () => Promise<void>): void {
    this.#meetings.push(
      work().catch((error: unknown) => {
        if (!this.#stop.signal.aborted) this.#options.log.error({ error: String(error) }, problem);
      }),
    );
  }

  /** What this node had staged when it ended is still in use. */
  async #adopt(inUse: VolumesInUse): Promise<void> {
    const staged = (await this.#staging.all()).filter(({ attachable }) => attachable);
    for (const { driver, volumeHandle } of staged) inUse.adopt(driver, volumeHandle);
    if (staged.length > 0) await this.#insist(() => inUse.write());
  }

  async #begin(config: DriverConfig, at: number, nodeName: string): Promise<void> {
    const { clock, log, informers, dataDir } = this.#options;
    const { signal } = this.#stop;
    const provisions = config.provision && (await this.#mayProvision());
    if (isOwn(config) && provisions) {
      // its class is there before somebody can name it
      const lazy = config.csiDriver?.storageCapacity === true ? undefined : firstUse(ownName, informers, signal);
      // a process that nobody needs is not started
      await lazy;
    }
    const options = { nodeName, clock, log, signal };
    const { socket, stop } =
      'run' in config ? await runDriver(config.run, join(dataDir, `driver-${at}`), options) : { socket: config.socket, stop: undefined };
    if (stop !== undefined) this.#processes.push(stop);
    const driver = await meet(socket, config, { clock, log, signal });
    await this.#join(driver, nodeName, provisions, (work) => this.#insist(work));
  }

  /** Its name is known before it has answered. */
  async #announceOwn(config: DriverConfig): Promise<void> {
    const { client } = this.#options;
    await this.#insist(() => announce(ownName, config, true, client));
    await this.#defineSnapshots();
    await this.#insist(() => announceSnapshots(ownName, config, client));
  }

  /** Drivers that come with a registrar of their own. */
  async #listen(directory: string, nodeName: string): Promise<void> {
    const { clock, log, client, config } = this.#options;
    const sockets = new PluginSockets({
      directory,
      type: 'CSIPlugin',
      clock,
      log,
      register: async (plugin, signal) => {
        const problem = problemOf(plugin, this.#leave.has(plugin.name));
        if (problem !== undefined) throw new Error(problem);
        await this.#take(plugin, nodeName, signal);
      },
      deregister: async ({ name }) => {
        await this.#leave.get(name)?.();
        this.#leave.delete(name);
        await this.#insist(() => unregister(name, nodeName, client));
        log.info({ driver: name }, 'a volume driver has gone');
      },
    });
    if (config.provisionFor.length > 0) this.#meet('snapshots cannot be taken', () => this.#defineSnapshots());
    this.#sockets = sockets;
    await sockets.start();
  }

  async #take({ name, endpoint }: RegisteringPlugin, nodeName: string, signal: AbortSignal): Promise<void> {
    const { clock, log, config } = this.#options;
    const { provisionFor } = config;
    const provision = (provisionFor.includes(name) || provisionFor.includes('*')) && (await this.#mayProvision());
    const driver = await meet(endpoint, { socket: endpoint, provision, central: true }, { clock, log, signal });
    if (driver.name !== name) {
      driver.client.close();
      throw new Error(`the plugin registers as ${name}, and its driver says that it is ${driver.name}`);
    }
    await this.#join(driver, nodeName, provision, (work) => work());
  }

  async #join(driver: CsiDriver, nodeName: string, provisions: boolean, insist: <T>(work: () => Promise<T>) => Promise<T>): Promise<void> {
    const { log, client, informers, events, clock } = this.#options;
    const { name, controllerAbilities, config } = driver;
    try {
      await insist(async () => {
        await announce(name, config, controllerAbilities.has('CONTROLLER_EXPAND_VOLUME'), client);
        await register(driver, nodeName, client);
      });
    } catch (error) {
      driver.client.close();
      throw error;
    }
    this.#drivers.set(name, driver);
    const limits = new NodeLimits({ driver, nodeName, client, informers, clock, log });
    this.#limits.set(name, limits);
    limits.start();
    let begun: readonly Sidecar[] = [];
    let left = false;
    const end = async () => {
      for (const each of begun.toReversed()) await each.stop();
    };
    this.#leave.set(name, async () => {
      left = true;
      this.#drivers.delete(name);
      this.#limits.delete(name);
      await limits.stop();
      await end();
      driver.client.close();
    });
    log.info({ driver: name, provisions }, 'a volume driver is registered');
    if (!provisions) return;
    begun = await insist(() =>
      startSidecars({
        driver,
        nodeName,
        client,
        informers,
        recorder: events.recorder(name),
        clock,
        log,
        staging: this.#staging,
        expansion: this.#expansion,
      }),
    );
    // it may have gone meanwhile
    if (left) await end();
  }

  /** Once for all drivers. */
  #defineSnapshots(): Promise<void> {
    const { client, informers } = this.#options;
    this.#snapshots ??= this.#insist(() => defineSnapshots(client, informers, this.#stop.signal));
    return this.#snapshots;
  }

  /** Until it succeeds, or the node stops. */
  async #insist<T>(work: () => Promise<T>): Promise<T> {
    const { clock, log } = this.#options;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const { signal } = this.#stop;
        signal.throwIfAborted();
        log.warn({ error: String(error), retryMs: againMs }, 'a volume driver cannot be announced yet');
        await clock.sleep(againMs, signal);
      }
    }
  }

  /** A node that joined may write no PersistentVolumes, unless it is allowed to. */
  #mayProvision(): Promise<boolean> {
    this.#provisions ??= this.#insist(() => this.#askWhetherItMay());
    return this.#provisions;
  }
  async #askWhetherItMay(): Promise<boolean> {
    try {
      await this.#options.client.list(persistentVolumes, { limit: 1 });
      return true;
    } catch (error) {
      if (!isStatus(error, 'Forbidden')) throw error;
      this.#options.log.info({}, 'this node may not write PersistentVolumes: it mounts volumes and provisions none');
      return false;
    }
  }
}
