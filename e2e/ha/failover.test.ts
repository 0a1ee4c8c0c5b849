import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { componentMissing } from '../harness/component-availability.ts';
import type { Cluster } from '../harness/cluster.ts';
import { hello } from '../harness/hello.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';
import { freePort, mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';
import { joinNode, serverAt, startThreeServers, type JoinedNode, type ThreeServers } from './support/three-servers.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Lease extends Item {
  readonly spec: { readonly renewTime: string };
}

interface ClusterStatus {
  readonly servers: readonly { readonly ready: boolean; readonly certificateExpiresAt?: string }[];
  readonly leaders: readonly { readonly component: string; readonly holder: string }[];
  readonly nodes: readonly { readonly name: string; readonly status: string; readonly certificateExpiresAt?: string }[];
  readonly certificates: readonly { readonly name: string }[];
}
const balancerPort = await freePort();
const nodeSpec = {
  apiServerBalancer: { port: balancerPort },
  runtimes: ['runtime-process'],
  network: 'network-host',
  proxy: 'proxy-userspace',
  settings: { kubelet: { port: 0, nodeLeaseDurationSeconds: 4, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } } },
};
/** Runs a command that succeeds, and returns its output. */
const runHere = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await runOarlock(args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
};

const missing = componentMissing.etcd();

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
      node = await joinNode(machine, server, { name: 'node-a', spec: nodeSpec, servers: three.urls.slice(0, 2) });
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

    it.each(['SIGKILL', 'SIGSTOP'] as const)('uses another server after %s of its server', async (signal) => {
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
      const program = connect(balancerPort, '127.0.0.1');
      await until('a program is connected through the balancer of the node', () => Promise.resolve(program.readyState === 'open'));
      const disconnected = once(program, 'close');
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
      await disconnected;
      const balanced = await watcher.kubectl.run(['--server', `https://127.0.0.1:${balancerPort}`, 'get', '--raw', '/readyz']);
      expect(balanced).toBe('ok');
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
    });

    it('shows the whole cluster from any server, with a kubeconfig that names any of them', async () => {
      const urls = three.urls.join(',');
      const file = join(node.dir, 'all-servers.kubeconfig');
      const [server] = three.servers;
      if (server === undefined) throw new Error('no server');
      const { stdout } = await server.oarlock('kubeconfig', '--server', urls);
      await writeFile(file, stdout, { mode: 0o600 });
      const contexts = (await mustRun('kubectl', ['--kubeconfig', file, 'config', 'get-contexts', '-o', 'name'])).trim().split('\n');
      expect(contexts).toHaveLength(3);
      for (const context of contexts) {
        await mustRun('kubectl', ['--kubeconfig', file, 'config', 'use-context', context]);
        // a busy kubelet or server may not show its certificate in time
        const status = await untilValue(
          'the state of all servers and of the node',
          async () =>
            (JSON.parse(await runHere('status', '--kubeconfig', file, '-o', 'json')) as { readonly cluster: ClusterStatus }).cluster,
          ({ servers, nodes }) =>
            servers.length === 3 &&
            servers.every(({ ready, certificateExpiresAt }) => ready && certificateExpiresAt !== undefined) &&
            nodes.every((each) => each.status === 'Ready' && each.certificateExpiresAt !== undefined),
        );
        expect(status.leaders.map(({ component, holder }) => [component, holder !== ''])).toEqual([
          ['kube-controller-manager', true],
          ['kube-scheduler', true],
        ]);
        expect(status.nodes.map(({ name }) => name)).toEqual(['node-a']);
        expect(status.certificates.map(({ name }) => name)).toEqual(['CA', 'client of the kubeconfig']);
      }
      // a busy server may not answer in time
      await untilValue(
        'the table of ready servers',
        async () => (await server.oarlock('status')).stdout,
        (table) => /^SERVER .*\n(?:.* Ready .*\n){3}\nLEADER OF /m.test(table),
      );
    });

    it('removes a node: its pods end first, and its certificates are rejected until it joins again', async () => {
      const [server, second] = three.servers;
      if (server === undefined || second === undefined) throw new Error('no server');
      const kubeconfig = join(node.dataDir, 'kubelet.kubeconfig');
      const removed = await runHere('node', 'remove', 'node-a', '--data-dir', second.dataDir);
      expect(removed.match(/^evicting pod default\/hello-/gm)).toHaveLength(3);
      await until('the former certificate is rejected by every server', async () => {
        const answers = await Promise.all(
          three.urls.map((url) => server.kubectl.try(['--kubeconfig', kubeconfig, '--server', url, 'get', 'node', 'node-a'])),
        );
        return answers.every(({ stderr }) => /Unauthorized|logged in/.test(stderr));
      });
      expect(await server.kubectl.run(['get', 'nodes', '-o', 'name'])).toBe('');
      expect(await server.oarlock('node', 'remove', 'node-a')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('there is no node node-a'),
      });
      await node.daemon.stop('SIGKILL');
      await rm(node.dataDir, { recursive: true });
      node = await joinNode(machine, server, { name: 'node-b', as: 'node-a', spec: nodeSpec, servers: three.urls });
      await server.api.untilReady('default', 'hello', 3);
      expect(await runHere('node', 'list', '--data-dir', second.dataDir)).toMatch(/^node-a +Ready /m);
    });
  },
);
