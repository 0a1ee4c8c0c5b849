import type { Clock } from '@oarlock/kernel/clock';
import type { Streams } from '@oarlock/spi/runtime';

const maxResize = 1024;
/** Clients send the size of their terminal right after the beginning. */
const firstSizeMs = 100;

export interface RemoteCommandOptions {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Runs what was asked for with the client's streams; the exit code. The signal aborts when the client goes away. */
export type RunCommand = (streams: Streams, signal: AbortSignal) => Promise<number>;
export type CommandResult = { readonly exitCode: number } | { readonly error: unknown };

export const resultOf = (running: Promise<number>): Promise<CommandResult> =>
  running.then(
    (exitCode) => ({ exitCode }),
    (error: unknown) => ({ error }),
  );

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Sizes of a terminal as they come; only the newest is kept for a slow reader. */
export class Resizes implements AsyncIterable<Size> {
  #newest: Size | undefined;
  #wake: (() => void) | undefined;
  #begin: (() => void) | undefined;
  #over = false;

  push(size: Size): void {
    this.#newest = size;
    this.#wake?.();
    this.#begin?.();
  }

  /** Resolves when a first size is there, or none came for a moment: a command that asks its terminal at once is to be told the client's. */
  begun(clock: Clock, signal: AbortSignal): Promise<void> {
    if (this.#newest !== undefined || this.#over || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel();
        signal.removeEventListener('abort', done);
        this.#begin = undefined;
        resolve();
      };
      const timer = clock.after(firstSizeMs, done);
      signal.addEventListener('abort', done, { once: true });
      this.#begin = done;
    });
  }

  /** Takes a size as clients write it, `{"Width":80,"Height":24}`; one that cannot be read changes nothing. */
  read(text: string): void {
    if (text.length > maxResize) return;
    try {
      const { Width: width, Height: height } = JSON.parse(text) as { readonly Width?: unknown; readonly Height?: unknown };
      if (typeof width === 'number' && typeof height === 'number' && width > 0 && height > 0 && width < 65_536 && height < 65_536)
        this.push({ width, height });
    } catch {
      // not a size
    }
  }
  end(): void {
    this.#over = true;
    this.#wake?.();
    this.#begin?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Size> {
    while (!this.#over) {
      if (this.#newest === undefined)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      this.#wake = undefined;
      const size = this.#newest;
      this.#newest = undefined;
      if (size !== undefined) yield size;
    }
  }
}

/** What comes on the error channel where it is plain text: nothing when all went well. */
export function problem(result: CommandResult): string | undefined {
  if ('error' in result) return result.error instanceof Error ? result.error.message : String(result.error);
  return result.exitCode === 0 ? undefined : `error executing command in container: command terminated with exit code ${result.exitCode}`;
}

/** What comes on the error channel in the end: a Status. */
export function outcome(result: CommandResult): string {
  if ('error' in result) {
    const message = result.error instanceof Error ? result.error.message : String(result.error);
    return JSON.stringify({
      metadata: {},
      status: 'Failure',
      message,
      reason: 'InternalError',
      details: { causes: [{ message }] },
      code: 500,
    });
  }
  const { exitCode } = result;
  if (exitCode === 0) return JSON.stringify({ metadata: {}, status: 'Success' });
  return JSON.stringify({
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: exit status ${exitCode}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  });
}
