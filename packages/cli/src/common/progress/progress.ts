import { printable } from '@oarlock/primitives/printable-text';
import { systemClock, type Clock, type Timer } from '@oarlock/primitives/clock';

/** Time in milliseconds after which a command shows on a terminal what it does. */
const terminalDelayMs = 1_000;
/** The same for other outputs, where lines stay: a quick command of a script prints nothing, also on a busy machine. */
const plainDelayMs = 10_000;
const repaintMs = 100;
const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/** Moves to the first column, and clears the line. */
const clearLine = '\r\u001B[2K';

interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface ProgressOptions {
  /** Where progress is shown: standard error, so that standard output is the result alone. */
  readonly output: Output;
  /** Streams that may write to the same terminal. The line is cleared before they do. */
  readonly others?: readonly Output[];
  readonly clock?: Pick<Clock, 'monotonic' | 'after'>;
  /** Time of the clock at which the user began to wait; default: that of the first step. */
  readonly startedAt?: number;
}

/**
 * Shows what a command does when that takes longer than a second: on a terminal a line with the step and its time, which disappears at the end; otherwise a
 * line for each step that takes more than ten seconds.
 */
export class Progress {
  readonly #output: Output;
  readonly #others: readonly Output[];
  readonly #clock: Pick<Clock, 'monotonic' | 'after'>;
  readonly #startedAt: number | undefined;
  #step: string | undefined;
  #detail = '';
  #began = 0;
  #timer: Timer | undefined;
  #restore: (() => void) | undefined;
  #frame = 0;

  constructor({ output, others = [], clock = systemClock, startedAt }: ProgressOptions) {
    this.#output = output;
    this.#others = others;
    this.#clock = clock;
    this.#startedAt = startedAt;
  }

  /** Begins a step, such as `reading the objects`. The time since the first step, or since `startedAt`, counts for the delay of all. */
  step(text: string): void {
    if (this.#step === text) return;
    const isFirst = this.#step === undefined;
    this.#step = text;
    this.#detail = '';
    if (this.#output.isTTY === true && !isFirst) return;
    this.#timer?.cancel();
    const now = this.#clock.monotonic();
    this.#began = isFirst ? (this.#startedAt ?? now) : now;
    const waited = now - this.#began;
    if (this.#output.isTTY !== true)
      this.#timer = this.#clock.after(plainDelayMs - waited, () => this.#output.write(`${printable(`${text} ...`)}\n`));
    // painted at once: the modules of the command may load for long before a timer fires
    else if (waited >= terminalDelayMs) this.#show();
    else this.#timer = this.#clock.after(terminalDelayMs - waited, () => this.#show());
  }

  /** Sets how far the step is, such as `1,200 objects`. Shown on terminals only. */
  detail(text: string): void {
    this.#detail = text;
  }

  /** Ends the progress and clears its line. */
  stop(): void {
    this.#timer?.cancel();
    this.#restore?.();
    this.#timer = this.#restore = this.#step = undefined;
  }

  #show(): void {
    this.#restore ??= this.#clearBeforeWrites();
    this.#paint();
    this.#timer = this.#clock.after(repaintMs, () => this.#show());
  }

  #paint(): void {
    this.#frame = (this.#frame + 1) % frames.length;
    const seconds = Math.floor((this.#clock.monotonic() - this.#began) / 1000);
    const detail = this.#detail === '' ? '' : `: ${this.#detail}`;
    const line = `${frames[this.#frame]} ${printable(`${this.#step}${detail}`)} (${seconds} s)`;
    this.#writeLine(line.slice(0, (this.#output.columns || 80) - 1));
  }

  #writeLine: (line: string) => void = () => undefined;

  /** Clears the line before anything else is written to the terminal. Returns a function that clears it for the last time. */
  #clearBeforeWrites(): () => void {
    let isShown = false;
    const write = this.#output.write.bind(this.#output);
    const clear = () => {
      if (isShown) write(clearLine);
      isShown = false;
    };
    const streams = [this.#output, ...this.#others].filter(({ isTTY }) => isTTY === true);
    const undo = streams.map((stream) => {
      const original = stream.write;
      stream.write = function (this: unknown, ...args: Parameters<Output['write']>) {
        clear();
        return original.apply(stream, args);
      };
      return () => (stream.write = original);
    });
    this.#writeLine = (line) => {
      write(`${isShown ? clearLine : ''}${line}`);
      isShown = true;
    };
    return () => {
      for (const each of undo) each();
      clear();
    };
  }
}

/** The progress of the command that this process runs. The clock begins with the process: loading the command line counts too. */
export const progress = new Progress({ output: process.stderr, others: [process.stdout], startedAt: 0 });
