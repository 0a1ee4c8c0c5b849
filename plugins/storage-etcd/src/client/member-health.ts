import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageCondition } from '@oarlock/spi/storage';
import type { EtcdConnection } from './etcd-connection.ts';
import { int, rpcs } from '../rpc/etcd-messages.ts';

/** Interval of the checks in milliseconds, and while there are alarms: servers are ready again soon after the alarms end. */
const [checkIntervalMs, alarmIntervalMs] = [60_000, 5_000];
/**
 * Defragmenting blocks a member. It is recommended if at least half of the file, and at least this many bytes or this part of the space quota, would be
 * freed.
 */
const defragmentThreshold = { bytes: 256 * 1024 * 1024, quotaPart: 1 / 8 };
/** The part of the space quota from which its administrator is warned. */
const spaceLowPart = 0.8;

/** Returns true if defragmenting a database is recommended. */
export function shouldDefragment(bytes: number, bytesInUse: number, quotaBytes = Number.POSITIVE_INFINITY): boolean {
  const free = bytes - bytesInUse;
  return free >= Math.min(defragmentThreshold.bytes, quotaBytes * defragmentThreshold.quotaPart) && free * 2 >= bytes;
}

type ConditionsListener = (conditions: readonly StorageCondition[]) => void;

export interface MemberState {
  /** Size of the member's database file. */
  readonly bytes: number;
  /** Size in use; the rest was freed by compaction, and only defragmenting returns it to the file system. */
  readonly bytesInUse: number;
  /** Active alarms, such as `NOSPACE`. */
  readonly alarms: readonly string[];
  readonly defragment: boolean;
}

const remedies = {
  NOSPACE:
    'After NOSPACE, free space: delete objects, compact and run `oarlock etcd defragment` (or `etcdctl defrag` and `etcdctl alarm disarm`), or raise the quota.',
  CORRUPT:
    'After CORRUPT, the data of the named member differs from that of the others: stop its server, remove it with `oarlock server remove` (or `etcdctl member remove` and `etcdctl alarm disarm`), and join it again with an empty data directory.',
} as const;

/** Returns what the administrator can do about alarms. */
const remediesOf = (alarms: readonly string[]): string =>
  Object.entries(remedies)
    .flatMap(([name, remedy]) => (alarms.some((alarm) => alarm.includes(name)) ? [remedy] : []))
    .join(' ');

/** The conditions of alarms, by the names of the alarms. */
const alarmReasons = { NOSPACE: 'EtcdNoSpace', CORRUPT: 'EtcdCorrupt' } as const;

const mebibytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

export interface MemberHealthOptions {
  readonly connection: Pick<EtcdConnection, 'call'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** The space quota of the members, if it is known. */
  readonly quotaBytes?: number | undefined;
}

/** Monitors the size of the database and the alarms of the connected member, and logs changes. */
export class MemberHealth {
  readonly #options: MemberHealthOptions;
  readonly #listeners = new Set<ConditionsListener>();
  #timer: Timer | undefined;
  #stopped = false;
  #checking = false;
  #state: MemberState = { bytes: 0, bytesInUse: 0, alarms: [], defragment: false };

  constructor(options: MemberHealthOptions) {
    this.#options = options;
  }

  get state(): MemberState {
    return this.#state;
  }

  /** Calls the listener with the conditions now and after each check, until the returned function is called. */
  watchConditions(listener: ConditionsListener): () => void {
    this.#listeners.add(listener);
    listener(this.#conditions());
    return () => void this.#listeners.delete(listener);
  }

  start(): void {
    this.#checking = true;
    void this.check().finally(() => {
      this.#checking = false;
      const { alarms } = this.#state;
      if (!this.#stopped)
        this.#timer = this.#options.clock.after(alarms.length === 0 ? checkIntervalMs : alarmIntervalMs, () => this.start());
    });
  }

  /** Checks the member now, unless a check is in progress: a write was rejected. */
  recheck(): void {
    if (this.#checking || this.#stopped) return;
    this.#timer?.cancel();
    this.start();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Checks the member. If it does not respond, the last state is kept. */
  async check(): Promise<void> {
    const { quotaBytes } = this.#options;
    try {
      const { dbSize, dbSizeInUse, errors } = await this.#options.connection.call(rpcs.status, {}, { repeated: true });
      const [bytes, bytesInUse] = [int(dbSize), int(dbSizeInUse)];
      const before = this.#state;
      this.#state = { bytes, bytesInUse, alarms: errors, defragment: shouldDefragment(bytes, bytesInUse, quotaBytes) };
      this.#logChanges(before);
      for (const listener of this.#listeners) listener(this.#conditions());
    } catch (error) {
      this.#options.log.debug({ error: String(error) }, 'the state of the etcd member is unknown');
    }
  }

  #conditions(): readonly StorageCondition[] {
    const { bytes, bytesInUse, alarms } = this.#state;
    const raised = Object.entries(alarmReasons).flatMap(([name, reason]): StorageCondition[] => {
      const own = alarms.filter((alarm) => alarm.includes(name)).map((alarm) => alarm.trim());
      return own.length === 0
        ? []
        : [{ reason, message: `etcd rejects writes: ${own.join(', ')}. ${remediesOf(own)}`, rejectsCommits: true }];
    });
    const { quotaBytes = Number.POSITIVE_INFINITY } = this.#options;
    if (bytes < quotaBytes * spaceLowPart) return raised;
    const message = `the etcd database takes ${mebibytes(bytes)} of its quota of ${mebibytes(quotaBytes)}, ${mebibytes(bytesInUse)} of them are in use. Writes fail at the quota: delete objects and run \`oarlock etcd defragment\`, or raise quotaBytes.`;
    return [...raised, { reason: 'EtcdSpaceLow', message, rejectsCommits: false }];
  }

  #logChanges(before: MemberState): void {
    const { bytes, bytesInUse, alarms, defragment } = this.#state;
    if (alarms.join() !== before.alarms.join()) {
      if (alarms.length === 0) this.#options.log.info({}, 'etcd has no alarms any more');
      else this.#options.log.error({ alarms, bytes, bytesInUse }, `etcd has alarms and rejects writes. ${remediesOf(alarms)}`);
    }
    if (defragment && !before.defragment)
      this.#options.log.warn(
        { bytes, bytesInUse },
        'more than half of the etcd database is free: run `etcdctl defrag` on one member after the other',
      );
  }
}
