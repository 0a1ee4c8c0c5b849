import type { Readable } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';
import { criTime, RecordFormat, type LogFile, type OutputName } from './internal/cri-log.ts';
import type { Cgroup } from '../host/cgroups.ts';
import { drainOutputs } from './output-drain.ts';
import type { ContainerProcess } from './container-process.ts';

/** Receives the output that a container writes after the listener was added (attach). */
export interface OutputListener {
  /** Returns false if the listener cannot accept more; `ready` calls back when it can. */
  write(stream: OutputName, chunk: Buffer): boolean;
  ready(then: () => void): void;
  /** Called when the container has exited. */
  end(): void;
}

export interface RunningOptions {
  readonly group: ContainerProcess;
  readonly log: LogFile;
  readonly cgroup: Cgroup | undefined;
  readonly clock: Clock;
  /** Kills processes that left the container's session. */
  sweep(): Promise<void>;
}
export interface ExitResult {
  /** Undefined if it cannot be known. */
  readonly exitCode: number | undefined;
  readonly outOfMemory: boolean;
  readonly finishedAt: number;
}

/** How long outputs may stay open and silent after the process group is dead, before processes that escaped it are looked for. */
const outputIdleMs = 200;

/** A container that runs: its streams, log, listeners and exec sessions. */
export class RunningContainer {
  readonly group: ContainerProcess;
  /** Resolves when the first process and its whole group are dead and all output is in the log. */
  readonly ended: Promise<ExitResult>;
  readonly #options: RunningOptions;
  readonly #listeners = new Set<OutputListener>();
  /** Processes of exec sessions, which end with the container. */
  readonly execs = new Set<ContainerProcess>();
  #stdinClosed = false;

  constructor(options: RunningOptions) {
    this.#options = options;
    this.group = options.group;
    this.group.stdin?.on('close', () => {
      this.#stdinClosed = true;
    });
    const outputs = [this.#read('stdout', this.group.stdout), ...(this.group.stderr ? [this.#read('stderr', this.group.stderr)] : [])];
    this.ended = this.#end(Promise.all(outputs));
  }

  get cgroup(): Cgroup | undefined {
    return this.#options.cgroup;
  }
  get log(): LogFile {
    return this.#options.log;
  }
  get hasStdin(): boolean {
    return this.group.stdin !== undefined && !this.#stdinClosed;
  }

  listen(listener: OutputListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  kill(): void {
    this.group.kill();
    this.cgroup?.kill();
  }

  /** Reads an output to its end. It is paused while the log or a listener cannot accept more. */
  #read(name: OutputName, source: Readable): Promise<void> {
    const format = new RecordFormat(name);
    const { log, clock } = this.#options;
    let sequence = 0;
    const now = () => {
      // milliseconds from the clock, the rest from a counter, so that records of one stream keep their order
      sequence = (sequence + 1) % 1_000_000;
      return criTime(clock.now(), sequence);
    };
    return new Promise((resolve) => {
      let holds = 0;
      const hold = (until: (then: () => void) => void) => {
        if (holds++ === 0) source.pause();
        until(() => {
          if (--holds === 0) source.resume();
        });
      };
      source.on('data', (chunk: Buffer) => {
        if (!log.append(format.push(chunk, now()))) hold((then) => log.drained(then));
        for (const listener of this.#listeners) if (!listener.write(name, chunk)) hold((then) => listener.ready(then));
      });
      const end = () => {
        log.append(format.end(now()));
        resolve();
      };
      if (source.closed)
        end(); // it closed before this listener was added, without output
      else source.once('close', end);
    });
  }

  async #end(outputs: Promise<unknown>): Promise<ExitResult> {
    const { group, log, cgroup, clock } = this.#options;
    const exitCode = await group.exited;
    const finishedAt = clock.now();
    const outOfMemory = cgroup?.wasOutOfMemory() ?? false;
    this.kill();
    for (const exec of this.execs) exec.kill();
    const open = [group.stdout, ...(group.stderr ? [group.stderr] : [])];
    if (!(await drainOutputs(open, clock, outputIdleMs))) {
      await this.#options.sweep();
      if (!(await drainOutputs(open, clock, outputIdleMs))) for (const output of open) output.destroy();
    }
    await outputs;
    group.stdin?.destroy();
    await log.close();
    for (const listener of this.#listeners) listener.end();
    this.#listeners.clear();
    return { exitCode, outOfMemory, finishedAt };
  }
}
