import { join } from 'node:path';
import { nodes, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import type { RegistrationInfo } from '@oarlock/grpc/registration-client';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, EventRecorderFactory, Informers } from '@oarlock/spi/client';
import { VolumeError, type MountResult, type VolumeCallOptions, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import { isOwn, knownName, ownName, type DriverConfig, type VolumeCsiConfig } from './driver/config.ts';
import { connectDriver, type CsiDriver } from './driver/csi-driver.ts';
import { CsiVolumes } from './node/csi-volumes.ts';
import { runDriver } from './driver/driver-process.ts';
import { waitForFirstUse } from './registration/wait-for-first-use.ts';
import { NodeExpansion } from './node/node-expansion.ts';
import { containerFileContext } from './node/selinux-mount.ts';
import { NodeLimits } from './registration/node-limits.ts';
import { OnlineExpansion } from './node/online-expansion.ts';
import { PluginWatcher } from '@oarlock/grpc/plugin-watcher';
import { validatePlugin } from './registration/validate-plugin.ts';
import {
  createDriverObjects,
  createSnapshotClass,
  installDriver,
  uninstallDriver,
  type RegistrationContext,
} from './registration/registration.ts';
import type { Sidecar } from './sidecars/sidecar.ts';
import { maySnapshot, startClusterControllers, startGroupControllers, startSidecars } from './start-sidecars.ts';
import { defineKinds } from './snapshot-api/define-kinds.ts';
import { groupDefinitions } from './snapshot-api/group-definitions.ts';
import { populatorDefinition, snapshotDefinitions } from './snapshot-api/snapshot-definitions.ts';
import { Staging } from './node/staging.ts';
import { volumeUsage } from './node/volume-usage.ts';
import { VolumesInUse } from './node/volumes-in-use.ts';

export interface VolumeCsiOptions {
  readonly config: VolumeCsiConfig;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventRecorderFactory;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dataDir: string;
  /** Returns the SELinux context of files of containers on this machine; undefined without SELinux. */
  readonly fileContext?: () => Promise<string | undefined>;
}

const retryDelayMs = 1_000;
/** How long a pod start waits for an attachment before the start is retried. Milliseconds. */
const attachTimeoutMs = 120_000;

/** What a driver is set up with. */
interface DriverSetup {
  readonly nodeName: string;
  readonly provisions: boolean;
  /** runs the registration in the API, with or without retries */
  readonly withRetry: <T>(work: () => Promise<T>) => Promise<T>;
}

/**
 * The CSI drivers of a node. Starts the configured drivers, connects to all drivers, registers them in the API, mounts their volumes and provisions
 * volumes for them.
 */
export class VolumeCsi implements VolumeDriver {
  readonly #options: VolumeCsiOptions;
  readonly #registration: RegistrationContext;
  readonly #drivers = new Map<string, CsiDriver>();
  readonly #volumes: CsiVolumes;
  readonly #staging: Staging;
  readonly #expansion: NodeExpansion;
  readonly #growth: OnlineExpansion;
  readonly #stop = new AbortController();
  readonly #processes: (() => Promise<void>)[] = [];
  readonly #limits = new Map<string, NodeLimits>();
  readonly #removers = new Map<string, () => Promise<void>>();
  readonly #tasks: Promise<void>[] = [];
  readonly usage: NonNullable<VolumeDriver['usage']> = (target, call) => volumeUsage(target, this.#drivers, call);
  #inUse: VolumesInUse | undefined;
  #nodeName: string | undefined;
  #pluginWatcher: PluginWatcher | undefined;
  #snapshotDefinitions: Promise<void> | undefined;
  #groupDefinitions: Promise<void> | undefined;
  #provisionPermission: Promise<boolean> | undefined;

  constructor(options: VolumeCsiOptions) {
    const { config, client, dataDir, events, clock, log } = options;
    this.#options = options;
    this.#registration = { client, onMissing: (message) => this.#reportMissing(message) };
    const { kubeletDir } = config;
    this.#staging = new Staging(kubeletDir === undefined ? join(dataDir, 'staging') : join(kubeletDir, 'plugins/kubernetes.io/csi'));
    this.#expansion = new NodeExpansion(client, this.#staging, events.recorder('kubelet'));
    const [staging, expansion] = [this.#staging, this.#expansion];
    this.#growth = new OnlineExpansion({ client, staging, expansion, clock, log, random: Math.random });
    this.#volumes = new CsiVolumes({
      client,
      staging,
      drivers: this.#drivers,
      expansion,
      growth: this.#growth,
      fileContext: options.fileContext ?? containerFileContext,
      inUse: () => {
        if (this.#inUse === undefined) throw new VolumeError('NotReady', 'the node is not known yet');
        return this.#inUse;
      },
    });
  }

  /** Creates the cluster-scoped objects of the drivers, also in a process without a node, if the process may create them. */
  async start(): Promise<void> {
    for (const driver of this.#options.config.drivers) {
      const name = knownName(driver);
      if (name === undefined) continue;
      this.#track('cannot create the classes of a CSI driver', async () => {
        if (await this.#canProvision()) await this.#announce(name, driver);
      });
    }
  }

  setNodeName(nodeName: string): void {
    const { config, client, clock, informers } = this.#options;
    this.#nodeName = nodeName;
    const inUse = new VolumesInUse({
      client,
      nodeName,
      clock,
      node: () => informers.forResource(nodes, { fieldSelector: `metadata.name=${nodeName}` }),
      attachTimeoutMs,
      onResourceExhausted: (driver) => this.#limits.get(driver)?.onResourceExhausted(),
    });
    this.#inUse = inUse;
    this.#track('cannot report the volumes that were mounted before the restart', () => this.#adopt(inUse));
    for (const [at, driver] of config.drivers.entries())
      this.#track('cannot use a CSI driver', () => this.#startDriver(driver, at, nodeName));
    if (config.kubeletDir !== undefined) {
      const directory = join(config.kubeletDir, 'plugins_registry');
      this.#track('CSI drivers cannot register', () => this.#watchPlugins(directory, nodeName));
    }
  }

  /** The names of the connected CSI drivers. */
  get names(): readonly string[] {
    return [...this.#drivers.keys()];
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    this.#growth.stop();
    await Promise.all(this.#tasks);
    await this.#pluginWatcher?.stop();
    for (const remove of this.#removers.values()) await remove();
    await Promise.all(this.#processes.map((stop) => stop()));
  }

  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return this.#volumes.supports(volume, persistentVolume);
  }
  mount(request: VolumeRequest, call?: VolumeCallOptions): Promise<MountResult> {
    return this.#volumes.mount(request, call);
  }
  unmount(target: { readonly path: string }, call?: VolumeCallOptions): Promise<void> {
    return this.#volumes.unmount(target, call);
  }

  #track(problem: string, work: () => Promise<void>): void {
    this.#tasks.push(
      work().catch((error: unknown) => {
        if (!this.#stop.signal.aborted) this.#options.log.error({ error: String(error) }, problem);
      }),
    );
  }

  /** Reports a missing object of the cluster in the log and, on a node, as an event of the Node. */
  #reportMissing(message: string): void {
    const { log, events } = this.#options;
    log.error({}, message);
    if (this.#nodeName === undefined) return;
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: this.#nodeName, uid: this.#nodeName } };
    events.recorder('kubelet', this.#nodeName).event(node, 'Warning', 'FailedCreate', message);
  }

  /** Marks the volumes as in use that were staged before this process started. */
  async #adopt(inUse: VolumesInUse): Promise<void> {
    const staged = (await this.#staging.list()).filter(({ attachable }) => attachable);
    for (const { driver, volumeHandle } of staged) inUse.adopt(driver, volumeHandle);
    if (staged.length > 0) await this.#retry(() => inUse.write());
  }

  async #startDriver(config: DriverConfig, at: number, nodeName: string): Promise<void> {
    const { clock, log, informers, dataDir } = this.#options;
    const { signal } = this.#stop;
    const provisions = config.provision && (await this.#canProvision());
    if (isOwn(config) && provisions) {
      // the default driver is started when a claim or volume first needs it, unless it has to report capacity
      await (config.csiDriver?.storageCapacity === true ? undefined : waitForFirstUse(ownName, informers, signal));
    }
    const options = { nodeName, clock, log, signal };
    const { socket, stop } =
      'run' in config ? await runDriver(config.run, join(dataDir, `driver-${at}`), options) : { socket: config.socket, stop: undefined };
    if (stop !== undefined) this.#processes.push(stop);
    const driver = await connectDriver(socket, config, { clock, log, signal });
    if (config.name !== undefined && driver.name !== config.name) {
      driver.client.close();
      throw new Error(`the cluster file names the driver ${config.name}, but the driver has the name ${driver.name}`);
    }
    await this.#addDriver(driver, { nodeName, provisions, withRetry: (work) => this.#retry(work) });
  }

  /** Creates the API objects of a driver with a known name before the driver has answered. */
  async #announce(name: string, config: DriverConfig): Promise<void> {
    const own = isOwn(config);
    await this.#retry(() => createDriverObjects(name, { driverConfig: config, allowVolumeExpansion: own, context: this.#registration }));
    if (!own) return;
    await this.#defineSnapshots();
    await this.#retry(() => createSnapshotClass(name, config, this.#registration));
  }

  /** Watches for CSI drivers that node-driver-registrar registers. */
  async #watchPlugins(directory: string, nodeName: string): Promise<void> {
    const { clock, log, client, config } = this.#options;
    const watcher = new PluginWatcher({
      directory,
      type: 'CSIPlugin',
      clock,
      log,
      register: async (plugin, signal) => {
        const problem = validatePlugin(plugin, this.#removers.has(plugin.name));
        if (problem !== undefined) throw new Error(problem);
        await this.#registerDriver(plugin, nodeName, signal);
      },
      deregister: async ({ name }) => {
        await this.#removers.get(name)?.();
        this.#removers.delete(name);
        await this.#retry(() => uninstallDriver(name, nodeName, client));
        log.info({ driver: name }, 'a CSI driver was removed');
      },
    });
    if (config.provisionFor.length > 0) this.#track('cannot create the snapshot CRDs', () => this.#defineSnapshots());
    this.#pluginWatcher = watcher;
    await watcher.start();
  }

  async #registerDriver({ name, endpoint }: RegistrationInfo, nodeName: string, signal: AbortSignal): Promise<void> {
    const { clock, log, config } = this.#options;
    const { provisionFor } = config;
    const provision = (provisionFor.includes(name) || provisionFor.includes('*')) && (await this.#canProvision());
    const driver = await connectDriver(endpoint, { socket: endpoint, provision, central: true }, { clock, log, signal });
    if (driver.name !== name) {
      driver.client.close();
      throw new Error(`the plugin registers as ${name}, but its driver has the name ${driver.name}`);
    }
    await this.#addDriver(driver, { nodeName, provisions: provision, withRetry: (work) => work() });
  }

  /** Registers a connected driver in the API and starts the work for it. */
  async #addDriver(driver: CsiDriver, { nodeName, provisions, withRetry }: DriverSetup): Promise<void> {
    const { log, client, informers, events, clock } = this.#options;
    const { name, controllerCapabilities, nodeCapabilities, config } = driver;
    try {
      await withRetry(async () => {
        await createDriverObjects(name, {
          driverConfig: config,
          allowVolumeExpansion: controllerCapabilities.has('CONTROLLER_EXPAND_VOLUME') || nodeCapabilities.has('NODE_EXPAND_VOLUME'),
          context: this.#registration,
        });
        await installDriver(driver, nodeName, client);
      });
    } catch (error) {
      driver.client.close();
      throw error;
    }
    this.#drivers.set(name, driver);
    const limits = new NodeLimits({ driver, nodeName, client, informers, clock, log });
    this.#limits.set(name, limits);
    limits.start();
    const sidecars: Sidecar[] = [];
    let removed = false;
    const stopSidecars = async () => {
      for (const sidecar of sidecars.splice(0).toReversed()) await sidecar.stop();
    };
    const keep = async (started: readonly Sidecar[]) => {
      sidecars.push(...started);
      // the driver may have been removed in the meantime
      if (removed) await stopSidecars();
    };
    this.#removers.set(name, async () => {
      removed = true;
      this.#drivers.delete(name);
      this.#limits.delete(name);
      await limits.stop();
      await stopSidecars();
      driver.client.close();
    });
    log.info({ driver: name, provisions }, 'a CSI driver is registered');
    if (!(await this.#canProvision())) return;
    if (maySnapshot(driver)) this.#track('cannot create the snapshot CRDs', () => this.#defineSnapshots());
    const options = { driver, nodeName, client, informers, recorder: events.recorder(name), clock, log };
    const recorder = provisions ? options.recorder : events.recorder('snapshot-controller');
    const groups = { ...options, recorder, provisions, define: () => this.#defineGroups() };
    this.#track('cannot start the controllers of group snapshots', async () =>
      keep(await this.#retry(() => startGroupControllers(groups))),
    );
    await keep(
      await withRetry(() =>
        provisions
          ? startSidecars({ ...options, staging: this.#staging, expansion: this.#expansion })
          : startClusterControllers({ ...options, recorder }),
      ),
    );
  }

  /** Creates the snapshot CustomResourceDefinitions once for all drivers. */
  #defineSnapshots(): Promise<void> {
    const { client, informers } = this.#options;
    const { signal } = this.#stop;
    const definitions = [...snapshotDefinitions, populatorDefinition];
    this.#snapshotDefinitions ??= this.#retry(() => defineKinds(definitions, { client, informers, signal }));
    return this.#snapshotDefinitions;
  }
  async #defineGroups(): Promise<void> {
    const { client, informers } = this.#options;
    const { signal } = this.#stop;
    await this.#defineSnapshots();
    this.#groupDefinitions ??= this.#retry(() => defineKinds(groupDefinitions, { client, informers, signal }));
    await this.#groupDefinitions;
  }

  /** Runs work and retries it until it succeeds or the node stops. */
  async #retry<T>(work: () => Promise<T>): Promise<T> {
    const { clock, log } = this.#options;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const { signal } = this.#stop;
        signal.throwIfAborted();
        log.warn({ error: String(error), retryMs: retryDelayMs }, 'cannot register a CSI driver yet, retrying');
        await clock.sleep(retryDelayMs, signal);
      }
    }
  }

  /** Returns true if this node may write PersistentVolumes. A node that joined may not, unless a role permits it. */
  #canProvision(): Promise<boolean> {
    this.#provisionPermission ??= this.#retry(() => this.#probeProvisionPermission());
    return this.#provisionPermission;
  }
  async #probeProvisionPermission(): Promise<boolean> {
    try {
      await this.#options.client.list(persistentVolumes, { limit: 1 });
      return true;
    } catch (error) {
      if (!isStatus(error, 'Forbidden')) throw error;
      this.#options.log.info({}, 'this node may not write PersistentVolumes: it mounts volumes but does not provision them');
      return false;
    }
  }
}
