import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { VolumeCondition } from '@oarlock/csi/csi-types';
import type { Timer } from '@oarlock/primitives/clock';
import type { Informer } from '@oarlock/spi/client';
import { callErrorText } from '../volume/call-error-text.ts';
import { isHere } from '../volume/provisioned-volume.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';

/** How often the volumes are listed, and how often each volume is queried if they cannot be listed. Milliseconds. As external-health-monitor. */
const periodMs = { list: 300_000, get: 60_000 };

/**
 * Does the work of external-health-monitor (KEP-1432): reads the conditions of the driver's bound volumes from its controller service, and reports
 * changes as events of their claims. Volumes that are already abnormal when the process starts are reported again.
 */
export class HealthMonitor implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #stop = new AbortController();
  /** The messages of abnormal volumes, by the name of the PersistentVolume. */
  readonly #abnormal = new Map<string, string>();
  #timer: Timer | undefined;
  #check: Promise<void> = Promise.resolve();

  constructor(options: SidecarOptions) {
    this.#options = options;
    this.#volumes = options.informers.forResource(persistentVolumes);
    this.#claims = options.informers.forResource(persistentVolumeClaims);
  }

  start(): void {
    const { signal } = this.#stop;
    void Promise.all([this.#volumes.whenSynced(signal), this.#claims.whenSynced(signal)]).then(
      () => this.#run(),
      () => undefined, // stopped before the caches synced
    );
  }
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the health monitor is stopping'));
    this.#timer?.cancel();
    await this.#check;
  }

  get #lists(): boolean {
    return this.#options.driver.controllerCapabilities.has('LIST_VOLUMES');
  }

  #run(): void {
    const { clock, log, driver } = this.#options;
    this.#check = (this.#lists ? this.#checkByList() : this.#checkEach())
      .catch((error: unknown) => {
        if (!this.#stop.signal.aborted)
          log.warn({ driver: driver.name, error: callErrorText(error) }, 'cannot read the conditions of volumes');
      })
      .finally(() => {
        if (this.#stop.signal.aborted) return;
        this.#timer = clock.after(this.#lists ? periodMs.list : periodMs.get, () => this.#run());
      });
  }

  async #checkByList(): Promise<void> {
    const { client } = this.#options.driver;
    const volumes = new Map(this.#monitored().map((volume) => [volume.spec?.csi?.volumeHandle ?? '', volume]));
    this.#forgetOthers([...volumes.values()]);
    for await (const { volume, status } of client.listVolumes({ signal: this.#stop.signal })) {
      const found = volumes.get(volume.volumeId);
      if (found !== undefined) this.#report(found, status.volumeCondition);
    }
  }

  async #checkEach(): Promise<void> {
    const { driver, log } = this.#options;
    const { signal } = this.#stop;
    const volumes = this.#monitored();
    this.#forgetOthers(volumes);
    for (const volume of volumes) {
      try {
        this.#report(volume, await driver.client.volumeCondition(volume.spec?.csi?.volumeHandle ?? '', { signal }));
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ volume: volume.metadata?.name, error: callErrorText(error) }, 'cannot read the condition of a volume');
      }
    }
  }

  #monitored(): readonly PersistentVolume[] {
    const { driver } = this.#options;
    return this.#volumes
      .list()
      .filter((volume) => volume.spec?.csi?.driver === driver.name && volume.status?.phase === 'Bound' && isHere(volume, driver));
  }
  #forgetOthers(volumes: readonly PersistentVolume[]): void {
    const names = new Set(volumes.map(({ metadata }) => metadata?.name ?? ''));
    for (const name of this.#abnormal.keys()) if (!names.has(name)) this.#abnormal.delete(name);
  }

  #report({ metadata, spec }: PersistentVolume, condition: VolumeCondition | undefined): void {
    const { recorder } = this.#options;
    const claim = this.#claims.get(`${spec?.claimRef?.namespace}/${spec?.claimRef?.name}`);
    if (condition === undefined || claim === undefined) return;
    const name = metadata?.name ?? '';
    const previous = this.#abnormal.get(name);
    if (condition.abnormal) {
      this.#abnormal.set(name, condition.message);
      if (previous !== condition.message) recorder.event(claim, 'Warning', 'VolumeConditionAbnormal', condition.message);
    } else if (this.#abnormal.delete(name))
      recorder.event(claim, 'Normal', 'VolumeConditionNormal', 'The Volume returns to the healthy state');
  }
}
