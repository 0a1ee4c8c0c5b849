import { failure } from '@oarlock/api/status';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { PathResponse } from '@oarlock/spi/paths';
import { answer } from './path-answers.ts';

/** Time in milliseconds after which a response states that an operation continues: less than the request timeout of API servers and proxies. */
const waitMs = 20_000;

/** The response while an operation continues. `GET` with this id waits for its result again. */
export interface RunningOperation {
  readonly operation: string;
}
export const isRunning = (body: unknown): body is RunningOperation =>
  typeof body === 'object' && body !== null && typeof (body as Partial<RunningOperation>).operation === 'string';

interface Started {
  readonly id: string;
  readonly result: Promise<PathResponse>;
}

/**
 * An operation that may take longer than a request, such as the defragmentation of a large database. One runs at a time. Its result is kept until the
 * next one starts, so that a client that lost its connection obtains it.
 */
export class LongOperation {
  readonly #clock: Clock;
  readonly #randomId: () => string;
  #last: Started | undefined;
  #isRunning = false;

  constructor(clock: Clock, randomId: () => string) {
    this.#clock = clock;
    this.#randomId = randomId;
  }

  /** Starts an operation, and returns its result or, after some seconds, that it continues. Rejects with the error of the operation. */
  start(work: () => Promise<unknown>): Promise<PathResponse> {
    if (this.#isRunning) return Promise.resolve({ code: 409, body: failure('Conflict', 'the same operation is running').status });
    this.#isRunning = true;
    const result = work()
      .then(answer)
      .finally(() => {
        this.#isRunning = false;
      });
    result.catch(() => undefined); // the requests receive the rejection
    this.#last = { id: this.#randomId(), result };
    return this.#wait(this.#last);
  }

  /** Waits for the result of an operation, as `start` does. */
  resume(id: string): Promise<PathResponse> {
    if (this.#last?.id !== id)
      return Promise.resolve({
        code: 404,
        body: failure('NotFound', `there is no operation ${id}, or another one has followed it`).status,
      });
    return this.#wait(this.#last);
  }

  async #wait({ id, result }: Started): Promise<PathResponse> {
    let timer: Timer | undefined;
    const running = new Promise<PathResponse>((resolve) => {
      timer = this.#clock.after(waitMs, () => resolve({ code: 202, body: { operation: id } satisfies RunningOperation }));
    });
    try {
      return await Promise.race([result, running]);
    } finally {
      timer?.cancel();
    }
  }
}
