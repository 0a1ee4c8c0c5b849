import { GrpcError } from '@oarlock/grpc/grpc-error';

/** Rejects a call with ABORTED while another call for the same volume is in progress: the CSI specification permits concurrent retries. */
export class VolumeLocks {
  readonly #busy = new Set<string>();
  readonly #onLocked: (() => Promise<void>) | undefined;

  /** `onLocked`: called with the lock held, before the work. */
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
