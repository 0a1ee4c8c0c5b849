import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Item, PodItem } from '../harness/api.ts';
import { componentMissing } from '../harness/component-availability.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow, mustRun } from '../harness/programs.ts';
import { startThreeServers, type ThreeServers } from './support/three-servers.ts';

interface NodeItem extends Item {
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface LeaseItem extends Item {
  readonly spec: { readonly renewTime: string };
}
interface Deployment extends Item {
  readonly status: { readonly readyReplicas?: number };
}

/** `NODES,PODS` of `npm run ha -- --scale`: the numbers of simulated nodes and of their pods. */
const [nodeCount = 0, podCount = 0] = (process.env['OARLOCK_HA_SCALE'] ?? '').split(',').map(Number);
/** Processes with nodes. */
const kubelets = 3;
const waitMs = 900_000;
const missing = nodeCount === 0 ? 'run `npm run ha -- --scale`' : componentMissing.etcd();
/** Processor time of a process in seconds. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

describe.skipIf(missing !== undefined)(`simulated nodes of three servers${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  const machine = Machine.use();
  const figures: Record<string, number | string> = { nodes: nodeCount, pods: podCount };
  const seconds = (began: number) => Math.round((performance.now() - began) / 100) / 10;

  /** Starts a process with a share of the nodes, which knows all servers. It authenticates as administrator, because a node's certificate is for one node. */
  async function startKubelet(three: ThreeServers, index: number): Promise<Daemon> {
    const [server] = three.servers as readonly [Cluster];
    const dir = machine.path(`nodes-${index}`);
    await mkdir(dir);
    const count = Math.floor(nodeCount / kubelets) + (index < nodeCount % kubelets ? 1 : 0);
    const spec = { roles: ['kubelet'], runtimes: ['runtime-simulated'], settings: { kubelet: { count, port: 0 } } };
    const file = join(dir, 'nodes.yaml');
    await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }));
    machine.undo(`nodes ${index}`, () => endProcessesBelow(dir));
    const urls = three.urls.flatMap((url) => ['--server', url]);
    const own = ['-f', file, '--kubeconfig', server.kubeconfig, '--node-name', `sim-${index}`, '--data-dir', join(dir, 'data')];
    return new Daemon(oarlock.file, [...oarlock.args, 'up', ...own, ...urls]);
  }

  /** Returns how many connections each server has from the processes with nodes. */
  async function connections(three: ThreeServers, daemons: readonly Daemon[]): Promise<readonly number[]> {
    const lines = (await mustRun('ss', ['-Htnp', 'state', 'established'])).split('\n');
    const own = lines.filter((line) => daemons.some(({ pid }) => line.includes(`pid=${pid},`)));
    return three.urls.map((url) => own.filter((line) => line.includes(`${new URL(url).host} `)).length);
  }

  it('are Ready with their pods, keep their Leases, and continue when a server is killed', async () => {
    const three = await startThreeServers(machine);
    let [{ api, kubectl }] = three.servers as readonly [Cluster, Cluster, Cluster];
    const isReady = ({ status }: NodeItem) =>
      status.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
    const untilNodes = (what: string) =>
      api.until<NodeItem>(what, '/api/v1/nodes', (nodes) => nodes.length === nodeCount && nodes.every(isReady), waitMs);
    const untilPods = (replicas: number) =>
      api.until<Deployment>(
        `${replicas} pods are ready`,
        '/apis/apps/v1/namespaces/default/deployments',
        ([deployment]) => deployment?.status.readyReplicas === replicas,
        waitMs,
      );

    let began = performance.now();
    const daemons = await Promise.all([0, 1, 2].map((index) => startKubelet(three, index)));
    await untilNodes('all nodes are ready');
    figures['nodes ready, s'] = seconds(began);

    began = performance.now();
    await kubectl.run(['create', 'deployment', 'big', '--image=x', `--replicas=${podCount}`]);
    await untilPods(podCount);
    figures['pods ready, s'] = seconds(began);
    const spread = await connections(three, daemons);
    figures['connections of nodes by server'] = spread.join(' ');
    const cpu = await Promise.all(three.servers.map(({ pid }) => cpuSeconds(pid)));
    figures['processor time of servers, s'] = cpu.map(Math.round).join(' ');

    // each process with nodes chooses a server at random
    const busiest = spread.indexOf(Math.max(...spread));
    expect(spread[busiest]).toBeGreaterThan(0);
    began = performance.now();
    await three.servers[busiest]?.kill9();
    ({ api, kubectl } = three.servers[(busiest + 1) % three.servers.length] as Cluster);
    const half = Math.ceil(podCount / 2);
    await kubectl.run(['scale', 'deployment', 'big', `--replicas=${half}`]);
    await api.until<PodItem>('surplus pods are deleted', '/api/v1/namespaces/default/pods', (pods) => pods.length === half, waitMs);
    await kubectl.run(['scale', 'deployment', 'big', `--replicas=${podCount}`]);
    await untilPods(podCount);
    figures['scaled down and up without a server, s'] = seconds(began);
    await untilNodes('all nodes are ready without a server');

    const since = Date.now();
    await api.until<LeaseItem>(
      'all nodes renew their Leases',
      '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases',
      (leases) => leases.filter(({ spec }) => Date.parse(spec.renewTime) >= since).length === nodeCount,
      waitMs,
    );
    figures['all Leases renewed, s'] = Math.round((Date.now() - since) / 100) / 10;
    const afterward = await connections(three, daemons);
    figures['connections afterward'] = afterward.join(' ');
    expect(afterward[busiest]).toBe(0);
    console.log(
      Object.entries(figures)
        .map((figure) => figure.join(': '))
        .join('\n'),
    );
  });
});
