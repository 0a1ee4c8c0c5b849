import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { VolumeUsage } from '@oarlock/spi/volume';
import { LinkedSignal } from '../linked-signal.ts';
import type { PodRecord } from '../pod-record.ts';
import type { MountedVolume } from './volume-manager.ts';

export interface VolumeUsagesOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** How long what was measured counts. Milliseconds. */
  readonly periodMs: number;
}

/** Usage of a volume and when it was measured: milliseconds of the epoch. */
export interface MeasuredVolume {
  readonly at: number;
  readonly usage: VolumeUsage;
}
export interface TellingVolume extends MeasuredVolume {
  readonly volume: MountedVolume;
}

/** How long a reader waits for a measurement; longer ones are for the next. Milliseconds. */
const patienceMs = 1_000;
/** How long a measurement may take: upstream's time for calls of CSI drivers. Milliseconds. */
const longestMs = 120_000;

interface Entry {
  last?: MeasuredVolume | undefined;
  running?: Promise<void> | undefined;
  /** Of the monotonic clock. */
  begunAt: number;
  /** Somebody has waited for it in vain: nobody else does. */
  late: boolean;
  abnormal: boolean;
}

/**
 * What mounted volumes hold. Measured when somebody asks and what is known has become old, one at a time for each volume; a driver that
 * hangs costs its first reader some patience, and others see what was known. What could not be measured is told of no more, as upstream.
 */
export class VolumeUsages {
  readonly #options: VolumeUsagesOptions;
  readonly #entries = new WeakMap<MountedVolume, Entry>();

  constructor(options: VolumeUsagesOptions) {
    this.#options = options;
  }

  /** Those volumes of a pod, of the `wanted`, that anything is known of. Does not reject. */
  async of(record: PodRecord, wanted: (volume: MountedVolume) => boolean = () => true): Promise<readonly TellingVolume[]> {
    if (record.runtime?.hollow !== false) return []; // nothing was made for it
    const found = await Promise.all(
      [...record.volumes.values()].filter(wanted).map(async (volume) => {
        const measured = await this.#measured(record, volume);
        return measured === undefined ? [] : [{ volume, ...measured }];
      }),
    );
    return found.flat();
  }

  async #measured(record: PodRecord, volume: MountedVolume): Promise<MeasuredVolume | undefined> {
    if (volume.driver.usage === undefined) return undefined;
    const { clock, periodMs, signal } = this.#options;
    let entry = this.#entries.get(volume);
    if (entry === undefined) {
      entry = { begunAt: Number.NEGATIVE_INFINITY, late: false, abnormal: false };
      this.#entries.set(volume, entry);
    }
    if (entry.running === undefined && clock.monotonic() - entry.begunAt >= periodMs && !signal.aborted)
      entry.running = this.#measure(record, volume, entry);
    if (entry.running !== undefined && !entry.late) await this.#wait(entry, entry.running);
    return entry.last;
  }

  #wait(entry: Entry, running: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(patienceMs, () => {
        entry.late = true;
        resolve();
      });
      void running.then(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  async #measure(record: PodRecord, volume: MountedVolume, entry: Entry): Promise<void> {
    const { clock, log, signal } = this.#options;
    const { name: volumeName, path, hostPath, device } = volume;
    const limit = new LinkedSignal(signal);
    const timer = clock.after(longestMs, () => limit.abort(new Error(`no answer within ${longestMs} ms`)));
    entry.begunAt = clock.monotonic();
    entry.late = false;
    try {
      const target = { podUid: record.uid, volumeName, path, hostPath, device };
      const usage = await volume.driver.usage?.(target, { signal: limit.signal });
      entry.last = usage && { at: clock.now(), usage };
      this.#tellOf(record, volumeName, entry);
    } catch (error) {
      entry.last = undefined;
      if (!signal.aborted) log.warn({ err: error, pod: record.key, volume: volumeName }, 'the usage of a volume could not be read');
    } finally {
      timer.cancel();
      limit.release();
      entry.running = undefined;
    }
  }

  /** Once for each time that a volume turns bad. */
  #tellOf(record: PodRecord, volumeName: string, entry: Entry): void {
    const { abnormal = false, message = '' } = entry.last?.usage.condition ?? {};
    if (abnormal && !entry.abnormal) record.event('Warning', 'VolumeConditionAbnormal', `Volume ${volumeName}: ${message}`);
    entry.abnormal = abnormal;
  }
}
