import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { EtcdConnection } from './etcd-connection.ts';
import { int, rpcs } from './etcd-messages.ts';

/** Often enough to warn hours ahead, seldom enough to cost nothing. */
const everyMs = 60_000;
/** Defragmenting stops a member for a while: it is advised where it gives back at least so much, and at least half of the file. */
const worthBytes = 256 * 1024 * 1024;

export interface MemberState {
  /** Size of the member's database file. */
  readonly bytes: number;
  /** What of it is in use; the rest was freed by compaction and is given back by defragmenting alone. */
  readonly bytesInUse: number;
  /** What the member complains of, such as `NOSPACE`. */
  readonly alarms: readonly string[];
  readonly defragment: boolean;
}

/** Looks after the member that calls go to: how large its database is, and what it complains of. Says each once. */
export class MemberHealth {
  readonly #connection: Pick<EtcdConnection, 'call'>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #timer: Timer | undefined;
  #stopped = false;
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
    void this.look().finally(() => {
      if (!this.#stopped) this.#timer = this.#clock.after(everyMs, () => this.start());
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Asks the member now. Where it does not answer, what was known stays. */
  async look(): Promise<void> {
    try {
      const { dbSize, dbSizeInUse, errors } = await this.#connection.call(rpcs.status, {}, { repeated: true });
      const [bytes, bytesInUse] = [int(dbSize), int(dbSizeInUse)];
      const before = this.#state;
      const free = bytes - bytesInUse;
      this.#state = { bytes, bytesInUse, alarms: errors, defragment: free >= worthBytes && free * 2 >= bytes };
      this.#tell(before);
    } catch (error) {
      this.#log.debug({ error: String(error) }, 'the state of the etcd member is not known');
    }
  }

  #tell(before: MemberState): void {
    const { bytes, bytesInUse, alarms, defragment } = this.#state;
    if (alarms.join() !== before.alarms.join()) {
      if (alarms.length === 0) this.#log.info({}, 'etcd complains of nothing any more');
      else
        this.#log.error(
          { alarms, bytes, bytesInUse },
          'etcd complains. After NOSPACE it takes no writes until there is room: compact, `etcdctl defrag`, `etcdctl alarm disarm`, or raise --quota-backend-bytes',
        );
    }
    if (defragment && !before.defragment)
      this.#log.warn(
        { bytes, bytesInUse },
        'more than half of the etcd database is free: `etcdctl defrag` gives it back, one member after the other',
      );
  }
}
