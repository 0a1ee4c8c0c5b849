// The time that the kernel proxies need for 10,000 Services, and for one more endpoint. Requires root; creates its own network namespace.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ServicePort } from '@oarlock/spi/proxy';
import { iptablesProxy } from '../../plugins/proxy-iptables/src/iptables-proxy.ts';
import { nftablesProxy } from '../../plugins/proxy-nftables/src/nftables-proxy.ts';
import { runProgram } from '../harness/programs.ts';

const inside = 'OARLOCK_BENCH_NETWORK';
if (process.env[inside] === undefined) {
  const { status } = spawnSync('unshare', ['--net', process.execPath, ...process.execArgv, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [inside]: '1' },
  });
  process.exit(status ?? 1);
}

const count = Number(process.argv[2] ?? 10_000);
const repetitions = 15;
const pods = ['10.244.0.1', '10.244.0.2'] as const;
const ip = (...args: string[]) => runProgram('ip', args);
await ip('link', 'set', 'lo', 'up');
await ip('link', 'add', 'pods', 'type', 'bridge');
for (const pod of pods) await ip('addr', 'add', `${pod}/32`, 'dev', 'pods');
await ip('link', 'set', 'pods', 'up');
await ip('route', 'add', 'default', 'dev', 'pods');

const servers = await Promise.all(
  pods.map(async (pod) => {
    const server = createServer((socket) => socket.end(pod));
    server.listen(8080, pod);
    await once(server, 'listening');
    return server;
  }),
);
const ask = async (address: string): Promise<string> => {
  const socket = connect(80, address);
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
};
const service = (index: number, ips: readonly string[]): ServicePort => ({
  key: `bench/service-${index}:http`,
  protocol: 'TCP',
  port: 80,
  clusterIPs: [`10.96.${index >> 8}.${index & 255}`],
  externalIPs: [],
  loadBalancerIPs: [],
  loadBalancerSourceRanges: [],
  internalLocal: false,
  externalLocal: false,
  endpoints: ips.map((each) => ({ ip: each, port: 8080, local: true, ready: true, serving: true, terminating: false })),
});
const ms = (value: number) => `${value.toFixed(0)} ms`;

for (const [name, make] of [
  ['nftables', nftablesProxy],
  ['iptables', iptablesProxy],
] as const) {
  const proxy = make({ podCIDRs: ['10.244.0.0/16'], masqueradeAll: false, families: ['ip'], log: silentLogger });
  await proxy.start();
  const all = Array.from({ length: count }, (_, index) => service(index, pods));
  let began = performance.now();
  await proxy.apply({ replace: true, set: all, removed: [] });
  const programmed = performance.now() - began;
  const last = count - 1;
  const address = service(last, []).clusterIPs[0] ?? '';
  const changes: number[] = [];
  for (let round = 0; round < repetitions; round++) {
    const [only] = [pods[round % 2] ?? ''];
    began = performance.now();
    await proxy.apply({ replace: false, set: [service(last, [only])], removed: [] });
    if ((await ask(address)) !== only) throw new Error(`${name}: an endpoint change was not visible after apply`);
    changes.push(performance.now() - began);
  }
  changes.sort((a, b) => a - b);
  began = performance.now();
  await proxy.apply({ replace: true, set: all, removed: [] });
  const replaced = performance.now() - began;
  console.log(
    `${name}: ${count} Services programmed in ${ms(programmed)}, replaced in ${ms(replaced)}; endpoint change to answer p50 ${ms(changes[repetitions >> 1] ?? 0)}, worst ${ms(changes.at(-1) ?? 0)}`,
  );
  await proxy.clear();
}
for (const server of servers) server.close();
