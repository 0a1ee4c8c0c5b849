import { isDeepStrictEqual } from 'node:util';
import { once } from 'node:events';
import { access } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isReady, type PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { startSwitchedNodes, Rack, type SwitchedNode } from '../harness/switched-nodes.ts';
import { killPid } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';
import { listPlugins } from '../harness/oarlock.ts';
import { publish, Results, table } from './results.ts';
import {
  clusterRange,
  farObjects,
  keptObject,
  nodeNames,
  nodeSpec,
  RackPods,
  reflectorLabel,
  routeShape,
  waysOf,
  type RackNetwork,
  type Way,
} from './three-nodes.ts';

const noBird = await access('/usr/sbin/bird').then(
  () => undefined,
  () => 'BIRD 2 is not installed (Debian package bird2)',
);

/** Three nodes and every transport that a network plugin has between them. Call it at the top of a test file. */
export async function threeNodeSuite(network: RackNetwork): Promise<void> {
  const [plugins, noNodes] = await Promise.all([listPlugins(), netnsMissing()]);
  const results = new Results();
  afterAll(() => publishRack(network, results));
  const plugin = plugins.find(({ id }) => id === `network-${network}`);
  const missingComponent = noNodes ?? (plugin?.available === true ? undefined : (plugin?.because ?? 'it is not installed'));
  const reason = everythingIsNeeded ? undefined : (missingComponent ?? (network === 'calico' ? noBird : undefined));
  describe.skipIf(reason !== undefined)(`three nodes · ${network}${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let nodes: readonly SwitchedNode[];
    let rack: RackPods;
    /** The address range of the switch. */
    let address: string;

    const node = (at: number): SwitchedNode => nodes[at] ?? expect.fail(`node ${at} does not exist`);
    const startAll = (way: Way) => Promise.all(nodes.map((each) => each.start(nodeSpec(network, way))));
    /** Interfaces, routes and mounts of a node, where leaks would show. */
    const census = async (of: SwitchedNode) => {
      const count = (text: string, pattern: RegExp) => text.split('\n').filter((line) => pattern.test(line)).length;
      const [links, routes, mounts] = await Promise.all([
        of.run('ip', '-o', 'link'),
        of.run('ip', 'route', 'show'),
        of.run('grep', '-c', of.dir, '/proc/self/mountinfo').catch(() => '0'),
      ]);
      return { links: count(links, /./), podRoutes: count(routes, /dev cali/), otherRoutes: count(routes, /^10\.233\..* via /), mounts };
    };
    const censuses = () => Promise.all(nodes.map(census));
    const asBefore = (before: Awaited<ReturnType<typeof censuses>>) =>
      untilValue('the same as before', censuses, (now) => JSON.stringify(now) === JSON.stringify(before));

    beforeAll(async () => {
      const switched = await Rack.build(machine);
      address = switched.address;
      cluster = await machine.cluster({
        spec: {
          storage: 'storage-memory',
          roles: ['apiserver', 'controllers', 'scheduler'],
          server: { address: '0.0.0.0', names: [switched.address] },
          networking: { podCIDRs: [clusterRange] },
          policy: 'policy-nftables',
          volumes: ['volume-csi'],
        },
      });
      nodes = await startSwitchedNodes(machine, cluster, nodeNames, switched);
      rack = new RackPods(cluster, nodes);
      await startAll('direct');
      await cluster.kubectl.apply(farObjects);
    });
    afterEach(({ task }) => results.note(task.name, task.result?.state === 'pass'));

    for (const way of waysOf[network]) {
      it(`${way}: pods reach each other`, async () => {
        if (way === 'reflected') await cluster.kubectl.run(['label', 'node', node(0).name, reflectorLabel]);
        if (way !== 'direct') {
          await Promise.all(nodes.map((each) => each.stop()));
          await startAll(way);
        }
        await rack.refresh();
        expect(new Set(rack.pods.map(({ status }) => status.podIP)).size).toBe(6);
        expect(new Set(rack.pods.map(({ spec }) => spec.nodeName)).size).toBe(3);
        await rack.hear();
        const lines = (await node(0).run('ip', 'route', 'show')).split('\n');
        const routes = lines.filter((line) => line.startsWith('10.233.') && line.includes(' via '));
        expect(routes.length).toBeGreaterThanOrEqual(2);
        for (const route of routes) expect(route).toMatch(routeShape(network, way));
      });
      it(`${way}: large packets`, async () => {
        await rack.hearMuch();
        expect(await rack.mtuOfNew()).toBe(way === 'vxlan' ? 1450 : 1500);
        await rack.hearMuch();
      });
      it(`${way}: reach the Service`, () => rack.hearService());
      it(`${way}: policy`, () => rack.holdToPolicy());
    }

    it.runIf(network === 'calico')('reflected: only the node that reflects speaks with all', async () => {
      const sessions = await Promise.all(
        nodes.map(async (each) => {
          const file = await each.run('find', each.dataDir, '-name', 'bird.conf');
          const config = await each.run('cat', file.trim());
          return [...config.matchAll(/^protocol bgp n_node_2d_(.)_4/gm)].map(([, name]) => name).sort();
        }),
      );
      expect(sessions).toEqual([['b', 'c'], ['a'], ['a']]);
    });

    it.runIf(network === 'calico')('goes on when BIRD is killed, and starts it again', async () => {
      const before = await censuses();
      const running = () => node(1).run('find', node(1).dataDir, '-name', 'bird.pid', '-exec', 'cat', '{}', '+');
      const pid = Number(await running());
      killPid(pid, 'SIGKILL');
      await until('BIRD runs again', async () => ![0, pid].includes(Number(await running())));
      await rack.hear();
      await asBefore(before);
    });

    it('leave the cluster with the address of their node', async () => {
      const outside = createServer((request, answer) => void answer.end(request.socket.remoteAddress));
      outside.listen(0, address);
      await once(outside, 'listening');
      try {
        const { port } = outside.address() as AddressInfo;
        // a busy server may answer after the limit of the pod's request
        await untilValue(
          'the addresses that the server sees',
          () => rack.seenFrom(`${address}:${port}/`),
          (seen) =>
            isDeepStrictEqual(
              seen,
              nodes.map((each) => each.address),
            ),
        );
      } finally {
        outside.close();
      }
    });

    it('claims', async () => {
      const uids = (pods: readonly PodItem[]) => pods.map(({ metadata }) => metadata.uid);
      const kept = async (others: readonly PodItem[] = []) => {
        const wanted = (pods: readonly PodItem[]) =>
          pods.length === 3 && pods.every(isReady) && !uids(pods).some((uid) => uids(others).includes(uid));
        const pods = await cluster.api.until<PodItem>('new pods with their claims', cluster.api.pods('default', 'kept'), wanted);
        return pods.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
      };
      await cluster.kubectl.apply(keptObject);
      const before = await kept();
      expect(new Set(before.map(({ spec }) => spec.nodeName)).size).toBe(3);
      // without waiting: kubectl misses the deletion of a pod whose successor exists at once
      await cluster.kubectl.run(['delete', 'pods', '-l', 'app=kept', '--wait=false']);
      const after = await kept(before);
      expect(after.map(({ spec }) => spec.nodeName)).toEqual(before.map(({ spec }) => spec.nodeName));
      for (const pod of after)
        await untilValue(
          `what ${pod.metadata.name} has kept`,
          () => rack.get(pod, '/data'),
          (text) => text === `${pod.metadata.name}\n${pod.metadata.name}`,
        );
    });

    it('goes on when a node is killed, and nothing is left of what goes', async () => {
      const before = await censuses();
      const way = waysOf[network].at(-1) ?? 'direct';
      await node(2).stop('SIGKILL');
      await rack.hear();
      await node(2).start(nodeSpec(network, way));
      await asBefore(before);
      await cluster.kubectl.run(['delete', 'deployment/far', 'statefulset/kept']);
      await cluster.kubectl.run(['delete', 'pvc', '--all']);
      await cluster.api.until('no pods', '/api/v1/namespaces/default/pods', (pods) => pods.length === 0);
      await cluster.api.until('no volumes', '/api/v1/persistentvolumes', (volumes) => volumes.length === 0);
      await untilValue('no resources of pods', censuses, (now) =>
        now.every(({ podRoutes, mounts }) => podRoutes === 0 && mounts.trim() === '0'),
      );
    });
  });
}

const ofEachWay = ['pods reach each other', 'large packets', 'reach the Service', 'policy'] as const;
const ofAll = [
  'reflected: only the node that reflects speaks with all',
  'goes on when BIRD is killed, and starts it again',
  'leave the cluster with the address of their node',
  'claims',
  'goes on when a node is killed, and nothing is left of what goes',
] as const;

function publishRack(network: RackNetwork, results: Results): Promise<void> {
  return publish(
    `### Over ${network}`,
    table('journey', ofEachWay, waysOf[network], (step, way) => results.mark(`${way}: ${step}`)),
    table('once', ofAll, [network], (step) => results.mark(step)),
  );
}
