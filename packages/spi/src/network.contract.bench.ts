import { randomBytes, randomUUID } from 'node:crypto';
import { BlockList, isIPv6 } from 'node:net';
import { expect } from 'vitest';
import type { Attachment, NetworkDriver, NetworkResult, NodeNetwork } from './network.ts';

export interface NetworkFixture {
  /** Started; `setup` has not been called. */
  readonly driver: NetworkDriver;
  /** Ranges that hold at least 60 addresses. */
  readonly node: NodeNetwork;
  /** The same node with a range of 3 to 30 addresses, so that exhaustion and leaks show soon. */
  readonly small: NodeNetwork;
  /** Needed where `traits.namespace` is `pod`. */
  newNetns?(): Promise<{ readonly path: string; remove(): Promise<void> }>;
  /** Drops the driver as the end of its process would, and opens another over the same state. */
  restart?(): Promise<NetworkDriver>;
  /** Starts `setup(node)` and `add(attachment)` in another process and kills it (SIGKILL) in the middle of `add`. Resolves when nothing of it runs any more. */
  crashAdd?(attachment: Attachment, node: NodeNetwork): Promise<void>;
  /** Counts what `add` makes on the machine: interfaces, addresses, rules, files. Equal counts before and after mean that nothing leaked. */
  census?(): Promise<Readonly<Record<string, number>>>;
  /** Rounds of `add` and `del` in the leak test. Default 300. */
  readonly cycles?: number;
  /** What is not claimed, and the reason shown beside the skipped test. */
  readonly lacks?: Partial<Readonly<Record<NetworkCapability, string>>>;
  dispose(): Promise<void>;
}
/** `addresses`: each attachment has an address of its own. Everything is claimed unless the fixture says why not. */
export type NetworkCapability = 'addresses' | 'restart' | 'crash';

export const refusal = (code: string) => expect.objectContaining({ name: 'NetworkError', code });

/** A driver under test, with what makes attachments for it and cleans up behind them. */
export class NetworkBench {
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
      ifName: 'eth0',
      ...(netns !== undefined && { netns }),
      pod: { namespace: 'contract', name: `pod-${uid.slice(0, 8)}`, uid },
      portMappings: [],
      ...more,
    };
  }
  async #netns(): Promise<string> {
    if (!this.fixture.newNetns) throw new Error('the driver wants network namespaces, and the fixture makes none');
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
  /** Adds until the range is exhausted; what was given out, by address. */
  async fill(): Promise<Map<string, Attachment>> {
    const given = new Map<string, Attachment>();
    for (;;) {
      const attachment = await this.attachment();
      let ip: string | undefined;
      try {
        ip = (await this.driver.add(attachment)).ips[0];
      } catch (error) {
        expect(error).toEqual(refusal('Exhausted'));
        await this.del(attachment);
        return given;
      }
      expect(given.has(ip ?? ''), `${ip} was given twice`).toBe(false);
      given.set(ip ?? '', attachment);
      expect(given.size, 'the small range has at most 30 addresses').toBeLessThanOrEqual(30);
    }
  }
  async empty(given: Iterable<Attachment>): Promise<void> {
    for (const attachment of given) await this.del(attachment);
  }
  /** Nothing was left. The kernel takes what is in a namespace down a moment after its name. */
  async cleanAs(before: Readonly<Record<string, number>> | undefined): Promise<void> {
    if (before) await expect.poll(() => this.fixture.census?.(), { timeout: 120_000 }).toEqual(before);
  }
  async restart(): Promise<void> {
    if (!this.fixture.restart) throw new Error('restart is claimed, but the fixture cannot');
    this.driver = await this.fixture.restart();
  }
  async close(): Promise<void> {
    for (const remove of this.#namespaces.values()) await remove();
    await this.fixture.dispose();
  }
}

export function inRange(ip: string, range: string): boolean {
  const [base = '', bits = ''] = range.split('/');
  const family = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');
  const subnet = new BlockList();
  subnet.addSubnet(base, Number(bits), family(base));
  return subnet.check(ip, family(ip));
}
