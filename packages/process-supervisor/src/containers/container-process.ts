import type { Readable, Writable } from 'node:stream';

/** A command that runs in a container: the container's own, or one of an exec session. */
export interface ContainerProcess {
  readonly pid: number;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  /** Undefined on a terminal, which merges stderr into stdout. */
  readonly stderr: Readable | undefined;
  /** Resolves with the exit code of the first process; undefined if it cannot be known. Its children may live on. */
  readonly exited: Promise<number | undefined>;
  signal(signal: number): void;
  /** Kills the processes of the command, including those that are left after the first one has exited. */
  kill(): void;
  /** Changes the size of the terminal. Does nothing without a terminal. */
  resize(size: { readonly width: number; readonly height: number }): Promise<void>;
}
