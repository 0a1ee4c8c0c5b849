import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { EtcdConnection } from './etcd-connection.ts';
import { int, rpcs } from '../rpc/etcd-messages.ts';

/** Interval of the checks in milliseconds, and while there are alarms: servers are ready again soon after the alarms end. */
const [checkIntervalMs, alarmIntervalMs] = [60_000, 5_000];
/** Defragmenting blocks a member. It is recommended if at least this many bytes and at least half of the file would be freed. */
const defragmentThresholdBytes = 256 * 1024 * 1024;

/** Returns true if defragmenting a database is recommended. */
export const shouldDefragment = (bytes: number, bytesInUse: number): boolean =>
  bytes - bytesInUse >= defragmentThresholdBytes && (bytes - bytesInUse) * 2 >= bytes;

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

/** Monitors the size of the database and the alarms of the connected member, and logs changes. */
export class MemberHealth {
  readonly #connection: Pick<EtcdConnection, 'call'>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #timer: Timer | undefined;
  #stopped = false;
  #checking = false;
  #state: MemberState = { bytes: 0, bytesInUse: 0, alarms: [], defragment: false };

  constructor(connection: Pick<EtcdConnection, 'call'>, clock: Clock, log: Logger) {
    this.#connection = connection;
    this.#clock = clock;
    this.#log = log;
  }

  get state(): MemberState {
    return this.#state;
  }

  start(): void {
    this.#checking = true;
    void this.check().finally(() => {
      this.#checking = false;
      const { alarms } = this.#state;
      if (!this.#stopped) this.#timer = this.#clock.after(alarms.length === 0 ? checkIntervalMs : alarmIntervalMs, () => this.start());
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
    try {
      const { dbSize, dbSizeInUse, errors } = await this.#connection.call(rpcs.status, {}, { repeated: true });
      const [bytes, bytesInUse] = [int(dbSize), int(dbSizeInUse)];
      const before = this.#state;
      this.#state = { bytes, bytesInUse, alarms: errors, defragment: shouldDefragment(bytes, bytesInUse) };
      this.#logChanges(before);
    } catch (error) {
      this.#log.debug({ error: String(error) }, 'the state of the etcd member is unknown');
    }
  }

  #logChanges(before: MemberState): void {
    const { bytes, bytesInUse, alarms, defragment } = this.#state;
    if (alarms.join() !== before.alarms.join()) {
      if (alarms.length === 0) this.#log.info({}, 'etcd has no alarms any more');
      else this.#log.error({ alarms, bytes, bytesInUse }, `etcd has alarms and rejects writes. ${remediesOf(alarms)}`);
    }
    if (defragment && !before.defragment)
      this.#log.warn(
        { bytes, bytesInUse },
        'more than half of the etcd database is free: run `etcdctl defrag` on one member after the other',
      );
  }
}
