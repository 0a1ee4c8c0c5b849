import type { Readable } from 'node:stream';
import type { Clock } from '@oarlock/kernel/clock';
import { criTime, RecordFormat, type LogFile, type OutputName } from './cri-log.ts';
import type { ControlGroup } from './cgroups.ts';
import { drained } from './output-drain.ts';
import type { ProcessGroup } from './process-group.ts';

/** Somebody who looks on: gets what the container writes from now on. */
export interface Onlooker {
  /** False when it cannot take more now; `ready` is called when it can. */
  write(stream: OutputName, chunk: Buffer): boolean;
  ready(then: () => void): void;
  /** The container has ended. */
  end(): void;
}

export interface RunningOptions {
  readonly group: ProcessGroup;
  readonly log: LogFile;
  readonly cgroup: ControlGroup | undefined;
  readonly clock: Clock;
  /** Kills what left the container's session. */
  sweep(): Promise<void>;
}
export interface Outcome {
  readonly exitCode: number;
  readonly outOfMemory: boolean;
  readonly finishedAt: number;
}

/** How long outputs may stay open and silent when the group is dead: something that escaped it holds them, and is then looked for. */
const heldMs = 200;

/** A container between its start and its end: streams, log, onlookers, and what belongs to it. */
export class RunningContainer {
  readonly group: ProcessGroup;
  /** Resolves when the first process and all of its group are dead and everything they wrote is in the log. */
  readonly ended: Promise<Outcome>;
  readonly #options: RunningOptions;
  readonly #onlookers = new Set<Onlooker>();
  /** Sessions beside it: they end with it. */
  readonly beside = new Set<ProcessGroup>();
  #stdinTaken = false;

  constructor(options: RunningOptions) {
    this.#options = options;
    this.group = options.group;
    this.group.stdin?.on('close', () => {
      this.#stdinTaken = true;
    });
    const outputs = [this.#read('stdout', this.group.stdout), ...(this.group.stderr ? [this.#read('stderr', this.group.stderr)] : [])];
    this.ended = this.#end(Promise.all(outputs));
  }

  get cgroup(): ControlGroup | undefined {
    return this.#options.cgroup;
  }
  get log(): LogFile {
    return this.#options.log;
  }
  get hasStdin(): boolean {
    return this.group.stdin !== undefined && !this.#stdinTaken;
  }

  join(onlooker: Onlooker): () => void {
    this.#onlookers.add(onlooker);
    return () => {
      this.#onlookers.delete(onlooker);
    };
  }

  kill(): void {
    this.group.kill();
    this.cgroup?.kill();
  }

  /** Reads an output to its end. Whoever cannot follow holds it back: the log, or an onlooker. */
  #read(name: OutputName, source: Readable): Promise<void> {
    const format = new RecordFormat(name);
    const { log, clock } = this.#options;
    let last = 0;
    const now = () => {
      // milliseconds from the clock, the rest from a counter: records of one stream keep their order
      last = (last + 1) % 1_000_000;
      return criTime(clock.now(), last);
    };
    return new Promise((resolve) => {
      let held = 0;
      const hold = (until: (then: () => void) => void) => {
        if (held++ === 0) source.pause();
        until(() => {
          if (--held === 0) source.resume();
        });
      };
      source.on('data', (chunk: Buffer) => {
        if (!log.append(format.push(chunk, now()))) hold((then) => log.drained(then));
        for (const onlooker of this.#onlookers) if (!onlooker.write(name, chunk)) hold((then) => onlooker.ready(then));
      });
      const end = () => {
        log.append(format.end(now()));
        resolve();
      };
      if (source.closed)
        end(); // it ended before anybody looked, with nothing to say
      else source.once('close', end);
    });
  }

  async #end(outputs: Promise<unknown>): Promise<Outcome> {
    const { group, log, cgroup, clock } = this.#options;
    const exitCode = await group.exited;
    const finishedAt = clock.now();
    const outOfMemory = cgroup?.wasOutOfMemory() ?? false;
    this.kill();
    for (const session of this.beside) session.kill();
    const open = [group.stdout, ...(group.stderr ? [group.stderr] : [])];
    if (!(await drained(open, clock, heldMs))) {
      await this.#options.sweep();
      if (!(await drained(open, clock, heldMs))) for (const output of open) output.destroy();
    }
    await outputs;
    group.stdin?.destroy();
    await log.close();
    for (const onlooker of this.#onlookers) onlooker.end();
    this.#onlookers.clear();
    return { exitCode, outOfMemory, finishedAt };
  }
}
