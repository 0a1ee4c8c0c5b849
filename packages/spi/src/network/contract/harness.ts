import { randomBytes, randomUUID } from 'node:crypto';
import { cidrContains, parseCIDR } from '@oarlock/api/net/cidr';
import { expect } from 'vitest';
import { podInterface, type Attachment, type NetworkDriver, type NetworkResult, type NodeNetwork } from '../network.ts';

/** Access to the network driver under test, provided by the package of the driver. */
export interface NetworkFixture {
  /** The network driver under test, started; `setup` has not been called. */
  readonly driver: NetworkDriver;
  /** A configuration with ranges of at least 60 addresses. */
  readonly node: NodeNetwork;
  /** A configuration of the same node with a range of 3 to 30 addresses, so that exhaustion and leaks show soon. */
  readonly small: NodeNetwork;
  /** Creates a network namespace. Required if `traits.namespace` is `pod`. */
  newNetns?(): Promise<{ readonly path: string; remove(): Promise<void> }>;
  /** Abandons the driver as if the driver's process had ended, and returns a new driver with the same persistent state. */
  restart?(): Promise<NetworkDriver>;
  /**
   * Runs `setup(node)` and `add(attachment)` in another process, and kills that process (SIGKILL) during `add`. Resolves when none of the driver's
   * processes run.
   */
  crashAdd?(attachment: Attachment, node: NodeNetwork): Promise<void>;
  /**
   * Counts the resources that `add` creates on the machine: interfaces, addresses, rules, files. Equal counts before and after mean that nothing
   * leaked.
   */
  countResources?(): Promise<Readonly<Record<string, number>>>;
  /** Rounds of `add` and `del` in the leak test. Default 300. */
  readonly cycles?: number;
  /** Unsupported capabilities, each with the reason shown for the skipped tests. */
  readonly unsupported?: Partial<Readonly<Record<NetworkCapability, string>>>;
  dispose(): Promise<void>;
}
/**
 * A capability that some network drivers lack. `addresses`: each attachment has its own address. A fixture supports every capability that is not in
 * `unsupported`.
 */
export type NetworkCapability = 'addresses' | 'restart' | 'crash';

export const networkError = (code: string) => expect.objectContaining({ name: 'NetworkError', code });

/** A driver under test, with methods that create attachments and clean up. */
export class NetworkHarness {
  readonly fixture: NetworkFixture;
  driver: NetworkDriver;
  readonly #namespaces = new Map<string, () => Promise<void>>();

  constructor(fixture: NetworkFixture) {
    this.fixture = fixture;
    this.driver = fixture.driver;
  }

  async attachment(more: Partial<Attachment> = {}): Promise<Attachment> {
    const uid = randomUUID();
    const netns = this.driver.traits.namespace === 'pod' ? await this.#netns() : undefined;
    return {
      containerId: randomBytes(32).toString('hex'),
      ifName: podInterface,
      ...(netns !== undefined && { netns }),
      pod: { namespace: 'contract', name: `pod-${uid.slice(0, 8)}`, uid },
      portMappings: [],
      ...more,
    };
  }
  async #netns(): Promise<string> {
    if (!this.fixture.newNetns) throw new Error('the driver needs network namespaces, and the fixture creates none');
    const { path, remove } = await this.fixture.newNetns();
    this.#namespaces.set(path, remove);
    return path;
  }
  async removeNetns({ netns }: Attachment): Promise<void> {
    if (netns === undefined) return;
    await this.#namespaces.get(netns)?.();
    this.#namespaces.delete(netns);
  }

  async add(more: Partial<Attachment> = {}): Promise<{ attachment: Attachment; result: NetworkResult; ip: string }> {
    const attachment = await this.attachment(more);
    const result = await this.driver.add(attachment);
    return { attachment, result, ip: result.ips[0] ?? '' };
  }
  async del(attachment: Attachment): Promise<void> {
    await this.driver.del(attachment);
    await this.removeNetns(attachment);
  }
  /** Adds attachments until the pod CIDR is exhausted. Returns the attachments by address. */
  async fill(): Promise<Map<string, Attachment>> {
    const attachments = new Map<string, Attachment>();
    for (;;) {
      const attachment = await this.attachment();
      let ip: string | undefined;
      try {
        ip = (await this.driver.add(attachment)).ips[0];
      } catch (error) {
        expect(error).toEqual(networkError('Exhausted'));
        await this.del(attachment);
        return attachments;
      }
      expect(attachments.has(ip ?? ''), `${ip} was assigned twice`).toBe(false);
      attachments.set(ip ?? '', attachment);
      expect(attachments.size, 'the small range has at most 30 addresses').toBeLessThanOrEqual(30);
    }
  }
  async delAll(attachments: Iterable<Attachment>): Promise<void> {
    for (const attachment of attachments) await this.del(attachment);
  }
  /**
   * Asserts that the resources on the machine are equal to `before`. Waits, because the kernel removes the interfaces of a deleted namespace
   * asynchronously.
   */
  async expectResources(before: Readonly<Record<string, number>> | undefined): Promise<void> {
    if (before) await expect.poll(() => this.fixture.countResources?.(), { timeout: 120_000 }).toEqual(before);
  }
  async restart(): Promise<void> {
    if (!this.fixture.restart) throw new Error('restart is supported, but the fixture has no restart');
    this.driver = await this.fixture.restart();
  }
  async close(): Promise<void> {
    for (const remove of this.#namespaces.values()) await remove();
    await this.fixture.dispose();
  }
}

export function inRange(ip: string, range: string): boolean {
  const cidr = parseCIDR(range);
  return cidr !== undefined && cidrContains(cidr, ip);
}
