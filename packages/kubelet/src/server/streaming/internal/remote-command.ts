import type { Clock } from '@oarlock/primitives/clock';
import type { Streams } from '@oarlock/spi/runtime';

const maxResize = 1024;
/** How long to wait for the first terminal size, which clients send right after the session has started. Milliseconds. */
const firstSizeMs = 100;

export interface RemoteCommandOptions {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Runs the command with the client's streams and returns the exit code. `signal` aborts when the client disconnects. */
export type RunCommand = (streams: Streams, signal: AbortSignal) => Promise<number>;
export type CommandResult = { readonly exitCode: number } | { readonly error: unknown };

export const commandResult = (running: Promise<number>): Promise<CommandResult> =>
  running.then(
    (exitCode) => ({ exitCode }),
    (error: unknown) => ({ error }),
  );

interface Size {
  readonly width: number;
  readonly height: number;
}

/** A queue of terminal sizes that keeps only the newest. */
export class TerminalSizeQueue implements AsyncIterable<Size> {
  #newest: Size | undefined;
  #wake: (() => void) | undefined;
  #begin: (() => void) | undefined;
  #over = false;

  push(size: Size): void {
    this.#newest = size;
    this.#wake?.();
    this.#begin?.();
  }

  /** Resolves with the first terminal size or after a short timeout, so that the command starts with the size of the client's terminal. */
  waitForFirstSize(clock: Clock, signal: AbortSignal): Promise<void> {
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

  /** Parses a terminal size in the clients' format `{"Width":80,"Height":24}`. Ignores invalid sizes. */
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

/** Returns the streams of a command, without those that the client does not use. */
export function usedStreams(
  tty: boolean,
  { stdin, stdout, stderr, resize }: { readonly [K in 'stdin' | 'stdout' | 'stderr' | 'resize']: Streams[K] | undefined },
): Streams {
  return { tty, ...(stdin && { stdin }), ...(stdout && { stdout }), ...(stderr && { stderr }), ...(resize && { resize }) };
}

/** Returns the message for the error channel of protocols before v4, which is plain text; undefined if the command succeeded. */
export function plainErrorMessage(result: CommandResult): string | undefined {
  if ('error' in result) return result.error instanceof Error ? result.error.message : String(result.error);
  return result.exitCode === 0 ? undefined : `error executing command in container: command terminated with exit code ${result.exitCode}`;
}

/** Returns the JSON Status for the error channel of protocol v4 and later. */
export function commandStatus(result: CommandResult): string {
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
