// 5,000 simulated nodes (or the first argument) and all components in one process: ten pods per node are created, then the cluster idles. Then a tenth as
// many nodes in another process, a rolling update of a fifth of the pods, and the loss and return of those nodes. Reference: the limits of upstream's
// defaults. A step that exceeds the second argument, in minutes, is abandoned.
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Item } from '../harness/api.ts';
import { deploymentOf, deploymentsPath } from './support/deployment-objects.ts';
import { print } from './support/statistics.ts';
import { NodeCounter } from './support/node-counter.ts';
import { cpuSeconds, residentMiB, BenchEnvironment } from './support/bench-environment.ts';
import { Steps } from './support/steps.ts';

/** Generous, because other load on the machine slows it down: processor time is what counts. */
const [nodes = 5_000, minutes = 60] = process.argv.slice(2).map(Number);
const [apart, pods, rolled] = [nodes / 10, nodes * 10, nodes * 2];
const patienceMs = minutes * 60_000;
/** Old versions of the created objects are kept until storage is compacted, every five minutes. Then the idle phase, and how long nodes are lost. */
const [settleMs, restMs, lostMs] = [11 * 60_000, 60_000, 120_000];
/** Nodes per second that are tainted, and so emptied, in a zone of which less than 55 % is lost: --node-eviction-rate. */
const evictionRate = 0.1;

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
const named = (name: string) => `${deploymentsPath}?fieldSelector=metadata.name%3D${name}`;
const deployment = (name: string, replicas: number, image: string) =>
  deploymentOf(name, replicas, {
    // evicted as soon as its node is tainted
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'c', image }],
    tolerations: [{ key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 0 }],
  });
const isDeployed = ({ metadata, status }: Deployment, replicas: number) =>
  (status.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
  status.readyReplicas === replicas &&
  status.updatedReplicas === replicas &&
  status.replicas === replicas;

await BenchEnvironment.with(async (stage) => {
  const simulated = (nodeName: string, count: number) => ({
    runtimes: ['runtime-simulated'],
    settings: { kubelet: { nodeName, count, port: 0 } },
  });
  const cluster = await stage.cluster({
    spec: {
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
      storage: 'storage-memory',
      networking: { podCIDRs: ['10.128.0.0/11'] },
      ...simulated('sim', nodes),
    },
    readyMs: patienceMs,
  });
  const others = await stage.prepare({
    spec: { roles: ['kubelet'], ...simulated('far', apart) },
    args: ['--kubeconfig', cluster.kubeconfig],
  });
  await mkdir(others.dataDir, { recursive: true });
  await cp(join(cluster.dataDir, 'pki'), join(others.dataDir, 'pki'), { recursive: true });

  const { api } = cluster;
  const steps = new Steps(cluster.pid, patienceMs);
  const nodeCounter = new NodeCounter(api);
  const over = new AbortController();
  const following = nodeCounter.follow(over.signal);
  const allReady = (count: number) => (signal: AbortSignal) =>
    nodeCounter.until(({ all, ready, emptied }) => all === count && ready === count && emptied === 0, signal);
  const until = (name: string, wanted: (one: Deployment) => boolean, timeoutMs = patienceMs) =>
    api.until<Deployment>(`the Deployment ${name}`, named(name), ([one]) => one !== undefined && wanted(one), timeoutMs);
  const deployed = () =>
    Promise.all(
      [['rolled', rolled] as const, ['rest', pods - rolled] as const].map(([name, count]) => until(name, (one) => isDeployed(one, count))),
    );
  const far = async () => {
    const { items } = await api.get<{ readonly items: readonly Deployment[] }>(deploymentsPath);
    const summary = items.map(
      ({ metadata, status }) =>
        `${metadata.name}: ${status.replicas ?? 0} pods, ${status.updatedReplicas ?? 0} new, ${status.readyReplicas ?? 0} ready`,
    );
    return [String(nodeCounter), ...summary].join('; ');
  };
  /** Processor seconds a minute. */
  const rate = async (pid: number, ms: number) => {
    const before = await cpuSeconds(pid);
    await delay(ms);
    return ((await cpuSeconds(pid)) - before) / (ms / 60_000);
  };

  await steps.run('nodes', () => String(nodeCounter), allReady(nodes));
  const createdPods = await steps.run('pods', far, async () => {
    await api.json('POST', deploymentsPath, { body: deployment('rolled', rolled, 'web:1') });
    await api.json('POST', deploymentsPath, { body: deployment('rest', pods - rolled, 'web:1') });
    await deployed();
  });
  print([
    { what: `${pods} pods on ${nodes} nodes, all Ready${createdPods.done ? '' : ': not yet'}`, value: createdPods.seconds, unit: 's' },
    { what: '  processor time until then', value: createdPods.cpu, unit: 's' },
    { what: '  resident memory then', value: await residentMiB(cluster.pid), unit: 'MiB' },
  ]);

  await delay(settleMs);
  print([
    {
      what: 'processor time at rest, a minute',
      value: await rate(cluster.pid, restMs),
      unit: 's',
      reference: { what: 'the goal, 10 % of a core', value: 6 },
    },
    {
      what: 'resident memory at rest',
      value: await residentMiB(cluster.pid),
      unit: 'MiB',
      reference: { what: 'the goal', value: 2.5 * 1024 },
    },
  ]);

  others.launch();
  await steps.run('more nodes', () => String(nodeCounter), allReady(nodes + apart));
  let least = rolled;
  const rolling = await steps.run('rolling update', far, async () => {
    const changed = await api.json<Deployment>('PUT', `${deploymentsPath}/rolled`, { body: deployment('rolled', rolled, 'web:2') });
    await until('rolled', (one) => {
      if ((one.status.observedGeneration ?? 0) >= (changed.metadata.generation ?? 0))
        least = Math.min(least, one.status.availableReplicas ?? rolled);
      return isDeployed(one, rolled);
    });
  });
  print([
    { what: `rolling update of ${rolled} pods${rolling.done ? '' : ': not yet'}`, value: rolling.seconds, unit: 's' },
    { what: '  processor time of it', value: rolling.cpu, unit: 's' },
    { what: 'available meanwhile, at least', value: least, unit: '', reference: { what: 'maxUnavailable 25 %', value: rolled * 0.75 } },
  ]);

  await others.kill9();
  await steps.run(
    'loss',
    () => String(nodeCounter),
    (signal) => nodeCounter.until(({ ready }) => ready === nodes, signal),
  );
  // the first nodes that were detected may be empty already
  const [noticed, before] = [performance.now(), nodeCounter.emptied];
  await delay(lostMs);
  const emptied = nodeCounter.emptied - before;
  const allowed = Math.ceil(((performance.now() - noticed) / 1000) * evictionRate) + 1;
  others.launch();
  const back = await steps.run('return', far, async (signal) => {
    await allReady(nodes + apart)(signal);
    await deployed();
  });
  print([
    {
      what: `nodes emptied of ${apart} that are lost, in ${lostMs / 1000} s`,
      value: emptied,
      unit: '',
      reference: { what: 'the rate allows', value: allowed },
    },
    { what: `until all is as before${back.done ? '' : ': not yet'}`, value: back.seconds, unit: 's' },
    { what: '  processor time of it', value: back.cpu, unit: 's' },
    { what: 'resident memory at the end', value: back.residentMiB, unit: 'MiB' },
  ]);
  over.abort();
  await following;
  if (steps.late.length > 0) throw new Error(`not within ${minutes} minutes: ${steps.late.join(', ')}`);
});
