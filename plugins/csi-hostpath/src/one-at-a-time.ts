import { GrpcError } from '@oarlock/grpc/grpc-error';

/** CSI callers may call again before an answer came: what is under way for the same thing is refused with ABORTED, as the specification asks. */
export class OneAtATime {
  readonly #busy = new Set<string>();
  readonly #begun: (() => Promise<void>) | undefined;

  /** `begun`: called when work has begun, before anything is done. */
  constructor(begun?: () => Promise<void>) {
    this.#begun = begun;
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy.has(key)) throw new GrpcError('ABORTED', `an operation for ${key} is under way already`);
    this.#busy.add(key);
    try {
      await this.#begun?.();
      return await work();
    } finally {
      this.#busy.delete(key);
    }
  }
}
