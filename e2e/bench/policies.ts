// The time that policy-nftables needs for 1,000 policies over 1,000 pods of a node (or the first argument), and for one more policy, pod or label.
// Reference: nft alone, with the same rules as a file. Requires root; creates its own network namespace.
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { trace } from '@opentelemetry/api';
import { NftablesPolicies } from '../../plugins/policy-nftables/src/nftables-policies.ts';
import { mustRun } from '../harness/programs.ts';
import { median, print, quantile } from './support/statistics.ts';

const inside = 'OARLOCK_BENCH_NETWORK';
if (process.env[inside] === undefined) {
  const { status } = spawnSync('unshare', ['--net', process.execPath, ...process.execArgv, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [inside]: '1' },
  });
  process.exit(status ?? 1);
}

const count = Number(process.argv[2] ?? 1_000);
const repetitions = 15;
const namespace = 'bench';
const table = ['table', 'inet', 'oarlock-policy'];
const ipOf = (index: number) => `10.244.${index >> 8}.${index & 255}`;
const app = (index: number) => ({ app: `app-${index}` });
const pod = (index: number): Pod => ({
  metadata: { namespace, name: `pod-${index}`, uid: `uid-${index}`, labels: app(index) },
  spec: { nodeName: 'here', containers: [{ name: 'main', image: 'none', ports: [{ name: 'http', containerPort: 8080 }] }] },
  status: { phase: 'Running', podIPs: [{ ip: ipOf(index) }] },
});
/** Each pod is reached by its neighbor at three ports, and reaches the next one. */
const policy = (index: number, name = `policy-${index}`): NetworkPolicy => ({
  metadata: { namespace, name },
  spec: {
    podSelector: { matchLabels: app(index) },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [
      { from: [{ podSelector: { matchLabels: app((index + 1) % count) } }], ports: [{ port: 'http' }, { port: 9000, endPort: 9001 }] },
    ],
    egress: [{ to: [{ podSelector: { matchLabels: app((index + count - 1) % count) } }] }],
  },
});
const many = <T>(make: (index: number) => T) => Array.from({ length: count }, (_, index) => make(index));

const api = memoryApi({ clock: new FakeClock() });
const client = api.client();
const policies = new NftablesPolicies({
  informers: api.informers,
  client,
  clock: systemClock,
  log: silentLogger,
  tracer: trace.getTracer('bench'),
});
const protect = (index: number) =>
  policies.protect({ namespace, name: `pod-${index}`, uid: `uid-${index}`, labels: app(index), ips: [ipOf(index)] });
/** Of children that have ended, in ms: cutime and cstime of proc(5), counted after the name, in ticks of 10 ms. */
const cpuOfChildren = async () => {
  const stat = await readFile('/proc/self/stat', 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) * 10;
};
interface Took {
  readonly ms: number;
  readonly cpuMs: number;
  readonly nftMs: number;
}
const timed = async (work: () => Promise<unknown>): Promise<Took> => {
  const [began, cpu, children] = [performance.now(), process.cpuUsage(), await cpuOfChildren()];
  await work();
  const { user, system } = process.cpuUsage(cpu);
  return { ms: performance.now() - began, cpuMs: (user + system) / 1000, nftMs: (await cpuOfChildren()) - children };
};
const repeated = async (work: (round: number) => Promise<unknown>) => {
  const took: Took[] = [];
  for (let round = 0; round < repetitions; round++) took.push(await timed(() => work(round)));
  return {
    ms: median(took.map(({ ms }) => ms)),
    worst: quantile(
      took.map(({ ms }) => ms),
      1,
    ),
    cpuMs: median(took.map(({ cpuMs }) => cpuMs)),
  };
};

api.seed(namespaces, { metadata: { name: namespace } });
api.seed(pods, ...many(pod));
api.seed(networkPolicies, ...many((index) => policy(index)));
await policies.start();

const programmed = await timed(async () => {
  policies.startForNode('here');
  await api.settle();
  await protect(0);
});
const rules = await mustRun('nft', ['list', ...table]);
const alone = await timed(() => mustRun('nft', ['-f', '-'], { input: `delete ${table.join(' ')}\n${rules}` }));

const newPolicies = await repeated(async (round) => {
  await client.create(networkPolicies, policy(round, `another-${round}`));
  await api.settle();
  await protect(0);
});
const newPods = await repeated((round) =>
  policies.protect({ namespace, name: `new-${round}`, uid: `new-${round}`, labels: app(round), ips: [`10.245.0.${round}`] }),
);
const labels = await repeated(async (round) => {
  await client.patch(pods, { namespace, name: `pod-${round}` }, 'merge', { metadata: { labels: app(round + 1) } });
  await api.settle();
  await protect(0);
});
const one = await repeated(() =>
  mustRun('nft', ['-f', '-'], { input: `add element inet oarlock-policy self-v4 { 10.246.0.1 . 10.246.0.1 }\n` }),
);

const nftAlone = { what: 'nft alone', value: alone.ms };
const nftCpu = { what: 'nft alone', value: alone.nftMs };
const oneElement = { what: 'nft, one element', value: one.ms };
print([
  { what: `${count} policies over ${count} pods, in force`, value: programmed.ms, unit: 'ms', reference: nftAlone },
  { what: '  CPU time of this process', value: programmed.cpuMs, unit: 'ms', reference: nftCpu },
  { what: '  CPU time of nft', value: programmed.nftMs, unit: 'ms', reference: nftCpu },
  { what: 'one policy more, in force, median', value: newPolicies.ms, unit: 'ms', reference: oneElement },
  { what: 'one policy more, worst', value: newPolicies.worst, unit: 'ms' },
  { what: '  CPU time of this process', value: newPolicies.cpuMs, unit: 'ms' },
  { what: 'one pod more, protected, median', value: newPods.ms, unit: 'ms', reference: oneElement },
  { what: 'other labels of a pod, in force, median', value: labels.ms, unit: 'ms', reference: oneElement },
]);
await policies.stop();
await policies.clear();
await api.stop();
