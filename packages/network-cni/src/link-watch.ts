import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { LineWatch } from './line-watch.ts';

export interface LinkWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with a link's name when it is up after a change, or gone; with nothing when some of that may have been missed. */
  readonly changed: (link?: string) => void;
}
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
  readonly #lines: LineWatch;

  constructor({ clock, log, changed }: LinkWatchOptions) {
    this.#lines = new LineWatch({
      clock,
      log,
      command: ['ip', '-o', 'monitor', 'link'],
      what: 'what becomes of the links of the node',
      begun: () => changed(),
      line: (text) => {
        const link = linkOf(text);
        if (link && link.state !== 'down') changed(link.name);
      },
    });
  }

  start(): void {
    this.#lines.start();
  }
  stop(): void {
    this.#lines.stop();
  }
}
