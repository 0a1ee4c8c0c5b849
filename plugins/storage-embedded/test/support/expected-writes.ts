import type { Change } from '@oarlock/spi/storage';

/** What a process that writes and watches tells its parent. */
export interface Told {
  /** Value by revision. */
  readonly acknowledged?: readonly (readonly [revision: number, value: string])[];
  readonly seen?: readonly ToldChange[];
  /** As far as the watch has come. */
  readonly position?: number;
}
interface ToldChange {
  readonly key: string;
  readonly revision: number;
  /** 0: the key was not there. */
  readonly previous: number;
  readonly value: string | null;
}

export function told(change: Change): ToldChange {
  return change.type === 'put'
    ? {
        key: change.entry.key,
        revision: change.entry.revision,
        previous: change.previous?.revision ?? 0,
        value: Buffer.from(change.entry.value).toString().replace(/\.+$/, ''),
      }
    : { key: change.previous.key, revision: change.revision, previous: change.previous.revision, value: null };
}
