import { GrpcError } from '@oarlock/grpc/grpc-error';

/** Locks of volumes. A call fails with ABORTED while another call for the same volume is in progress, as the CSI specification permits. */
export class VolumeLocks {
  readonly #busy = new Set<string>();
  readonly #onLocked: (() => Promise<void>) | undefined;

  /** @param onLocked called with the lock held, before the call is handled */
  constructor(onLocked?: () => Promise<void>) {
    this.#onLocked = onLocked;
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy.has(key)) throw new GrpcError('ABORTED', `an operation for ${key} is already in progress`);
    this.#busy.add(key);
    try {
      await this.#onLocked?.();
      return await work();
    } finally {
      this.#busy.delete(key);
    }
  }
}
