import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { namespaces, networkPolicies } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { nft } from '@oarlock/nftables/nft';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { datagram, fragments, neighborAdvertisement, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { Node } from './support/node.ts';
import { cable } from './support/pod-end.ts';

/** Count the packets before and after the rules of the plugin, without the errors with which a pod answers. */
const counted = 'icmp type destination-unreachable accept; icmpv6 type destination-unreachable accept; counter';
const observer = `table inet observer {}
delete table inet observer
table inet observer {
  chain before { type filter hook forward priority -50; ${counted}; }
  chain after { type filter hook forward priority 50; ${counted}; }
}\n`;
const [allowedPort, otherPort] = [9000, 9001];
/** Inserts an extension header of 8 bytes before the payload of an IPv6 frame (RFC 8200, section 4). */
function withExtension(frame: Buffer, type: number, content: string): Buffer {
  const copy = Buffer.from(frame);
  const extension = Buffer.concat([Buffer.from([copy[20] ?? 0, 0]), Buffer.from(content, 'hex')]);
  copy.writeUInt8(type, 20);
  copy.writeUInt16BE(copy.readUInt16BE(18) + extension.length, 18);
  return Buffer.concat([copy.subarray(0, 54), extension, copy.subarray(54)]);
}
/** Replaces the UDP header by that of SCTP with chunks; receivers, not routers, verify its checksum. */
function sctp(frame: Buffer, chunks: string): Buffer {
  const isSix = frame.readUInt16BE(12) === 0x86dd;
  const start = isSix ? 54 : 34;
  const body = Buffer.concat([frame.subarray(start, start + 4), Buffer.alloc(8), Buffer.from(chunks, 'hex')]);
  const head = Buffer.from(frame.subarray(0, start));
  if (isSix) {
    head.writeUInt8(132, 20);
    head.writeUInt16BE(body.length, 18);
  } else {
    head.writeUInt8(132, 23);
    head.writeUInt16BE(20 + body.length, 16);
    head.writeUInt16BE(0, 24);
    head.writeUInt16BE(ipChecksum(head.subarray(14)), 24);
  }
  return Buffer.concat([head, body]);
}
function ipChecksum(head: Buffer): number {
  let sum = 0;
  for (let at = 0; at < head.length; at += 2) sum += head.readUInt16BE(at);
  while (sum > 0xff_ff) sum = (sum & 0xff_ff) + (sum >>> 16);
  return ~sum & 0xff_ff;
}
/** The chunks INIT and DATA (RFC 9260, section 3.3). */
const [init, data] = ['0100001400000001000100000001000100000001', '0003001400000001000000000000000061626364'];
const linkOf = (...enter: string[]) => {
  const [file = 'ip', ...args] = [...enter, 'ip', '-j', 'link', 'show'];
  return JSON.parse(execFileSync(file, args, { encoding: 'utf8' })) as readonly { readonly ifname: string; readonly address: string }[];
};

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  let api: MemoryApi;
  let informers: SharedInformerFactory;
  let policies: NftablesPolicies;
  const children: ChildProcess[] = [];
  const links: string[] = [];

  beforeEach(() => {
    api = memoryApi({ clock: new FakeClock() });
    api.seed(namespaces, { metadata: { name: 'open' } }, { metadata: { name: 'closed' } });
    const ports = [
      { protocol: 'UDP', port: allowedPort },
      { protocol: 'SCTP', port: allowedPort },
    ];
    const spec = { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{ ports }] };
    api.seed(networkPolicies, { metadata: { namespace: 'closed', name: 'one-port' }, spec });
    informers = new SharedInformerFactory({ client: api.client(), clock: systemClock });
    informers.start();
    policies = new NftablesPolicies({ informers, client: api.client(), clock: systemClock, log: silentLogger, tracer: noTracer });
    policies.startForNode('here');
  });
  afterEach(async () => {
    // the kernel removes those of an ended namespace later
    for (const link of links.splice(0)) Node.here().ip('link', 'del', link);
    for (const child of children.splice(0)) {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
    await policies.stop();
    await policies.clear();
    await informers.stop();
    await api.stop();
  });

  async function connect(node: Node, at: number) {
    const child = spawn('unshare', ['--net', 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
    children.push(child);
    child.stdin.write('up\n');
    await once(child.stdout, 'data'); // the echoed line proves that the namespace exists
    links.push(`end${at}`);
    await cable(node, `end${at}`, child.pid ?? 0, [`10.98.0.${at}`, `fd00:98::${at}`], [`10.98.1.${at}`, `fd00:98:1::${at}`]);
    const netns = `/proc/${child.pid}/ns/net`;
    const inside = linkOf('nsenter', `--net=${netns}`).find(({ ifname }) => ifname === 'eth0')?.address ?? '';
    const gateway = linkOf().find(({ ifname }) => ifname === `end${at}`)?.address ?? '';
    return { netns, inside, gateway, addresses: { 4: `10.98.0.${at}`, 6: `fd00:98::${at}` } };
  }
  const countOf = (chain: string) => {
    const rules = execFileSync('nft', ['list', 'chain', 'inet', 'observer', chain], { encoding: 'utf8' });
    return Number(/packets (\d+)/.exec(rules)?.[1]);
  };

  async function isolate() {
    const node = Node.here();
    const [isolated, other] = [await connect(node, 1), await connect(node, 2)];
    const ips = Object.values(isolated.addresses);
    await policies.protect({ namespace: 'closed', name: 'isolated', uid: 'isolated', labels: {}, ips });
    await nft(observer);
    return { isolated, other };
  }

  it('routed packets in the form of neighbor discovery do not leave or reach an isolated pod', async () => {
    const { isolated, other } = await isolate();
    for (const [from, to] of [[isolated, other] as const, [other, isolated] as const])
      sendFrame(
        from.netns,
        neighborAdvertisement(
          { link: from.inside, address: from.addresses[6], to: { link: from.gateway, address: to.addresses[6] } },
          from.addresses[6],
        ),
      );
    while (countOf('before') < 2);
    expect(countOf('after')).toBe(0);
  });

  it('packets match the port of a policy behind fragmentation, extension headers and chunks', async () => {
    const { isolated, other } = await isolate();
    const frame = (family: 4 | 6, port: number) =>
      datagram({
        from: { link: other.inside, address: other.addresses[family], port: 5000 },
        to: { link: other.gateway, address: isolated.addresses[family], port },
        text: 'sixteen bytes...',
      });
    let seen = 0;
    const passed = (...frames: readonly Buffer[]) => {
      const before = countOf('after');
      for (const each of frames) sendFrame(other.netns, each);
      seen += 1;
      while (countOf('before') < seen);
      return countOf('after') - before;
    };
    let identification = 0;
    /** Returns how many of each packet to a port pass. */
    const results = (port: number) => ({
      fragments: ([4, 6] as const).map((family) => passed(...fragments(frame(family, port), 8, ++identification))),
      reversed: ([4, 6] as const).map((family) => passed(...fragments(frame(family, port), 8, ++identification).toReversed())),
      hopByHop: passed(withExtension(frame(6, port), 0, '010400000000')),
      destinationOptions: passed(withExtension(frame(6, port), 60, '010400000000')),
      routing: passed(withExtension(frame(6, port), 43, '020000000000')),
      fragmentOfOne: passed(withExtension(frame(6, port), 44, '000000000009')),
      sctp: ([4, 6] as const).map((family) => passed(sctp(frame(family, port), init))),
      bundled: ([4, 6] as const).map((family) => passed(sctp(frame(family, port), `${init}${data}`))),
      withoutInit: ([4, 6] as const).map((family) => passed(sctp(frame(family, port), data))),
    });
    const all = (count: number) => ({
      ...{
        fragments: [count, count],
        reversed: [count, count],
        sctp: [count, count],
        bundled: [count, count],
        withoutInit: [count, count],
      },
      ...{ hopByHop: count, destinationOptions: count, routing: count, fragmentOfOne: count },
    });
    expect(results(otherPort)).toEqual(all(0));
    expect(results(allowedPort)).toEqual(all(1));
  });
}
