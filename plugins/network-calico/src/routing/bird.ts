import { createHash } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { NetworkError } from '@oarlock/spi/network';
import { BirdControl } from './bird-control.ts';

export interface BirdProcessOptions {
  /** The path of the program `bird`. */
  readonly program: string;
  /** The directory of BIRD's configuration, log and pid files. */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
}
const timeoutMs = 10_000;
const retryMs = 1_000;
/** The maximum length of the path of a Unix socket, without the final NUL (sockaddr_un). */
const longestPath = 107;

/**
 * Runs BIRD as a separate process that outlives this process, so that routes stay. After a restart, this class finds BIRD by its control socket.
 * When the connection to BIRD closes, BIRD is restarted.
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

  /** Applies a configuration. BIRD keeps the old configuration if it rejects the new one. @throws NetworkError `InvalidConfig` with BIRD's message */
  configure(text: string): Promise<void> {
    return this.#alone(async () => {
      if (text === this.#text && this.#control) return;
      await this.#check(text);
      await this.#apply();
      this.#text = text;
    });
  }

  /** Shuts down the BIRD process of an earlier run, which removes its routes, because the node no longer uses BGP. */
  async shutDown(): Promise<void> {
    const control = await BirdControl.open(this.#socket, () => undefined).catch(() => undefined); // BIRD is not running
    await control
      ?.command('down')
      .catch((error: unknown) => this.#options.log.warn({ error: String(error) }, 'BIRD did not confirm its shutdown'));
    control?.close();
  }

  /** Disconnects from BIRD. BIRD keeps running, because pods keep running. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#working;
    this.#control?.close();
  }

  #alone(work: () => Promise<void>): Promise<void> {
    const result = this.#working.then(work);
    this.#working = result.catch(() => undefined); // the caller already receives the rejection
    return result;
  }

  async #check(text: string): Promise<void> {
    const { directory, program, clock } = this.#options;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await mkdir(dirname(this.#socket), { recursive: true, mode: 0o700 });
    const next = join(directory, 'bird.conf.next');
    await writeFile(next, text, { mode: 0o600 });
    const { exitCode, stderr, killed } = await runProgram(clock, program, ['-p', '-c', next], { timeoutMs });
    if (exitCode !== 0)
      throw new NetworkError('InvalidConfig', `BIRD rejected its configuration: ${killed ?? stderr.trim().slice(0, 500)}`);
    await rename(next, join(directory, 'bird.conf'));
  }

  async #apply(): Promise<void> {
    if (!this.#control) await this.#connect();
    const answer = (await this.#control?.command('configure')) ?? [];
    // 0003 and the next codes: reconfigured, or in progress; 8xxx and 9xxx: error
    if (answer.some((line) => /^[89]\d{3}/.test(line))) throw new NetworkError('PluginFailed', `BIRD: ${answer.join(' ').slice(0, 500)}`);
  }

  /** Connects to a running BIRD process, or starts one. */
  async #connect(): Promise<void> {
    const ended = () => this.#ended();
    this.#control = await BirdControl.open(this.#socket, ended).catch(async () => {
      const { directory, program, clock } = this.#options;
      const args = ['-c', join(directory, 'bird.conf'), '-s', this.#socket, '-P', join(directory, 'bird.pid')];
      // BIRD listens before it daemonizes
      const { exitCode, stderr, killed } = await runProgram(clock, program, args, { timeoutMs });
      if (exitCode !== 0) throw new NetworkError('PluginFailed', `${program} failed to start: ${killed ?? stderr.trim().slice(0, 500)}`);
      return BirdControl.open(this.#socket, ended);
    });
  }

  #ended(): void {
    this.#control = undefined;
    if (this.#stopped) return;
    const { log, clock } = this.#options;
    log.warn({ socket: this.#socket }, 'BIRD exited and is restarted');
    void this.#alone(() => this.#connect()).catch((error: unknown) => {
      log.error({ error: String(error), retryInMs: retryMs }, 'BIRD could not be started');
      this.#timer = clock.after(retryMs, () => this.#ended());
    });
  }
}
