import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { VolumeUsage } from '@oarlock/spi/volume';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import type { MountedVolume } from '../volumes/volume-manager.ts';

export interface VolumeStatCalculatorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** How long a measurement is valid. Milliseconds. */
  readonly periodMs: number;
}

/** The properties of a pod that the calculator reads. */
export interface VolumeStatPod {
  readonly uid: string;
  /** The key of the pod, `namespace/name`. */
  readonly key: string;
  readonly runtime: { readonly hollow: boolean } | undefined;
  readonly volumes: ReadonlyMap<string, MountedVolume>;
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

/** The usage of a volume, and the time of the measurement in milliseconds since the epoch. */
export interface VolumeMeasurement {
  readonly at: number;
  readonly usage: VolumeUsage;
}
export interface VolumeStat extends VolumeMeasurement {
  readonly volume: MountedVolume;
}

/** How long a reader waits for a measurement. A measurement that takes longer serves the next reader. Milliseconds. */
const readerTimeoutMs = 1_000;
/** The maximum duration of a measurement, which is upstream's timeout of calls to CSI drivers. Milliseconds. */
const measurementTimeoutMs = 120_000;

interface Entry {
  last?: VolumeMeasurement | undefined;
  running?: Promise<void> | undefined;
  /** The start of the last measurement on the monotonic clock. */
  begunAt: number;
  /** True if a reader timed out on the running measurement. Later readers then do not wait for it. */
  late: boolean;
  abnormal: boolean;
}

/**
 * Measures the usage of mounted volumes on demand, if the last measurement is older than the period. A volume has at most one measurement at a
 * time. The first reader waits for a short time; later readers get the previous result. As upstream, failed measurements are omitted.
 */
export class VolumeStatCalculator {
  readonly #options: VolumeStatCalculatorOptions;
  readonly #entries = new WeakMap<MountedVolume, Entry>();

  constructor(options: VolumeStatCalculatorOptions) {
    this.#options = options;
  }

  /** Returns the stats of the pod's measured volumes for which `wanted` returns true. Never rejects. */
  async volumeStats(pod: VolumeStatPod, wanted: (volume: MountedVolume) => boolean = () => true): Promise<readonly VolumeStat[]> {
    if (pod.runtime?.hollow !== false) return []; // a hollow runtime has no volumes on disk
    const found = await Promise.all(
      [...pod.volumes.values()].filter(wanted).map(async (volume) => {
        const measured = await this.#measured(pod, volume);
        return measured === undefined ? [] : [{ volume, ...measured }];
      }),
    );
    return found.flat();
  }

  async #measured(pod: VolumeStatPod, volume: MountedVolume): Promise<VolumeMeasurement | undefined> {
    if (volume.driver.usage === undefined) return undefined;
    const { clock, periodMs, signal } = this.#options;
    let entry = this.#entries.get(volume);
    if (entry === undefined) {
      entry = { begunAt: Number.NEGATIVE_INFINITY, late: false, abnormal: false };
      this.#entries.set(volume, entry);
    }
    if (entry.running === undefined && clock.monotonic() - entry.begunAt >= periodMs && !signal.aborted)
      entry.running = this.#measure(pod, volume, entry);
    if (entry.running !== undefined && !entry.late) await this.#wait(entry, entry.running);
    return entry.last;
  }

  #wait(entry: Entry, running: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(readerTimeoutMs, () => {
        entry.late = true;
        resolve();
      });
      void running.then(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  async #measure(pod: VolumeStatPod, volume: MountedVolume, entry: Entry): Promise<void> {
    const { clock, log, signal } = this.#options;
    const { name: volumeName, path, hostPath, device } = volume;
    const limit = new LinkedSignal(signal);
    const timer = clock.after(measurementTimeoutMs, () => limit.abort(new Error(`no response within ${measurementTimeoutMs} ms`)));
    entry.begunAt = clock.monotonic();
    entry.late = false;
    try {
      const target = { podUid: pod.uid, volumeName, path, hostPath, device };
      const usage = await volume.driver.usage?.(target, { signal: limit.signal });
      entry.last = usage && { at: clock.now(), usage };
      this.#recordCondition(pod, volumeName, entry);
    } catch (error) {
      entry.last = undefined;
      if (!signal.aborted) log.warn({ err: error, pod: pod.key, volume: volumeName }, 'reading the usage of a volume failed');
    } finally {
      timer.cancel();
      limit.release();
      entry.running = undefined;
    }
  }

  /** Records an event each time the volume condition becomes abnormal. */
  #recordCondition(pod: VolumeStatPod, volumeName: string, entry: Entry): void {
    const { abnormal = false, message = '' } = entry.last?.usage.condition ?? {};
    if (abnormal && !entry.abnormal) pod.event('Warning', 'VolumeConditionAbnormal', `Volume ${volumeName}: ${message}`);
    entry.abnormal = abnormal;
  }
}
