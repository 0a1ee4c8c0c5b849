import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Attachment, NetworkDriver } from '@oarlock/spi/network';

const run = promisify(execFile);

/** A minimal network plugin: each sandbox gets an isolated interface with the next address. */
export class TestNetwork implements NetworkDriver {
  readonly traits = { namespace: 'pod' as const, podCIDR: '10.213.78.0/24', serviceCIDR: '10.213.79.0/24' };
  readonly attached = new Map<string, Attachment>();
  #next = 2;

  async setup(): Promise<void> {}

  async add(attachment: Attachment): Promise<{ readonly ips: readonly string[] }> {
    const address = `10.213.78.${this.#next++}`;
    const ip = (...args: string[]) => run('nsenter', [`--net=${attachment.netns}`, '--', 'ip', ...args]);
    await ip('link', 'add', 'eth0', 'type', 'bridge');
    await ip('addr', 'add', `${address}/24`, 'dev', 'eth0');
    await ip('link', 'set', 'eth0', 'up');
    await ip('link', 'set', 'lo', 'up');
    this.attached.set(attachment.containerId, attachment);
    return { ips: [address] };
  }

  async check(): Promise<void> {}
  async del({ containerId }: Attachment): Promise<void> {
    this.attached.delete(containerId);
  }
  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    return { ready: true, message: '' };
  }
  async gc(): Promise<void> {}
}
