import { cpuSeconds, residentMiB } from './bench-environment.ts';

const reportIntervalMs = 30_000;

/** The result of one step. */
export interface Outcome {
  /** True if it completed within its time limit. */
  readonly done: boolean;
  readonly seconds: number;
  /** Processor seconds of the measured process. */
  readonly cpu: number;
  readonly residentMiB: number;
}

/**
 * Runs the steps of a long bench: prints progress every half minute, and continues with the next step when one exceeds its time limit, so that
 * every run has a result.
 */
export class Steps {
  readonly #pid: number;
  readonly #patienceMs: number;
  readonly #late: string[] = [];

  /** @param patienceMs the time limit of each step, in milliseconds */
  constructor(pid: number, patienceMs: number) {
    this.#pid = pid;
    this.#patienceMs = patienceMs;
  }

  /** The steps that did not complete. */
  get late(): readonly string[] {
    return this.#late;
  }

  /** @param far describes the progress */
  async run(what: string, far: () => string | Promise<string>, work: (signal: AbortSignal) => Promise<unknown>): Promise<Outcome> {
    const [began, cpuBefore] = [performance.now(), await cpuSeconds(this.#pid)];
    const measure = async () => ({
      seconds: (performance.now() - began) / 1000,
      cpu: (await cpuSeconds(this.#pid)) - cpuBefore,
      residentMiB: await residentMiB(this.#pid),
    });
    const report = async () => {
      const { seconds, cpu, residentMiB: memory } = await measure();
      console.log(`${what}: ${seconds.toFixed(0)} s, ${cpu.toFixed(1)} s of processor time, ${memory.toFixed(0)} MiB; ${await far()}`);
    };
    const reportError = (error: unknown) => console.log(`${what}: ${String(error).slice(0, 300)}`);
    const timer = setInterval(() => void report().catch(reportError), reportIntervalMs);
    let done = true;
    try {
      await work(AbortSignal.timeout(this.#patienceMs));
    } catch (error) {
      done = false;
      this.#late.push(what);
      reportError(error);
    } finally {
      clearInterval(timer);
    }
    await report().catch(reportError);
    return { done, ...(await measure()) };
  }
}
