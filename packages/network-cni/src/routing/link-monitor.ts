import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { ProgramMonitor } from '../process/program-monitor.ts';

export interface LinkMonitorOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the name of a link that went up or was removed. Called without a name if events may have been missed. */
  readonly changed: (link?: string) => void;
}
/** Matches a line such as `7: up0@if6: <BROADCAST,UP> ...`, with the prefix `Deleted ` if the link was removed. */
const line = /^(Deleted )?\d+: ([^:@\s]{1,15})(?:@[^:\s]+)?: <([A-Z0-9_,-]*)>/;

/** Parses a line of `ip -o monitor link`. Returns undefined if the line is not about a link. */
export function linkOf(text: string): { readonly name: string; readonly state: 'up' | 'down' | 'gone' } | undefined {
  const [, deleted, name, flags = ''] = line.exec(text) ?? [];
  if (name === undefined) return undefined;
  return { name, state: deleted ? 'gone' : flags.split(',').includes('UP') ? 'up' : 'down' };
}

/**
 * Reports links that went up or were removed. When a link goes down, the kernel removes the link's routes and neighbors without a notification
 * and does not restore them.
 */
export class LinkMonitor {
  readonly #lines: ProgramMonitor;

  constructor({ clock, log, changed }: LinkMonitorOptions) {
    this.#lines = new ProgramMonitor({
      clock,
      log,
      command: ['ip', '-o', 'monitor', 'link'],
      subject: 'links of the node',
      onStart: () => changed(),
      onLine: (text) => {
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
