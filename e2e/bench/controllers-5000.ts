// 5,000 simulated nodes (or as many as the first argument says), a tenth of them in a process of their own: ten pods a node made, at rest, a rolling update
// of a fifth of the pods, and the tenth of the nodes lost at once and back. Reference: what upstream's defaults allow.
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Item } from '../harness/api.ts';
import { print } from './figures.ts';
import { cpuSeconds, residentMiB, Stage } from './stage.ts';

const nodes = Number(process.argv[2] ?? 5_000);
const [apart, pods, rolled] = [nodes / 10, nodes * 10, nodes * 2];
const lostMs = 120_000;
const restMs = 60_000;
/** A machine that others use too may take long: what counts is processor time. */
const patienceMs = 3_600_000;
/** Nodes a second that are tainted, and with it emptied, in a zone of which less than 55 % is lost: --node-eviction-rate. */
const evictionRate = 0.1;

interface Node extends Item {
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
interface Deployment extends Item {
  readonly metadata: Item['metadata'] & { readonly generation?: number };
  readonly status: {
    readonly observedGeneration?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly replicas?: number;
    readonly availableReplicas?: number;
  };
}
const isReady = ({ status }: Node) => status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
const isTainted = ({ spec }: Node) =>
  spec.taints?.some(({ key, effect }) => key === 'node.kubernetes.io/unreachable' && effect === 'NoExecute') ?? false;
const deploymentsPath = '/apis/apps/v1/namespaces/default/deployments';
const deployment = (name: string, replicas: number, image: string) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      // evicted as soon as its node is tainted
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [{ name: 'c', image }],
        tolerations: [{ key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 0 }],
      },
    },
  },
});

await Stage.with(async (stage) => {
  const simulated = (nodeName: string, count: number) => ({
    runtimes: ['runtime-simulated'],
    settings: { kubelet: { nodeName, count, port: 0 } },
  });
  const cluster = await stage.cluster({
    spec: {
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
      storage: 'storage-memory',
      networking: { podCIDRs: ['10.128.0.0/11'] },
      ...simulated('sim', nodes - apart),
    },
    readyMs: patienceMs,
  });
  const others = await stage.prepare({
    spec: { roles: ['kubelet'], ...simulated('far', apart) },
    args: ['--kubeconfig', cluster.kubeconfig],
  });
  await mkdir(others.dataDir, { recursive: true });
  await cp(join(cluster.dataDir, 'pki'), join(others.dataDir, 'pki'), { recursive: true });
  others.launch();
  const { api } = cluster;
  const allReady = (what: string, timeoutMs: number) =>
    api.until<Node>(what, '/api/v1/nodes', (all) => all.length === nodes && all.every(isReady), timeoutMs);
  await allReady('all nodes', patienceMs);
  const untilDeployed = (name: string, replicas: number, timeoutMs = patienceMs) =>
    api.until<Deployment>(
      `${replicas} pods of ${name}`,
      `${deploymentsPath}?fieldSelector=metadata.name%3D${name}`,
      ([one]) =>
        one !== undefined &&
        (one.status.observedGeneration ?? 0) >= (one.metadata.generation ?? 0) &&
        one.status.readyReplicas === replicas &&
        one.status.updatedReplicas === replicas &&
        one.status.replicas === replicas,
      timeoutMs,
    );
  const timed = async (work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    return (performance.now() - began) / 1000;
  };
  /** Processor seconds a minute. */
  const rate = async (pid: number, ms: number) => {
    const before = await cpuSeconds(pid);
    await delay(ms);
    return ((await cpuSeconds(pid)) - before) / (ms / 60_000);
  };

  const made = await timed(async () => {
    for (const [name, count] of [
      ['rolled', rolled],
      ['rest', pods - rolled],
    ] as const)
      await api.json('POST', deploymentsPath, { body: deployment(name, count, 'web:1') });
    await Promise.all([untilDeployed('rolled', rolled), untilDeployed('rest', pods - rolled)]);
  });
  const madeCpu = await cpuSeconds(cluster.pid);
  await delay(30_000); // events and backoffs of the start
  const [atRest, atRestApart] = await Promise.all([cluster, others].map(({ pid }) => rate(pid, restMs)));
  const memory = await residentMiB(cluster.pid);
  const memoryApart = await residentMiB(others.pid);

  print([
    { what: `${pods} pods on ${nodes} nodes, all Ready`, value: made, unit: 's' },
    { what: '  processor time until then', value: madeCpu, unit: 's' },
    { what: 'processor time at rest, a minute', value: atRest ?? 0, unit: 's', reference: { what: 'the goal, 10 % of a core', value: 6 } },
    { what: `the same of the process with ${apart} of the nodes`, value: atRestApart ?? 0, unit: 's' },
    { what: 'resident memory', value: memory, unit: 'MiB', reference: { what: 'the goal', value: 2.5 * 1024 } },
    { what: `the same of the process with ${apart} of the nodes`, value: memoryApart, unit: 'MiB' },
  ]);

  const beforeRolling = await cpuSeconds(cluster.pid);
  let least = rolled;
  const watched = new AbortController();
  const rolling = await timed(async () => {
    const stop = api.until<Deployment>(
      'the end of the rollout',
      `${deploymentsPath}?fieldSelector=metadata.name%3Drolled`,
      ([one]) => {
        least = Math.min(least, one?.status.availableReplicas ?? rolled);
        return watched.signal.aborted;
      },
      patienceMs,
    );
    await api.json('PUT', `${deploymentsPath}/rolled`, { body: deployment('rolled', rolled, 'web:2') });
    await untilDeployed('rolled', rolled);
    watched.abort();
    await api.json('PATCH', `${deploymentsPath}/rolled`, {
      body: { metadata: { annotations: { done: 'yes' } } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    await stop;
  });

  const rollingCpu = (await cpuSeconds(cluster.pid)) - beforeRolling;
  print([
    { what: `rolling update of ${rolled} pods`, value: rolling, unit: 's' },
    { what: '  processor time of it', value: rollingCpu, unit: 's' },
    { what: 'available meanwhile, at least', value: least, unit: '', reference: { what: 'maxUnavailable 25 %', value: rolled * 0.75 } },
  ]);
  await others.kill9();
  await api.until<Node>('lost nodes', '/api/v1/nodes', (all) => all.filter((node) => !isReady(node)).length === apart, patienceMs);
  const noticed = performance.now();
  await delay(lostMs);
  const tainted = (await api.get<{ readonly items: readonly Node[] }>('/api/v1/nodes')).items.filter(isTainted).length;
  const allowed = Math.ceil(((performance.now() - noticed) / 1000) * evictionRate) + 1;
  others.launch();
  const back = await timed(async () => {
    await allReady('all nodes again', patienceMs);
    await api.until<Node>('no taints', '/api/v1/nodes', (all) => !all.some(isTainted), patienceMs);
    await Promise.all([untilDeployed('rolled', rolled), untilDeployed('rest', pods - rolled)]);
  });

  print([
    {
      what: `nodes emptied of ${apart} that were lost for ${lostMs / 1000} s`,
      value: tainted,
      unit: '',
      reference: { what: 'the rate allows', value: allowed },
    },
    { what: 'until all is as before', value: back, unit: 's' },
  ]);
});
