import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { componentMissing } from '../harness/component-availability.ts';
import type { Cluster } from '../harness/cluster.ts';
import { hello } from '../harness/hello.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';
import { joinNode, serverAt, startThreeServers, type JoinedNode, type ThreeServers } from './support/three-servers.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Lease extends Item {
  readonly spec: { readonly renewTime: string };
}

const missing = componentMissing.etcd();
/** The limit for the failover of a node, in milliseconds. */
const failoverMs = 5000;

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `a node of three servers${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let three: ThreeServers;
    let node: JoinedNode;

    /** Returns the URLs of the servers that the node's process is connected to. */
    const connected = async (): Promise<readonly string[]> => {
      const lines = await mustRun('ss', ['-Htnp', 'state', 'established']);
      const own = lines.split('\n').filter((line) => line.includes(`pid=${node.daemon.pid},`));
      return three.urls.filter((url) => own.some((line) => line.includes(`${new URL(url).host} `)));
    };
    const others = (server: Cluster): Cluster => {
      const other = three.servers.find((each) => each !== server && each.running);
      if (other === undefined) throw new Error('no other server runs');
      return other;
    };
    const readyOf = async (server: Cluster) =>
      (await server.api.get<NodeItem>('/api/v1/nodes/node-a')).status.conditions?.find(({ type }) => type === 'Ready')?.status;
    const renewTime = async (server: Cluster) =>
      (await server.api.get<Lease>('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a')).spec.renewTime;

    beforeAll(async () => {
      three = await startThreeServers(machine);
      const [server] = three.servers;
      if (server === undefined) throw new Error('no server');
      const settings = { kubelet: { port: 0, nodeLeaseDurationSeconds: 4, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } } };
      const spec = { runtimes: ['runtime-process'], network: 'network-host', proxy: 'proxy-userspace', settings };
      node = await joinNode(machine, server, { name: 'node-a', spec, servers: three.urls.slice(0, 2) });
      await server.kubectl.apply(await hello('process'));
      await server.api.untilReady('default', 'hello', 3);
    });

    it('discovers all servers and keeps them in its data directory', async () => {
      const stored = await untilValue(
        'the file has three servers',
        async () =>
          (JSON.parse(await readFile(join(node.dataDir, 'servers.json'), 'utf8')) as { readonly servers: readonly string[] }).servers,
        (servers) => servers.length === 3,
      );
      expect([...stored].sort()).toEqual([...three.urls].sort());
    });

    it.each(['SIGKILL', 'SIGSTOP'] as const)('uses another server within five seconds after %s of its server', async (signal) => {
      const [url = ''] = await until('the node is connected', async () => {
        const urls = await connected();
        return urls.length === 1 && urls;
      });
      const failed = serverAt(three, url);
      const watcher = others(failed);
      await untilValue(
        'the node is ready',
        () => readyOf(watcher),
        (status) => status === 'True',
      );
      failed.daemon.signal(signal);
      const failedAt = performance.now();
      // every component of the node shares the connection: a renewed Lease shows that requests arrive
      const before = await renewTime(watcher);
      const renewed = await untilValue(
        'the node renews its Lease',
        () => renewTime(watcher),
        (time) => time !== before,
      );
      expect(renewed).not.toBe(before);
      const tookMs = performance.now() - failedAt;
      expect(await readyOf(watcher)).toBe('True');
      // the Lease is renewed every second: the next request is at most that far away
      expect(tookMs).toBeLessThan(failoverMs + 1000);
      // watches resume: a new pod runs, and no pod becomes unready
      await watcher.kubectl.run(['scale', 'deployment/hello', '--replicas=4']);
      await watcher.api.untilReady('default', 'hello', 4);
      expect(await readyOf(watcher)).toBe('True');
      await watcher.kubectl.run(['scale', 'deployment/hello', '--replicas=3']);
      await watcher.api.untilReady('default', 'hello', 3);
      console.log(`${signal}: the node renewed its Lease on another server after ${Math.round(tookMs)} ms`);
      if (signal === 'SIGSTOP') failed.daemon.signal('SIGCONT');
      else await failed.up();
    });

    it('returns soon after an outage of all servers', async () => {
      for (const server of three.servers) await server.kill9();
      // longer than the first delays of every back-off
      await delay(20_000);
      for (const server of three.servers) await server.up();
      const upAt = performance.now();
      const [server] = three.servers;
      if (server === undefined) throw new Error('no server');
      const before = await renewTime(server);
      await untilValue(
        'the node renews its Lease',
        () => renewTime(server),
        (time) => time !== before,
      );
      await server.api.untilReady('default', 'hello', 3);
      const tookMs = performance.now() - upAt;
      console.log(`all servers: the node was back after ${Math.round(tookMs)} ms`);
      expect(tookMs).toBeLessThan(15_000);
    });
  },
);
