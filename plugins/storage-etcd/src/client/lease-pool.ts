import type { Clock } from '@oarlock/primitives/clock';
import type { EtcdConnection } from './etcd-connection.ts';
import { int, rpcs } from '../rpc/etcd-messages.ts';
import { GrpcError } from '@oarlock/grpc/grpc-error';

interface Lease {
  readonly id: Promise<number>;
  /** Earliest end, in milliseconds of the monotonic clock. */
  readonly ends: number;
  keys: number;
}

/** Upstream's values: a lease lasts 5 % longer than requested, at most 60 s, and is shared by keys that are written in that time. */
const share = { part: 0.05, mostSeconds: 60, keys: 1_000, times: 256 };

/**
 * Leases for keys with a time to live. Keys with the same time to live that are written at about the same time share a lease, so that an hour
 * of Events needs dozens of leases instead of thousands. A key may live up to 5 % longer than requested, never shorter.
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

  /** Returns the id of a lease that lasts at least `seconds`. @throws GrpcError if etcd grants no lease */
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

  /** Must be called when etcd does not know a lease: it was revoked, or the clock of this process stood still. */
  invalidate(): void {
    this.#leases.clear();
  }

  /** Grants a lease. The id is chosen here, because etcd would choose one of 63 bits, which a number cannot represent. */
  async #grant(seconds: number): Promise<number> {
    for (;;) {
      const id = 1 + Math.floor(this.#random() * (Number.MAX_SAFE_INTEGER - 1));
      try {
        // a grant whose response is lost leaves a lease without keys, which expires
        const { TTL, error } = await this.#connection.call(rpcs.leaseGrant, { TTL: seconds, ID: id }, { repeated: true });
        if (error !== '' || int(TTL) < seconds) throw new Error(`etcd granted a lease of ${int(TTL)} s instead of ${seconds}: ${error}`);
        return id;
      } catch (error) {
        // the id is in use, perhaps by the grant whose response was lost
        if (!(error instanceof GrpcError) || !error.message.includes('lease already exists')) throw error;
      }
    }
  }
}
