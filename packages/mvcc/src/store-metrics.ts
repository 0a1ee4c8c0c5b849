import { Gauge, type Registry } from 'prom-client';
import type { MvccStore } from './mvcc-store.ts';

/** Registers a gauge whose value is read at each scrape. */
export type AddGauge = (name: string, help: string, value: () => number) => void;

/** Registers the gauges of a store as `PREFIX_...`, and returns a function that adds further ones. */
export function registerStoreMetrics(
  registry: Registry,
  prefix: string,
  stats: () => Pick<MvccStore['stats'], 'revision' | 'keys' | 'history' | 'historyBytes' | 'watches'>,
): AddGauge {
  const add: AddGauge = (name, help, value) => {
    new Gauge({
      name: `${prefix}_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(value());
      },
    });
  };
  add('revision', 'Newest revision.', () => stats().revision);
  add('keys', 'Number of existing keys.', () => stats().keys);
  add('history_changes', 'Changes since the last compaction.', () => stats().history);
  add('history_bytes', 'Approximate memory of the history in bytes.', () => stats().historyBytes);
  add('watches', 'Open watches.', () => stats().watches);
  return add;
}
