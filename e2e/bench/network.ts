// What pods of network-calico send each other per second within a node and between two nodes (network namespaces with a cable), with and without
// policies in force, beside the same cables and routes made by hand. Needs root and iperf3; all of it happens in network namespaces of its own.
// Rounds alternate, so that what else the machine does is in both.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { CalicoNetwork } from '../../plugins/network-calico/src/calico-network.ts';
import { calicoConfig } from '../../plugins/network-calico/src/config/calico-config.ts';
import { NftablesPolicies } from '../../plugins/policy-nftables/src/nftables-policies.ts';
import { mustRun } from '../harness/programs.ts';
import { median, print } from './support/statistics.ts';

const [role = 'bench', ...args] = process.argv.slice(2);
const repetitions = 5;
const seconds = 1;
const port = '5201';
const hostMac = 'ee:ee:ee:ee:ee:ee';

/** A network namespace that exists as long as its process. */
class Space {
  readonly #holder: ChildProcess;
  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }
  static async make(): Promise<Space> {
    const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo up; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
    await once(holder.stdout, 'data');
    const space = new Space(holder);
    await space.run('ip', 'link', 'set', 'lo', 'up');
    return space;
  }
  get path(): string {
    return `/proc/${this.#holder.pid}/ns/net`;
  }
  get pid(): string {
    return String(this.#holder.pid);
  }
  run(...command: string[]): Promise<string> {
    return mustRun('nsenter', [`--net=${this.path}`, ...command]);
  }
  start(...command: string[]): ChildProcess {
    return spawn('nsenter', [`--net=${this.path}`, ...command], { stdio: ['pipe', 'pipe', 'inherit'] });
  }
  close(): void {
    this.#holder.kill();
  }
}

interface Pod {
  readonly space: Space;
  readonly ip: string;
}
const spaces: Space[] = [];
const make = async () => {
  const space = await Space.make();
  spaces.push(space);
  return space;
};
const rangeOf = (node: number) => `10.244.${node}.0/24`;
const addressOf = (node: number) => `192.0.2.${node}`;

/** Two nodes on a cable, each with routes to the other's pods. */
async function twoNodes(): Promise<readonly [Space, Space]> {
  const [one, two] = [await make(), await make()];
  await one.run('ip', 'link', 'add', 'wire', 'type', 'veth', 'peer', 'name', 'wire', 'netns', two.pid);
  for (const [node, at] of [[one, 1] as const, [two, 2] as const]) {
    await node.run('sysctl', '-qw', 'net.ipv4.ip_forward=1');
    await node.run('ip', 'addr', 'add', `${addressOf(at)}/24`, 'dev', 'wire');
    await node.run('ip', 'link', 'set', 'wire', 'up');
  }
  for (const [node, at] of [[one, 1] as const, [two, 2] as const])
    await node.run('ip', 'route', 'add', rangeOf(3 - at), 'via', addressOf(3 - at));
  return [one, two];
}

/** The reference: a cable and a route, configured by hand. */
async function plainPod(node: Space, ip: string, name: string): Promise<Pod> {
  const space = await make();
  await node.run('ip', 'link', 'add', name, 'address', hostMac, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', space.pid);
  await node.run('ip', 'link', 'set', name, 'up');
  await node.run('ip', 'route', 'add', `${ip}/32`, 'dev', name);
  for (const line of [
    `addr add ${ip}/32 dev eth0`,
    'link set eth0 up',
    'route add 169.254.1.1 dev eth0',
    'route add default via 169.254.1.1',
    `neigh replace 169.254.1.1 lladdr ${hostMac} dev eth0 nud permanent`,
  ])
    await space.run('ip', ...line.split(' '));
  return { space, ip };
}

/** Takes a node's number, the paths of its pods' namespaces and `policies` or nothing; prints the pods' addresses and runs until its stdin ends. */
async function ourNode(number: number, paths: readonly string[], withPolicies: boolean): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-network-'));
  const context = { log: silentLogger, clock: systemClock, tracer: noTracer, dataDir };
  const config = calicoConfig.parse({ addresses: 'podCIDR', confDir: null, bandwidth: 'off' });
  const traits = { namespace: 'pod', podCIDR: '10.244.0.0/16', serviceCIDR: '10.96.0.0/16' } as const;
  const driver = new CalicoNetwork(config, { traits, context });
  await driver.start();
  await driver.setup({
    nodeName: `n${number}`,
    podCIDRs: [rangeOf(number)],
    clusterCIDRs: ['10.244.0.0/16'],
    serviceCIDRs: ['10.96.0.0/16'],
    nodeIPs: [addressOf(number)],
  });
  const api = memoryApi({ clock: new FakeClock() });
  api.seed(namespaces, { metadata: { name: 'bench' } });
  const policies = new NftablesPolicies({
    informers: api.informers,
    client: api.client(),
    clock: systemClock,
    log: silentLogger,
    tracer: noTracer,
  });
  const labels = { app: 'bench' };
  if (withPolicies) {
    const allPeers = [{ ipBlock: { cidr: '10.244.0.0/16' } }, { podSelector: { matchLabels: labels } }];
    const spec = { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{ from: allPeers }], egress: [{ to: allPeers }] };
    api.seed(networkPolicies, { metadata: { namespace: 'bench', name: 'all' }, spec });
    policies.startForNode(`n${number}`);
  }
  const ips: string[] = [];
  for (const [at, netns] of paths.entries()) {
    const pod = { namespace: 'bench', name: `pod-${number}-${at}`, uid: `u${number}${at}` };
    const result = await driver.add({ containerId: `c${at}`, ifName: 'eth0', netns, pod, portMappings: [] });
    ips.push(...result.ips);
    if (!withPolicies) continue;
    api.seed(pods, {
      metadata: { ...pod, labels },
      spec: { nodeName: `n${number}`, containers: [] },
      status: { podIPs: result.ips.map((ip) => ({ ip })) },
    });
    await policies.protect({ ...pod, labels, ips: result.ips });
  }
  console.log(JSON.stringify(ips));
  for await (const _ of process.stdin); // until the bench ends
  await policies.stop();
  await driver.stop();
  await api.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function ourPods(node: Space, number: number, count: number, withPolicies: boolean): Promise<readonly Pod[]> {
  const own: Space[] = [];
  for (let at = 0; at < count; at++) own.push(await make());
  const words = [String(number), String(withPolicies), ...own.map(({ path }) => path)];
  const child = node.start(process.execPath, ...process.execArgv, process.argv[1] ?? '', 'node', ...words);
  children.push(child);
  if (child.stdout === null) throw new Error('a node has no output');
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const ips = JSON.parse(line) as readonly string[];
  return own.map((space, at) => ({ space, ip: ips[at] ?? '' }));
}
const children: ChildProcess[] = [];

interface Pair {
  readonly from: Pod;
  readonly to: Pod;
}
interface Setting {
  readonly within: Pair;
  readonly between: Pair;
}
const settingOf = (here: readonly Pod[], there: readonly Pod[]): Setting => {
  const [one, two, far] = [here[0], here[1], there[0]];
  if (!one || !two || !far) throw new Error('there are too few pods');
  return { within: { from: one, to: two }, between: { from: one, to: far } };
};

/** Gbit/s of one TCP connection. */
async function transfer({ from, to }: Pair): Promise<number> {
  const server = to.space.start('iperf3', '-s', '-1', '--forceflush', '-p', port);
  if (server.stdout === null) throw new Error('iperf3 has no output');
  const ended = once(server, 'exit');
  for await (const line of createInterface({ input: server.stdout })) if (line.includes('listening')) break;
  server.stdout.resume();
  const output = await from.space.run('iperf3', '-c', to.ip, '-p', port, '-t', String(seconds), '-J');
  const { end, error } = JSON.parse(output) as {
    readonly end: { readonly sum_received?: { readonly bits_per_second: number } };
    readonly error?: string;
  };
  if (error !== undefined || !end.sum_received) {
    server.kill();
    throw new Error(`iperf3 to ${to.ip}: ${error ?? 'nothing was received'}`);
  }
  await ended;
  return end.sum_received.bits_per_second / 1e9;
}

async function bench(): Promise<void> {
  const settings = new Map<string, Setting>();
  const [plainOne, plainTwo] = await twoNodes();
  settings.set(
    'by hand',
    settingOf(
      [await plainPod(plainOne, '10.244.1.2', 'pod1'), await plainPod(plainOne, '10.244.1.3', 'pod2')],
      [await plainPod(plainTwo, '10.244.2.2', 'pod1')],
    ),
  );
  for (const [name, withPolicies] of [['network-calico', false] as const, ['with policies', true] as const]) {
    const [one, two] = await twoNodes();
    settings.set(name, settingOf(await ourPods(one, 1, 2, withPolicies), await ourPods(two, 2, 1, withPolicies)));
  }
  const ways = ['within', 'between'] as const;
  const seen = new Map<string, number[]>();
  for (let round = 0; round < repetitions; round++)
    for (const way of ways)
      for (const [name, setting] of settings) {
        const key = `${way} ${name}`;
        seen.set(key, [...(seen.get(key) ?? []), await transfer(setting[way])]);
      }
  const of = (way: string, name: string) => median(seen.get(`${way} ${name}`) ?? []);
  print(
    ways.flatMap((way) =>
      ['network-calico', 'with policies'].map((name) => ({
        what: `${way === 'within' ? 'within a node' : 'between two nodes'}, ${name}`,
        value: of(way, name),
        unit: 'Gbit/s',
        reference: { what: 'by hand', value: of(way, 'by hand') },
      })),
    ),
  );
}

if (role === 'node') {
  const [number = '1', policies = '', ...paths] = args;
  await ourNode(Number(number), paths, policies === 'true');
} else {
  try {
    await bench();
  } finally {
    for (const child of children) child.stdin?.end();
    await Promise.all(children.map((child) => (child.exitCode === null ? once(child, 'exit') : undefined)));
    for (const space of spaces) space.close();
  }
}
