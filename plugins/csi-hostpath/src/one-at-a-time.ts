import { GrpcError } from '@oarlock/grpc/grpc-error';

/** CSI callers may call again before an answer came: what is under way for the same thing is refused with ABORTED, as the specification asks. */
export class OneAtATime {
  readonly #busy = new Set<string>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy.has(key)) throw new GrpcError('ABORTED', `an operation for ${key} is under way already`);
    this.#busy.add(key);
    try {
      return await work();
    } finally {
      this.#busy.delete(key);
    }
  }
}
