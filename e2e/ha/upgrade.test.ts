import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { componentMissing } from '../harness/component-availability.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, oarlockOf, type OarlockProgram } from '../harness/oarlock.ts';
import { seed, seeded } from '../harness/random.ts';
import { until } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { watchEtcd } from './support/etcd-watch.ts';
import { HistoryRecorder } from './support/history-recorder.ts';
import { joinNode, startThreeServers, type JoinedNode, type ThreeServers } from './support/three-servers.ts';

/** A built checkout of the previous release. */
const previousCheckout = process.env['OARLOCK_HA_UPGRADE_FROM'];
const onRequest = previousCheckout === undefined ? 'on request: npm run ha -- --upgrade' : undefined;
const missing = onRequest ?? componentMissing.etcd();
const previous = oarlockOf(previousCheckout ?? '');
const replicas = 6;
const writers = 4;
const nodeSpec = { roles: ['kubelet'], runtimes: ['runtime-simulated'], settings: { kubelet: { port: 0 } } };

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Owned extends Item {
  readonly metadata: Item['metadata'] & { readonly uid: string; readonly deletionTimestamp?: string };
}

describe.skipIf(missing !== undefined)(
  `three servers and three nodes of a previous release${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let three: ThreeServers;
    let nodes: readonly JoinedNode[];
    let recorder: HistoryRecorder;
    let steps = 0;

    const anyServer = (): Cluster => {
      const server = three.servers.find(({ running }) => running);
      if (server === undefined) throw new Error('no server runs');
      return server;
    };
    const untilWritten = (what: string) => {
      steps += 1;
      return recorder.untilWritten(what);
    };
    const isReady = async ({ name }: JoinedNode): Promise<boolean> => {
      const { status } = await anyServer().api.get<NodeItem>(`/api/v1/nodes/${name}`);
      return status.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') === true;
    };
    const podsOf = async () => {
      const { items } = await anyServer().api.get<{ readonly items: readonly Owned[] }>('/api/v1/namespaces/default/pods');
      return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined).map(({ metadata }) => metadata.uid);
    };
    const replaceServer = async (server: Cluster, program: OarlockProgram, what: string) => {
      await server.stop();
      server.program = program;
      await untilWritten(`while ${server.nodeName} is down for the ${what}`);
      await server.up();
      // this server acts on its own, and its writes reach the others
      await server.kubectl.run(['create', 'configmap', `${what}-${server.nodeName}`]);
      for (const other of three.servers) await other.kubectl.run(['get', 'configmap', `${what}-${server.nodeName}`]);
      await untilWritten(`after the ${what} of ${server.nodeName}`);
    };
    const replaceNode = async (node: JoinedNode, program: OarlockProgram, what: string) => {
      await node.daemon.stop();
      await node.restart(program);
      await until(`${node.name} is ready after the ${what}`, () => isReady(node));
      await untilWritten(`after the ${what} of ${node.name}`);
    };
    /** Changes the Deployment, so that controllers, scheduler and kubelets of the present versions work together. */
    const rollOut = async (what: string) => {
      const { kubectl, api } = anyServer();
      await kubectl.run(['set', 'env', 'deployment/web', `STEP=${what}`]);
      await kubectl.run(['rollout', 'status', 'deployment/web']);
      await api.untilReady('default', 'web', replicas);
      await until('the pods of the former version are gone', async () => (await podsOf()).length === replicas);
    };

    beforeAll(async () => {
      three = await startThreeServers(machine, { program: previous });
      nodes = await Promise.all(
        ['node-a', 'node-b', 'node-c'].map((name) =>
          joinNode(machine, anyServer(), { name, spec: nodeSpec, servers: three.urls.slice(0, 1), program: previous }),
        ),
      );
      const { kubectl, api } = anyServer();
      await kubectl.run(['create', 'namespace', 'ha']);
      await kubectl.run(['create', 'deployment', 'web', '--image=any', `--replicas=${replicas}`]);
      await api.untilReady('default', 'web', replicas);
    });

    it(`lose no write and keep the guarantees of reads and watches while they are upgraded and rolled back (seed ${seed})`, {
      timeout: 3_600_000,
    }, async () => {
      recorder = new HistoryRecorder(
        three.servers.map(({ kubeconfig }) => kubeconfig),
        { namespace: 'ha', random: seeded(seed + 1) },
      );
      const etcdWatch = await watchEtcd(three.etcd, 'ha');
      machine.undo('watch of etcd', () => etcdWatch.stop());
      await recorder.start(writers);
      await untilWritten('by the previous release');
      // servers first, nodes last; back in the opposite order: no node is ever newer than a server
      for (const server of three.servers) await replaceServer(server, oarlock, 'upgrade');
      await rollOut('servers-upgraded');
      for (const node of nodes) await replaceNode(node, oarlock, 'upgrade');
      await rollOut('upgraded');
      const { code, stdout, stderr } = await anyServer().oarlock('server', 'list', '-o', 'json');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const listed = (JSON.parse(stdout) as { readonly servers: readonly { readonly ready: boolean }[] }).servers;
      expect(listed.map(({ ready }) => ready)).toEqual([true, true, true]);
      for (const node of nodes) await replaceNode(node, previous, 'rollback');
      await rollOut('nodes-rolled-back');
      for (const server of three.servers) await replaceServer(server, previous, 'rollback');
      await rollOut('rolled-back');
      const { lost, violations, ...counts } = checkHistory(await recorder.finish(etcdWatch));
      console.log(JSON.stringify({ ...counts, relists: recorder.relists, steps, lost: lost.length, violations: violations.length }));
      expect(lost).toEqual([]);
      expect(violations.slice(0, 20)).toEqual([]);
    });
  },
);
