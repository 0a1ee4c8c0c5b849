import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, EventSource, Informers } from '@oarlock/spi/client';
import type { VolumeCall, VolumeDriver, VolumeRequest } from '@oarlock/spi/volume';
import { ownName, type DriverConfig, type VolumeCsiConfig } from './config.ts';
import { meet, type CsiDriver } from './csi-driver.ts';
import { CsiVolumes } from './csi-volumes.ts';
import { DriverProcess } from './driver-process.ts';
import { firstUse } from './first-use.ts';
import { Provisioner } from './provisioner.ts';
import { announce, register } from './registration.ts';
import { Staging } from './staging.ts';

export interface VolumeCsiOptions {
  readonly config: VolumeCsiConfig;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly clock: Clock;
  readonly log: Logger;
  readonly dataDir: string;
}

/** The name of a socket has to be shorter than this. */
const longestSocket = 100;
const againMs = 1_000;

/** CSI drivers of a node: runs those that it is to run, meets all of them, says so in the API, mounts their volumes and provisions for them. */
export class VolumeCsi implements VolumeDriver {
  readonly #options: VolumeCsiOptions;
  readonly #drivers = new Map<string, CsiDriver>();
  readonly #volumes: CsiVolumes;
  readonly #stop = new AbortController();
  readonly #stops: (() => Promise<void>)[] = [];
  readonly #meetings: Promise<void>[] = [];

  constructor(options: VolumeCsiOptions) {
    this.#options = options;
    const staging = new Staging(join(options.dataDir, 'staging'));
    this.#volumes = new CsiVolumes({ client: options.client, staging, drivers: this.#drivers });
  }

  begin(nodeName: string): void {
    for (const [at, config] of this.#options.config.drivers.entries()) {
      this.#meetings.push(
        this.#begin(config, at, nodeName).catch((error: unknown) => {
          if (!this.#stop.signal.aborted) this.#options.log.error({ error: String(error) }, 'a volume driver cannot be used');
        }),
      );
    }
  }

  /** Names of the drivers that have answered. */
  get names(): readonly string[] {
    return [...this.#drivers.keys()];
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    await Promise.all(this.#meetings);
    for (const stop of this.#stops.reverse()) await stop();
  }

  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return this.#volumes.supports(volume, persistentVolume);
  }
  mount(request: VolumeRequest, call?: VolumeCall): Promise<{ readonly hostPath: string }> {
    return this.#volumes.mount(request, call);
  }
  unmount(target: { readonly path: string }, call?: VolumeCall): Promise<void> {
    return this.#volumes.unmount(target, call);
  }

  async #begin(config: DriverConfig, at: number, nodeName: string): Promise<void> {
    const { clock, log, client, informers, events, dataDir } = this.#options;
    const { signal } = this.#stop;
    const provisions = config.provision && (await this.#insist(() => this.#mayProvision()));
    const own = 'run' in config && config.run === 'csi-hostpath';
    if (own && provisions) {
      await this.#insist(() => announce(ownName, config, true, client));
      // a process that nobody needs is not started
      await firstUse(ownName, informers, signal);
    }
    const socket = 'run' in config ? await this.#run(config.run, join(dataDir, `driver-${at}`), nodeName) : config.socket;
    const driver = await meet(socket, config, { clock, log, signal });
    const { name, controllerAbilities } = driver;
    this.#stops.push(() => Promise.resolve(driver.client.close()));
    this.#drivers.set(name, driver);
    await this.#insist(async () => {
      await announce(name, config, controllerAbilities.has('CONTROLLER_EXPAND_VOLUME'), client);
      await register(driver, nodeName, client);
    });
    log.info({ driver: name, socket, provisions }, 'a volume driver is registered');
    if (!provisions) return;
    const provisioner = new Provisioner({ driver, nodeName, client, informers, recorder: events.recorder(name), clock, log });
    this.#stops.push(() => provisioner.stop());
    provisioner.start();
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

  /** A node that joined writes no PersistentVolumes. */
  async #mayProvision(): Promise<boolean> {
    try {
      await this.#options.client.list(persistentVolumes, { limit: 1 });
      return true;
    } catch (error) {
      if (!isStatus(error, 'Forbidden')) throw error;
      this.#options.log.info({}, 'this node may not write PersistentVolumes: it mounts volumes and provisions none');
      return false;
    }
  }

  async #run(run: 'csi-hostpath' | readonly string[], directory: string, nodeName: string): Promise<string> {
    const { clock, log } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const beside = join(directory, 'csi.sock');
    const elsewhere = join(tmpdir(), `oarlock-csi-${createHash('sha256').update(directory).digest('hex').slice(0, 12)}`);
    const socket = beside.length < longestSocket ? beside : join(elsewhere, 'csi.sock');
    if (socket !== beside) await mkdir(elsewhere, { recursive: true, mode: 0o700 });
    const process = new DriverProcess({ run, socket, nodeName, dataDir: join(directory, 'data'), clock, log, signal: this.#stop.signal });
    this.#stops.push(() => process.stop());
    process.start();
    return socket;
  }
}
