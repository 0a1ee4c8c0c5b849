import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { listenForDatagrams } from '@oarlock/testing/network/datagram-listener';
import { datagram, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { openNetwork, type PodConnector } from './support/networks.ts';

/** Addresses of groups, with the link addresses of their frames. */
const groups = {
  4: [
    ['255.255.255.255', 'ff:ff:ff:ff:ff:ff'],
    ['10.99.1.255', 'ff:ff:ff:ff:ff:ff'],
    ['224.0.0.1', '01:00:5e:00:00:01'],
    ['239.1.2.3', '01:00:5e:01:02:03'],
  ],
  6: [
    ['ff02::1', '33:33:00:00:00:01'],
    ['ff05::1:3', '33:33:00:01:00:03'],
    ['ff0e::1:3', '33:33:00:01:00:03'],
    ['fd00:99:0:1::', '33:33:00:00:00:01'],
  ],
} as const;
type Family = keyof typeof groups;

interface Pod {
  readonly netns: string;
  readonly addresses: Readonly<Record<Family, string>>;
  readonly link: string;
  /** The link address of the node. */
  readonly gateway: string;
}

const calicoGateway = 'ee:ee:ee:ee:ee:ee';
const linkAddress = (output: string) => (JSON.parse(output) as readonly { readonly address: string }[])[0]?.address ?? '';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe.each(['bridge', 'calico'] as const)('broadcasts and multicasts on network-%s with NetworkPolicies', (name) => {
    let network: PodConnector;
    let api: MemoryApi;
    let informers: SharedInformerFactory;
    let policies: NftablesPolicies;
    const children: ChildProcess[] = [];

    beforeEach(async () => {
      ip('link', 'set', 'lo', 'up');
      network = await openNetwork(name);
      api = memoryApi({ clock: new FakeClock() });
      api.seed(namespaces, { metadata: { name: 'open' } }, { metadata: { name: 'closed' } });
      const from = [{ podSelector: { matchLabels: { app: 'friend' } } }];
      const spec = { podSelector: { matchLabels: { app: 'isolated' } }, policyTypes: ['Ingress', 'Egress'], ingress: [{ from }] };
      api.seed(networkPolicies, { metadata: { namespace: 'closed', name: 'isolate' }, spec });
      informers = new SharedInformerFactory({ client: api.client(), clock: systemClock });
      informers.start();
      policies = new NftablesPolicies({ informers, client: api.client(), clock: systemClock, log: silentLogger, tracer: noTracer });
      await policies.start();
      policies.startForNode('here');
    });
    afterEach(async () => {
      for (const child of children.splice(0)) {
        child.kill('SIGKILL');
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      }
      await policies.stop();
      await policies.clear();
      await informers.stop();
      await api.stop();
      await network.close();
    });

    async function attach(namespace: string, app: string): Promise<Pod> {
      const child = spawn('unshare', ['--net', 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
      children.push(child);
      child.stdin.write('up\n');
      await once(child.stdout, 'data'); // the echoed line proves that the namespace exists
      const netns = `/proc/${child.pid}/ns/net`;
      const enter = (...command: string[]) => execFileSync('nsenter', [`--net=${netns}`, ...command], { encoding: 'utf8' });
      enter('sysctl', '-qw', 'net.ipv6.conf.default.accept_dad=0');
      const ips = await network.connect(child.pid ?? 0);
      const status = { phase: 'Running', podIP: ips[0] ?? '', podIPs: ips.map((each) => ({ ip: each })) };
      api.seed(pods, { metadata: { namespace, name: app, uid: app, labels: { app } }, spec: { nodeName: 'here', containers: [] }, status });
      await api.settle();
      await policies.protect({ namespace, name: app, uid: app, labels: { app }, ips });
      const link = linkAddress(enter('ip', '-j', 'link', 'show', 'dev', 'eth0'));
      const gateway =
        name === 'bridge' ? linkAddress(execFileSync('ip', ['-j', 'link', 'show', 'type', 'bridge'], { encoding: 'utf8' })) : calicoGateway;
      return { netns, addresses: { 4: ips[0] ?? '', 6: ips[1] ?? '' }, link, gateway };
    }
    const send = (from: Pod, to: { readonly link: string; readonly address: string }, text: string) => {
      const family = to.address.includes(':') ? 6 : 4;
      const source = { link: from.link, address: from.addresses[family], port: 5000 };
      sendFrame(from.netns, datagram({ from: source, to: { ...to, port: 9000 }, text }));
    };
    /** Sends to every group, in frames for the group, for the node and for the target; and to the target in frames for groups. */
    function attack(from: Pod, target: Pod, family: Family): void {
      for (const [address, group] of groups[family]) {
        for (const link of [group, from.gateway, target.link]) send(from, { link, address }, `${address} in a frame to ${link}`);
        send(from, { link: group, address: target.addresses[family] }, `the address of the pod in a frame to ${group}`);
      }
    }

    it.each([4, 6] as const)('neither leave an isolated pod nor arrive at it over IPv%s', async (family) => {
      const friend = await attach('closed', 'friend');
      const isolated = await attach('closed', 'isolated');
      const other = await attach('open', 'other');
      const link = (pod: Pod) => (name === 'bridge' ? pod.link : pod.gateway);
      for (const [from, target] of [
        [isolated, other],
        [other, isolated],
      ] as const) {
        const output = await listenForDatagrams(target.netns, family);
        attack(from, target, family);
        send(from, { link: link(target), address: target.addresses[family] }, 'the address of the pod');
        send(friend, { link: link(target), address: target.addresses[family] }, 'end');
        expect(await output()).toBe('ready\nend\n');
      }
    });
  });
