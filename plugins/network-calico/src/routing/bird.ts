import { createHash } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { runProgram } from '@oarlock/primitives/run-program';
import { NetworkError } from '@oarlock/spi/network';
import { BirdControl } from './bird-control.ts';

export interface BirdProcessOptions {
  /** Path of `bird`. */
  readonly program: string;
  /** For its files. */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
}
const timeoutMs = 10_000;
const retryMs = 1_000;
/** What the kernel takes as the path of a socket, with a NUL. */
const longestPath = 107;

/**
 * BIRD as a process of its own, which outlives this one so that routes do: found again by its control socket, and started again when that closes.
 */
export class Bird {
  readonly #options: BirdProcessOptions;
  readonly #socket: string;
  #text = '';
  #control: BirdControl | undefined;
  #timer: Timer | undefined;
  #working: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: BirdProcessOptions) {
    this.#options = options;
    const path = join(options.directory, 'bird.ctl');
    this.#socket =
      Buffer.byteLength(path) <= longestPath
        ? path
        : `/run/oarlock-calico/${createHash('sha256').update(path).digest('hex').slice(0, 16)}.ctl`;
  }

  get logFile(): string {
    return join(this.#options.directory, 'bird.log');
  }

  /** Runs with this configuration from now on. @throws NetworkError `InvalidConfig` with BIRD's words, and the old one stays */
  configure(text: string): Promise<void> {
    return this.#alone(async () => {
      if (text === this.#text && this.#control) return;
      await this.#check(text);
      this.#text = text;
      await this.#apply();
    });
  }

  /** Ends one of an earlier process, and its routes with it: the node's ways are others now. */
  async shutDown(): Promise<void> {
    const control = await BirdControl.open(this.#socket, () => undefined).catch(() => undefined); // none runs
    await control
      ?.command('down')
      .catch((error: unknown) => this.#options.log.warn({ error: String(error) }, 'BIRD did not say that it ends'));
    control?.close();
  }

  /** Leaves BIRD running: pods go on. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#working;
    this.#control?.close();
  }

  #alone(work: () => Promise<void>): Promise<void> {
    const mine = this.#working.then(work);
    this.#working = mine.catch(() => undefined); // told to who asked
    return mine;
  }

  async #check(text: string): Promise<void> {
    const { directory, program, clock } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await mkdir(dirname(this.#socket), { recursive: true, mode: 0o700 });
    const next = join(directory, 'bird.conf.next');
    await writeFile(next, text, { mode: 0o600 });
    const { exitCode, stderr, killed } = await runProgram(clock, program, ['-p', '-c', next], { timeoutMs });
    if (exitCode !== 0) throw new NetworkError('InvalidConfig', `BIRD refuses its configuration: ${killed ?? stderr.trim().slice(0, 500)}`);
    await rename(next, join(directory, 'bird.conf'));
  }

  async #apply(): Promise<void> {
    if (!this.#control) await this.#connect();
    const answer = (await this.#control?.command('configure')) ?? [];
    // 0003 and its neighbors: done, or under way; 8xxx and 9xxx: refused
    if (answer.some((line) => /^[89]\d{3}/.test(line))) throw new NetworkError('PluginFailed', `BIRD: ${answer.join(' ').slice(0, 500)}`);
  }

  /** To the one that runs, or to a new one. */
  async #connect(): Promise<void> {
    const ended = () => this.#ended();
    this.#control = await BirdControl.open(this.#socket, ended).catch(async () => {
      const { directory, program, clock } = this.#options;
      const args = ['-c', join(directory, 'bird.conf'), '-s', this.#socket, '-P', join(directory, 'bird.pid')];
      // it listens before it leaves for the background
      const { exitCode, stderr, killed } = await runProgram(clock, program, args, { timeoutMs });
      if (exitCode !== 0) throw new NetworkError('PluginFailed', `${program} does not start: ${killed ?? stderr.trim().slice(0, 500)}`);
      return BirdControl.open(this.#socket, ended);
    });
  }

  #ended(): void {
    this.#control = undefined;
    if (this.#stopped) return;
    const { log, clock } = this.#options;
    log.warn({ socket: this.#socket }, 'BIRD has ended, and is started again');
    void this.#alone(() => this.#connect()).catch((error: unknown) => {
      log.error({ error: String(error), retryInMs: retryMs }, 'BIRD cannot be started');
      this.#timer = clock.after(retryMs, () => this.#ended());
    });
  }
}
