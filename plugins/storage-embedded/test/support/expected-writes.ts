import type { Change } from '@oarlock/spi/storage';

/** A message of the writing process to its parent. */
export interface WriterMessage {
  /** Acknowledged values by revision. */
  readonly acknowledged?: readonly (readonly [revision: number, value: string])[];
  readonly seen?: readonly Change[];
  /** Position of the watch. */
  readonly position?: number;
}
interface ReportedChange {
  readonly key: string;
  readonly revision: number;
  /** 0 if the key did not exist. */
  readonly previous: number;
  readonly value: string | null;
}

export function reported(change: Change): ReportedChange {
  return change.type === 'put'
    ? {
        key: change.entry.key,
        revision: change.entry.revision,
        previous: change.previous?.revision ?? 0,
        value: Buffer.from(change.entry.value).toString().replace(/\.+$/, ''),
      }
    : { key: change.previous.key, revision: change.revision, previous: change.previous.revision, value: null };
}
