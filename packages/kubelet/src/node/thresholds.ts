import { Amount, parseQuantity, value } from '@oarlock/api/quantity';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { Observations, SignalName } from './observations.ts';

/** Conditions of the node that keep pods away. */
export interface Pressure {
  readonly memory: boolean;
  readonly disk: boolean;
  readonly pids: boolean;
}
export const noPressure: Pressure = { memory: false, disk: false, pids: false };

/** The resource that is short, as messages name it. */
export type ShortResource = 'memory' | 'ephemeral-storage' | 'inodes' | 'pids';
type Key = keyof KubeletConfig['evictionHard'];

/** Config key, signal, resource and condition of each; the most urgent first. */
const kinds: readonly (readonly [key: Key, signal: SignalName, resource: ShortResource, condition: keyof Pressure])[] = [
  ['memoryAvailable', 'memory.available', 'memory', 'memory'],
  ['diskAvailable', 'nodefs.available', 'ephemeral-storage', 'disk'],
  ['inodesFree', 'nodefs.inodesFree', 'inodes', 'disk'],
  ['imageAvailable', 'imagefs.available', 'ephemeral-storage', 'disk'],
  ['imageInodesFree', 'imagefs.inodesFree', 'inodes', 'disk'],
  ['pidAvailable', 'pid.available', 'pids', 'pids'],
];

interface Threshold {
  readonly signal: SignalName;
  readonly resource: ShortResource;
  readonly condition: keyof Pressure;
  readonly limit: string;
  readonly reclaim: string;
  /** How long it has to be met; 0: at once. Milliseconds. */
  readonly graceMs: number;
  readonly soft: boolean;
}

/** A threshold that has been met for long enough. */
export interface Shortage {
  readonly signal: SignalName;
  readonly resource: ShortResource;
  readonly soft: boolean;
  /** Threshold and what is left, as messages show them. */
  readonly limit: string;
  readonly available: string;
}

/** A quantity, or a part of `capacity` when it ends with `%`. */
export function amountOf(text: string, capacity: number): number {
  return text.endsWith('%') ? (capacity * Number(text.slice(0, -1))) / 100 : value(parseQuantity(text));
}

export const shown = (bytes: number, resource: ShortResource): string =>
  Amount.of(Math.floor(bytes), 1, resource === 'memory' || resource === 'ephemeral-storage' ? 'BinarySI' : 'DecimalSI').toString();

export type ThresholdConfig = Pick<
  KubeletConfig,
  'evictionHard' | 'evictionSoft' | 'evictionMinimumReclaim' | 'evictionPressureTransitionSeconds'
>;

/** Remembers since when the node has been short of what. */
export class Thresholds {
  readonly #all: readonly Threshold[];
  readonly #transitionMs: number;
  /** When each was first met, and not left since. */
  readonly #since = new Map<Threshold, number>();
  /** When each condition was last true. */
  readonly #last = new Map<keyof Pressure, number>();
  #shortages: readonly Shortage[] = [];

  constructor({ evictionHard, evictionSoft, evictionMinimumReclaim, evictionPressureTransitionSeconds }: ThresholdConfig) {
    this.#transitionMs = evictionPressureTransitionSeconds * 1000;
    this.#all = kinds.flatMap(([key, signal, resource, condition]): Threshold[] => {
      const common = { signal, resource, condition, reclaim: evictionMinimumReclaim[key] ?? '0' };
      const soft = evictionSoft[key];
      return [
        { ...common, limit: evictionHard[key], graceMs: 0, soft: false },
        ...(soft ? [{ ...common, limit: soft.below, graceMs: soft.forSeconds * 1000, soft: true }] : []),
      ];
    });
  }

  /** The shortages that the last look found, the most urgent first. */
  get shortages(): readonly Shortage[] {
    return this.#shortages;
  }

  /** Takes in what is left. A condition stays for a while after its cause has gone, so that it does not flap. */
  look(observations: Observations, now: number): Pressure {
    const found: Shortage[] = [];
    for (const threshold of this.#all) {
      const { signal, resource, condition, limit, reclaim, graceMs, soft } = threshold;
      const seen = observations[signal];
      if (seen === undefined) continue;
      const least = amountOf(limit, seen.capacity);
      const enough = this.#since.has(threshold) ? least + amountOf(reclaim, seen.capacity) : least;
      if (least <= 0 || seen.available >= enough) {
        this.#since.delete(threshold);
        continue;
      }
      const since = this.#since.get(threshold) ?? now;
      this.#since.set(threshold, since);
      this.#last.set(condition, now);
      if (now - since >= graceMs)
        found.push({ signal, resource, soft, limit: shown(least, resource), available: shown(seen.available, resource) });
    }
    this.#shortages = found;
    const pressed = (condition: keyof Pressure) => {
      const last = this.#last.get(condition);
      return last !== undefined && (last === now || now - last < this.#transitionMs);
    };
    return { memory: pressed('memory'), disk: pressed('disk'), pids: pressed('pids') };
  }
}
