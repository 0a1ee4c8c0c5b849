import { cpuSeconds, residentMiB } from './bench-environment.ts';

const reportIntervalMs = 30_000;

/** What one step came to. */
export interface Outcome {
  /** It came to its end within the patience there was. */
  readonly done: boolean;
  readonly seconds: number;
  /** Processor seconds of the process that is measured. */
  readonly cpu: number;
  readonly residentMiB: number;
}

/**
 * The steps of a bench that takes long: says every half minute how far it is, and goes on to the next step when one takes too long, so that
 * there is a result in any case.
 */
export class Steps {
  readonly #pid: number;
  readonly #patienceMs: number;
  readonly #late: string[] = [];

  /** @param patienceMs milliseconds that each step may take */
  constructor(pid: number, patienceMs: number) {
    this.#pid = pid;
    this.#patienceMs = patienceMs;
  }

  /** The steps that did not come to their end. */
  get late(): readonly string[] {
    return this.#late;
  }

  /** @param far how far it is, in words */
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
