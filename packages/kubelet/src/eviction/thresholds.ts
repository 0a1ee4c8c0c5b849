import { ParsedQuantity, parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { NodePressure } from '../pod-util/node-pressure.ts';
import type { SignalObservations, EvictionSignal } from './signal-observations.ts';

/** The resource that an eviction reclaims, by its name in eviction messages. */
export type ReclaimableResource = 'memory' | 'ephemeral-storage' | 'inodes' | 'pids';
type Key = keyof KubeletConfig['evictionHard'];

/** The config key, eviction signal, resource and node condition of each threshold, most urgent first. */
const thresholdDefinitions: readonly (readonly [
  key: Key,
  signal: EvictionSignal,
  resource: ReclaimableResource,
  condition: keyof NodePressure,
])[] = [
  ['memoryAvailable', 'memory.available', 'memory', 'memory'],
  ['diskAvailable', 'nodefs.available', 'ephemeral-storage', 'disk'],
  ['inodesFree', 'nodefs.inodesFree', 'inodes', 'disk'],
  ['imageAvailable', 'imagefs.available', 'ephemeral-storage', 'disk'],
  ['imageInodesFree', 'imagefs.inodesFree', 'inodes', 'disk'],
  ['pidAvailable', 'pid.available', 'pids', 'pids'],
];

interface Threshold {
  readonly signal: EvictionSignal;
  readonly resource: ReclaimableResource;
  readonly condition: keyof NodePressure;
  readonly limit: string;
  readonly reclaim: string;
  /** How long the threshold must be met before pods are evicted; 0 for a hard threshold. Milliseconds. */
  readonly graceMs: number;
  readonly soft: boolean;
}

/** An eviction threshold that has been met for its grace period. */
export interface MetThreshold {
  readonly signal: EvictionSignal;
  readonly resource: ReclaimableResource;
  readonly soft: boolean;
  /** The threshold and the available quantity, formatted for eviction messages. */
  readonly limit: string;
  readonly available: string;
}

/** Parses a threshold: a quantity, or a percentage of `capacity` if `text` ends with `%`. */
export function thresholdValue(text: string, capacity: number): number {
  return text.endsWith('%') ? (capacity * Number(text.slice(0, -1))) / 100 : quantityValue(parseQuantity(text));
}

export const formatResource = (bytes: number, resource: ReclaimableResource): string =>
  ParsedQuantity.of(Math.floor(bytes), 1, resource === 'memory' || resource === 'ephemeral-storage' ? 'BinarySI' : 'DecimalSI').toString();

export type ThresholdConfig = Pick<
  KubeletConfig,
  'evictionHard' | 'evictionSoft' | 'evictionMinimumReclaim' | 'evictionPressureTransitionSeconds'
>;

/** Tracks which eviction thresholds are met, and for how long. */
export class EvictionThresholds {
  readonly #all: readonly Threshold[];
  readonly #transitionMs: number;
  /** The time at which each threshold was first met. A threshold that is not met has no entry. */
  readonly #since = new Map<Threshold, number>();
  /** The time at which each pressure condition was last met. */
  readonly #last = new Map<keyof NodePressure, number>();
  #met: readonly MetThreshold[] = [];

  constructor({ evictionHard, evictionSoft, evictionMinimumReclaim, evictionPressureTransitionSeconds }: ThresholdConfig) {
    this.#transitionMs = evictionPressureTransitionSeconds * 1000;
    this.#all = thresholdDefinitions.flatMap(([key, signal, resource, condition]): Threshold[] => {
      const common = { signal, resource, condition, reclaim: evictionMinimumReclaim[key] ?? '0' };
      const soft = evictionSoft[key];
      return [
        { ...common, limit: evictionHard[key], graceMs: 0, soft: false },
        ...(soft ? [{ ...common, limit: soft.below, graceMs: soft.forSeconds * 1000, soft: true }] : []),
      ];
    });
  }

  /** The eviction thresholds that were met at the last update, most urgent first. */
  get metThresholds(): readonly MetThreshold[] {
    return this.#met;
  }

  /** Applies new observations and returns the node's pressure conditions. A condition stays True for the transition period, to avoid flapping. */
  update(observations: SignalObservations, now: number): NodePressure {
    const found: MetThreshold[] = [];
    for (const threshold of this.#all) {
      const { signal, resource, condition, limit, reclaim, graceMs, soft } = threshold;
      const seen = observations[signal];
      if (seen === undefined) continue;
      const least = thresholdValue(limit, seen.capacity);
      const enough = this.#since.has(threshold) ? least + thresholdValue(reclaim, seen.capacity) : least;
      if (least <= 0 || seen.available >= enough) {
        this.#since.delete(threshold);
        continue;
      }
      const since = this.#since.get(threshold) ?? now;
      this.#since.set(threshold, since);
      this.#last.set(condition, now);
      if (now - since >= graceMs)
        found.push({ signal, resource, soft, limit: formatResource(least, resource), available: formatResource(seen.available, resource) });
    }
    this.#met = found;
    const hasPressure = (condition: keyof NodePressure) => {
      const last = this.#last.get(condition);
      return last !== undefined && (last === now || now - last < this.#transitionMs);
    };
    return { memory: hasPressure('memory'), disk: hasPressure('disk'), pids: hasPressure('pids') };
  }
}
