import { access } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { nodesOnASwitch, Rack, type SwitchedNode } from '../harness/nodes-on-a-switch.ts';
import { killPid } from '../harness/programs.ts';
import { patienceMs, until, untilValue } from '../harness/until.ts';

const noBird = await access('/usr/sbin/bird').then(
  () => undefined,
  () => 'there is no BIRD 2 (Debian package bird2)',
);
const reason = everythingIsNeeded ? undefined : ((await netnsMissing()) ?? noBird);
const names = ['node-a', 'node-b', 'node-c'] as const;
const modes = ['direct', 'vxlan', 'bgp'] as const;
type Mode = (typeof modes)[number];

const server = `require('node:http').createServer((q, r) => r.end(process.env.POD)).listen(8080, process.env.POD_IP)`;
/** Prints an answer, or why there is none, for each address. */
const client = `(async () => { for (const ip of process.argv.slice(1)) console.log(await fetch('http://' + ip + ':8080', { signal: AbortSignal.timeout(3000) }).then((r) => r.text(), (e) => 'none')); })()`;

describe.skipIf(reason !== undefined)(
  `routed pods on three nodes${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  { retry: 0, timeout: 600_000 },
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let nodes: readonly SwitchedNode[];
    let pods: readonly PodItem[];

    const specOf = (routes: Mode) => ({
      // pods outlive the restarts that change the way
      runtimes: [{ use: 'runtime-process', config: { keepPods: true } }],
      // three addresses for pods in a block, so that a node has several
      network: { use: 'network-calico', config: { routes, confDir: null, pools: [{ cidr: '10.233.0.0/24', blockSize: 30 }] } },
      policy: 'policy-nftables',
      settings: { kubelet: { port: 0 } },
    });
    const startAll = (mode: Mode) => Promise.all(nodes.map((node) => node.start(specOf(mode))));
    const fetched = async (from: PodItem): Promise<string> =>
      (
        await cluster.kubectl.run(['exec', from.metadata.name, '--', 'node', '-e', client, ...pods.map(({ status }) => status.podIP ?? '')])
      ).trim();
    const everyone = () => pods.map(({ metadata }) => metadata.name).join('\n');
    const allReachAll = (from = pods) =>
      Promise.all(
        from.map((pod) =>
          untilValue(
            `what ${pod.metadata.name} reaches`,
            () => fetched(pod),
            (said) => said === everyone(),
            { timeoutMs: patienceMs },
          ),
        ),
      );
    /** What a leak would add to, on a node. */
    const census = async (node: SwitchedNode) => {
      const count = (text: string, pattern: RegExp) => text.split('\n').filter((line) => pattern.test(line)).length;
      const [links, routes, rules] = await Promise.all([
        node.run('ip', '-o', 'link'),
        node.run('ip', 'route', 'show'),
        node.run('nft', 'list', 'table', 'inet', 'oarlock-cali'),
      ]);
      return {
        links: count(links, /./),
        podRoutes: count(routes, /dev cali/),
        otherRoutes: count(routes, /^10\.233\..* via /),
        rules: count(rules, /./),
      };
    };
    const censuses = () => Promise.all(nodes.map(census));

    beforeAll(async () => {
      const rack = await Rack.build(machine);
      const spec = composition({ storage: 'memory', runtime: 'process', network: 'host' });
      cluster = await machine.cluster({
        spec: {
          storage: spec.storage ?? 'storage-memory',
          roles: ['apiserver', 'controllers', 'scheduler'],
          server: { address: '0.0.0.0', names: [rack.address] },
          networking: { podCIDRs: ['10.233.0.0/16'] },
          policy: 'policy-nftables',
        },
      });
      nodes = await nodesOnASwitch(machine, cluster, names, rack);
      await startAll('direct');
    }, 600_000);

    it('gives pods addresses of blocks of their nodes', async () => {
      await cluster.kubectl.apply({
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'far', labels: { app: 'far' } },
        spec: {
          replicas: 6,
          selector: { matchLabels: { app: 'far' } },
          template: {
            metadata: { labels: { app: 'far' } },
            spec: {
              terminationGracePeriodSeconds: 1,
              topologySpreadConstraints: [
                {
                  maxSkew: 1,
                  topologyKey: 'kubernetes.io/hostname',
                  whenUnsatisfiable: 'DoNotSchedule',
                  labelSelector: { matchLabels: { app: 'far' } },
                },
              ],
              containers: [
                {
                  name: 'main',
                  image: 'host',
                  command: ['node', '-e', server],
                  env: [
                    { name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
                    { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
                  ],
                },
              ],
            },
          },
        },
      });
      pods = await cluster.api.untilReady('default', 'far', 6, patienceMs);
      expect(new Set(pods.map(({ status }) => status.podIP)).size).toBe(6);
      expect(new Set(pods.map(({ spec }) => spec.nodeName)).size).toBe(3);
      const blocks = JSON.parse(await cluster.kubectl.run(['get', 'ipblocks', '-o', 'json'])) as {
        items: { spec: { cidr: string; node: string } }[];
      };
      for (const pod of pods) {
        const last = Number(pod.status.podIP?.split('.')[3]);
        const block = blocks.items.find(({ spec }) => spec.cidr === `10.233.0.${last - (last % 4)}/30`);
        expect(block?.spec.node, `${pod.metadata.name} at ${pod.status.podIP}`).toBe(pod.spec.nodeName);
      }
    });

    it.each(modes)('lets all reach all: %s', async (mode) => {
      if (mode !== 'direct') {
        await Promise.all(nodes.map((node) => node.stop()));
        await startAll(mode);
        pods = await cluster.api.untilReady('default', 'far', 6, patienceMs);
      }
      await allReachAll();
      const [node] = nodes;
      const routes =
        (await node?.run('ip', 'route', 'show'))?.split('\n').filter((line) => line.startsWith('10.233.') && line.includes(' via ')) ?? [];
      expect(routes.length).toBeGreaterThanOrEqual(2);
      const shape = {
        direct: / via 10\.215\.\S+ dev up0 proto 77/,
        vxlan: / dev oarlock-cvx .*onlink/,
        bgp: / via 10\.215\.\S+ dev up0 proto bird/,
      }[mode];
      for (const route of routes) expect(route).toMatch(shape);
    });

    it('holds pods to policies, whichever node a packet comes from', async () => {
      const [first, ...rest] = pods;
      if (!first) throw new Error('there is no pod');
      await cluster.kubectl.run(['label', 'pod', first.metadata.name, 'closed=yes']);
      await cluster.kubectl.apply({
        apiVersion: 'networking.k8s.io/v1',
        kind: 'NetworkPolicy',
        metadata: { name: 'closed' },
        spec: { podSelector: { matchLabels: { closed: 'yes' } }, policyTypes: ['Ingress'] },
      });
      const wanted = pods.map((pod) => (pod === first ? 'none' : pod.metadata.name)).join('\n');
      const others = nodes.flatMap(({ name }) => rest.find(({ spec }) => spec.nodeName === name) ?? []);
      expect(others.length).toBe(3);
      await Promise.all(
        others.map((pod) =>
          untilValue(
            `what ${pod.metadata.name} reaches`,
            () => fetched(pod),
            (said) => said === wanted,
            { timeoutMs: patienceMs },
          ),
        ),
      );
      await cluster.kubectl.run(['delete', 'networkpolicy', 'closed']);
      await allReachAll();
    });

    it('goes on when BIRD is killed, and starts it again', async () => {
      const before = await censuses();
      const [, node] = nodes;
      if (!node) throw new Error('there is no second node');
      const running = async () =>
        (
          await node.run(
            'sh',
            '-c',
            `cat ${node.dataDir}/plugins/network-calico/bird/bird.pid || find ${node.dataDir} -name bird.pid -exec cat {} +`,
          )
        ).trim();
      const pid = Number(await running());
      killPid(pid, 'SIGKILL');
      await until('BIRD runs again', async () => Number(await running()) !== pid);
      await allReachAll();
      await untilValue('the same as before', censuses, (now) => JSON.stringify(now) === JSON.stringify(before), { timeoutMs: patienceMs });
    });

    it('goes on when a node is killed, and takes back what its pods had', async () => {
      const before = await censuses();
      const [, , node] = nodes;
      if (!node) throw new Error('there is no third node');
      await node.stop('SIGKILL');
      // nobody is there to run a program in its own pods
      await allReachAll(pods.filter(({ spec }) => spec.nodeName !== node.name));
      await node.start(specOf('bgp'));
      await untilValue('the same as before', censuses, (now) => JSON.stringify(now) === JSON.stringify(before), { timeoutMs: patienceMs });
      await cluster.kubectl.run(['delete', 'deployment', 'far']);
      await untilValue(
        'pods',
        () => cluster.kubectl.run(['get', 'pods', '-o', 'name']),
        (left) => left.trim() === '',
        { timeoutMs: patienceMs },
      );
      await untilValue('routes of pods', censuses, (now) => now.every(({ podRoutes }) => podRoutes === 0), { timeoutMs: patienceMs });
    });
  },
);
