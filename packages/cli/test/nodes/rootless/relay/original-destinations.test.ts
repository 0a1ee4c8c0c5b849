import { expect, it } from 'vitest';
import { OriginalDestinations, parseDestinations, type RunNft } from '../../../../src/nodes/rootless/relay/original-destinations.ts';

const printed = `table ip oarlock-relay {
	map destinations {
		type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
		size 65536
		flags dynamic,timeout
		timeout 1m
		elements = { 198.51.100.2 . tcp . 60726 expires 59s944ms : 93.184.216.34 . 443,
			     198.51.100.2 . udp . 43957 timeout 2m expires 1m59s : 8.8.8.8 . 53 }
	}
}
`;

it('reads what nft prints', () => {
  expect([...parseDestinations(printed)]).toEqual([
    ['198.51.100.2 . tcp . 60726', { address: '93.184.216.34', port: 443 }],
    ['198.51.100.2 . udp . 43957', { address: '8.8.8.8', port: 53 }],
  ]);
});

/** Answers with the known clients if all clients of the request are known, as nft does. */
function fakeNft(known: readonly string[]): { readonly run: RunNft; readonly requests: string[][] } {
  const requests: string[][] = [];
  const run: RunNft = async (args) => {
    const keys = (args.at(-1) ?? '').replace(/[{}]/g, '').trim().split(', ');
    requests.push(keys);
    if (!keys.every((key) => known.includes(key))) return undefined;
    return keys.map((key) => `${key} expires 1s : 10.0.0.1 . 80`).join('\n');
  };
  return { run, requests };
}

it('shares one run of nft between lookups that arrive meanwhile', async () => {
  const { run, requests } = fakeNft(['1.1.1.1 . tcp . 1', '1.1.1.1 . tcp . 2', '1.1.1.1 . udp . 2']);
  const destinations = new OriginalDestinations(run);
  const found = await Promise.all([
    destinations.find({ protocol: 'tcp', address: '1.1.1.1', port: 1 }),
    destinations.find({ protocol: 'tcp', address: '1.1.1.1', port: 2 }),
    destinations.find({ protocol: 'udp', address: '1.1.1.1', port: 2 }),
  ]);
  expect(found.map((target) => target?.protocol)).toEqual(['tcp', 'tcp', 'udp']);
  expect(requests).toEqual([['1.1.1.1 . tcp . 1'], ['1.1.1.1 . tcp . 2', '1.1.1.1 . udp . 2']]);
});

it('finds the others if the kernel does not know one', async () => {
  const destinations = new OriginalDestinations(fakeNft(['1.1.1.1 . tcp . 1', '1.1.1.1 . tcp . 3']).run);
  const find = (port: number) => destinations.find({ protocol: 'tcp', address: '1.1.1.1', port });
  const found = await Promise.all([find(1), find(2), find(3)]);
  expect(found.map((target) => target?.port)).toEqual([80, undefined, 80]);
});

it('gives each source its turn, so that one with many lookups delays no other', async () => {
  const sources = { many: '10.244.0.2', few: '10.244.0.3' };
  const ports = Array.from({ length: 1000 }, (_, index) => index + 1);
  const known = [...ports.map((port) => `${sources.many} . tcp . ${port}`), `${sources.few} . tcp . 1`];
  const { run, requests } = fakeNft(known);
  const destinations = new OriginalDestinations(run);
  const flood = ports.map((port) => destinations.find({ protocol: 'tcp', address: sources.many, port }));
  const found = await destinations.find({ protocol: 'tcp', address: sources.few, port: 1 });
  expect(found?.port).toBe(80);
  expect(requests.length).toBeLessThanOrEqual(2);
  expect((await Promise.all(flood)).every((target) => target?.port === 80)).toBe(true);
});

it('answers a source before it searches what the kernel does not know of another', async () => {
  const { run, requests } = fakeNft(['10.244.0.3 . tcp . 1']);
  const destinations = new OriginalDestinations(run);
  const flood = Array.from({ length: 100 }, (_, port) => destinations.find({ protocol: 'tcp', address: '10.244.0.2', port: port + 1 }));
  const found = await destinations.find({ protocol: 'tcp', address: '10.244.0.3', port: 1 });
  expect(found?.port).toBe(80);
  // the first lookup of the flood, the batch of both sources, the small source alone, and what has begun since
  expect(requests.length).toBeLessThanOrEqual(4);
  expect(await Promise.all(flood)).toEqual(flood.map(() => undefined));
});
