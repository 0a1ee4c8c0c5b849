import type { Clock } from '@oarlock/kernel/clock';
import type { EtcdConnection } from './etcd-connection.ts';
import { int, rpcs } from './etcd-messages.ts';
import { GrpcError } from './grpc-error.ts';

interface Lease {
  readonly id: Promise<number>;
  /** By the clock's `monotonic`: not before this does it end. */
  readonly ends: number;
  keys: number;
}

/** Upstream's rules: a lease lives a twentieth longer than its keys ask for, at most a minute, and is shared by those that come in that time. */
const share = { part: 0.05, mostSeconds: 60, keys: 1_000, times: 256 };

/**
 * Leases for keys that delete themselves. Keys that ask for the same time at about the same time share one, so that an hour of events
 * is some dozens of leases rather than thousands. Such a key may stay up to a twentieth longer than it asked for, never shorter.
 */
export class LeasePool {
  readonly #connection: Pick<EtcdConnection, 'call'>;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #leases = new Map<number, Lease>();

  constructor(connection: Pick<EtcdConnection, 'call'>, clock: Clock, random: () => number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#random = random;
  }

  /** A lease that does not end within the next `seconds`. @throws GrpcError */
  async lease(seconds: number): Promise<number> {
    const now = this.#clock.monotonic();
    let lease = this.#leases.get(seconds);
    if (!lease || lease.ends < now + seconds * 1000 || lease.keys >= share.keys) {
      const extra = Math.min(share.mostSeconds, Math.ceil(seconds * share.part));
      lease = { id: this.#grant(seconds + extra), ends: now + (seconds + extra) * 1000, keys: 0 };
      this.#leases.delete(seconds);
      this.#leases.set(seconds, lease);
      const [oldest] = this.#leases.keys();
      if (this.#leases.size > share.times && oldest !== undefined) this.#leases.delete(oldest);
      const granted = lease;
      granted.id.catch(() => {
        if (this.#leases.get(seconds) === granted) this.#leases.delete(seconds);
      });
    }
    lease.keys += 1;
    return lease.id;
  }

  /** To be called when etcd does not know a lease: somebody revoked it, or time stood still here. */
  forget(): void {
    this.#leases.clear();
  }

  /** The id is chosen here, where it is exact: etcd would choose one of 63 bits. */
  async #grant(seconds: number): Promise<number> {
    for (;;) {
      const id = 1 + Math.floor(this.#random() * (Number.MAX_SAFE_INTEGER - 1));
      try {
        // a grant whose answer is lost leaves a lease without keys, which ends by itself
        const { TTL, error } = await this.#connection.call(rpcs.leaseGrant, { TTL: seconds, ID: id }, { repeated: true });
        if (error !== '' || int(TTL) < seconds) throw new Error(`etcd granted a lease of ${int(TTL)} s instead of ${seconds}: ${error}`);
        return id;
      } catch (error) {
        // taken, be it by the lost grant
        if (!(error instanceof GrpcError) || !error.message.includes('lease already exists')) throw error;
      }
    }
  }
}
