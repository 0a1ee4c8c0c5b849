import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Health } from '@oarlock/spi/role';

/** Time in milliseconds between two reports about a start that has not finished. */
export const reportIntervalMs = 10_000;

/** A part of a process whose health explains why the process is not ready. */
export interface StartingPart {
  readonly name: string;
  checkHealth(): Health | Promise<Health>;
}

export interface SlowStartOptions {
  readonly clock: Pick<Clock, 'after'>;
  parts(): readonly StartingPart[];
  readonly warn: (warning: string) => void;
}

/**
 * Waits for the start of a process. While it lasts, warns every 10 s with the parts that are not healthy, unless the previous warning was the same:
 * a storage that rejects writes, such as during an alarm of etcd, delays a start until it accepts them again.
 */
export async function reportSlowStart<T>(start: Promise<T>, { clock, parts, warn }: SlowStartOptions): Promise<T> {
  let latest = '';
  let isOver = false;
  const report = async () => {
    const reasons = await problemsOf(parts);
    if (isOver) return;
    const warning = `not ready yet: ${reasons.length === 0 ? 'the start takes longer than usual' : reasons.join('; ')}`;
    if (warning !== latest) warn(warning);
    latest = warning;
    timer = clock.after(reportIntervalMs, () => void report());
  };
  let timer = clock.after(reportIntervalMs, () => void report());
  try {
    return await start;
  } finally {
    isOver = true;
    timer.cancel();
  }
}

async function problemsOf(parts: () => readonly StartingPart[]): Promise<readonly string[]> {
  try {
    return (await Promise.all(parts().map(problemOf))).flat();
  } catch (error) {
    return [errorText(error)]; // a part that could not be created; the start fails with the same reason
  }
}

async function problemOf({ name, checkHealth }: StartingPart): Promise<readonly string[]> {
  try {
    const health = await checkHealth();
    return health.healthy ? [] : [`${name}: ${health.reason.trim()}`];
  } catch (error) {
    return [`${name}: ${errorText(error)}`];
  }
}
