import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { SourceAddressFilter } from '../src/source-address-filter.ts';

describe('SourceAddressFilter', () => {
  /** Each transaction as the IPv4 addresses that it changes. */
  let transactions: string[][];
  let filter: SourceAddressFilter;
  beforeEach(async () => {
    transactions = [];
    filter = new SourceAddressFilter({
      clock: new FakeClock(),
      log: silentLogger,
      bridge: 'cni0',
      apply: (script) => {
        const elements = script.matchAll(/(add|delete) element .* own4 .* \. (\S+) /g);
        transactions.push([...elements].map(([, verb, address]) => `${verb} ${address}`));
        return Promise.resolve(script.includes('10.0.0.66') ? 'no such interface' : undefined);
      },
    });
    await filter.restore(() => []);
  });

  const attachment = (index: number): CniResult =>
    ({ interfaces: [{ name: `veth${index}` }], ips: [{ address: `10.0.0.${index}/24` }] }) as unknown as CniResult;

  it('joins changes of pods that start at once in one transaction', async () => {
    await Promise.all([filter.add(attachment(1)), filter.add(attachment(2)), filter.remove(attachment(1))]);
    await filter.add(attachment(3));
    const joined = ['add 10.0.0.1', 'add 10.0.0.2', 'add 10.0.0.1', 'delete 10.0.0.1'];
    expect(transactions).toEqual([[], joined, ['add 10.0.0.3']]);
  });

  it('fails only the pod whose change is rejected', async () => {
    const results = await Promise.allSettled([1, 66, 2].map((index) => filter.add(attachment(index))));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: { message: 'nft: no such interface' } });
    expect(transactions.slice(2)).toEqual([['add 10.0.0.1'], ['add 10.0.0.66'], ['add 10.0.0.2']]);
  });

  it('starts over with the attachments that exist when the rules are replaced', async () => {
    const added = filter.add(attachment(1));
    await filter.restore(() => [attachment(1)]);
    await added;
    expect(transactions).toEqual([[], ['add 10.0.0.1'], ['add 10.0.0.1']]);
  });
});
