import type { Clock } from '@oarlock/primitives/clock';

export interface TimeLimit {
  readonly seconds: number;
  readonly clock: Pick<Clock, 'after'>;
  /** Returns the rejection after the limit. */
  readonly error: () => Error;
}

/** Settles as `work` does, or rejects after the time limit. The work then continues: its owner closes what it uses. */
export function within<T>(work: Promise<T>, { seconds, clock, error }: TimeLimit): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = clock.after(seconds * 1000, () => reject(error()));
    void work.then(resolve, reject).finally(() => timer.cancel());
  });
}
