import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { searchPath } from './run-program.ts';

export interface LinkWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with a link's name when it is up after a change, or gone; with nothing when some of that may have been missed. */
  readonly changed: (link?: string) => void;
}
const retryMs = 2_000;
/** `7: up0@if6: <BROADCAST,UP> ...`, after `Deleted ` where it is gone. */
const line = /^(Deleted )?\d+: ([^:@\s]{1,15})(?:@[^:\s]+)?: <([A-Z0-9_,-]*)>/;

/** What a line of `ip -o monitor link` says; undefined: nothing about a link. */
export function linkOf(text: string): { readonly name: string; readonly state: 'up' | 'down' | 'gone' } | undefined {
  const [, deleted, name, flags = ''] = line.exec(text) ?? [];
  if (name === undefined) return undefined;
  return { name, state: deleted ? 'gone' : flags.split(',').includes('UP') ? 'up' : 'down' };
}

/**
 * Tells of links that went and came back: with a link that is taken down the kernel forgets its routes and neighbours, says nothing of it, and does not
 * bring them back.
 */
export class LinkWatch {
  readonly #options: LinkWatchOptions;
  #child: ChildProcess | undefined;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: LinkWatchOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#child || this.#stopped) return;
    // it has nobody to tell when this process is killed
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'ip', '-o', 'monitor', 'link'], {
      env: { PATH: searchPath },
      stdio: ['ignore', 'pipe', 'ignore'],
      cwd: '/',
    });
    this.#child = child;
    let ended = false;
    const end = (why: string) => {
      if (ended) return;
      ended = true;
      this.#child = undefined;
      if (this.#stopped) return;
      const { clock, log } = this.#options;
      log.warn({ why, retryInMs: retryMs }, 'links of the node cannot be watched');
      this.#timer = clock.after(retryMs, () => this.start());
    };
    child.once('spawn', () => this.#options.changed());
    child.once('error', (error) => end(error.message));
    child.once('close', (code, signal) => end(`ip monitor ended with ${code ?? signal}`));
    createInterface({ input: child.stdout }).on('line', (text) => this.#see(text));
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#child?.kill('SIGKILL');
  }

  #see(text: string): void {
    const link = linkOf(text);
    if (link && link.state !== 'down') this.#options.changed(link.name);
  }
}
