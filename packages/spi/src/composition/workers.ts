import type { AddressInfo, Socket } from 'node:net';
import { slot } from '@oarlock/kernel/slot';
import type { Health } from '../role/role.ts';

/** Another process that serves the API with this one. */
export interface WorkerHealth {
  readonly name: string;
  readonly health: Health;
}

/**
 * The processes of one machine that serve the API on one port. The first process has the storage and listens; the others, the workers, use its
 * storage and receive connections from it. Supplied by the composition if there is more than one process.
 */
export interface Workers {
  /** True in a worker. The first process maintains the objects that belong to the server, such as its Lease and the Service `kubernetes`. */
  readonly isWorker: boolean;
  /** The number of processes, the first included. */
  readonly count: number;
  /**
   * Calls `accept` with each connection for this process; its socket is paused and encrypted by the caller. In a worker, the address is that on which
   * the first process listens. Rejects if the address is not available.
   */
  listen(address: string, port: number, accept: (socket: Socket) => void): Promise<AddressInfo>;
  /** Accepts no further connections; in the first process for all processes, which releases the port. */
  stopAccepting(): void;
  /** Returns the metrics of the other processes in the Prometheus text format. A process that does not respond in time is left out. */
  otherMetrics(): Promise<readonly string[]>;
  /** Returns the health of the workers; empty in a worker. */
  workers(): readonly WorkerHealth[];
}
export const Workers = slot.one<Workers>('workers/v1');
