import { connect } from 'node:tls';
import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { hello } from '../harness/hello.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { until } from '../harness/until.ts';
import { membersOf, serverMachines, type ServerMachine } from './support/server-machines.ts';

const onRequest = process.env['OARLOCK_HA_CERTIFICATES'] === undefined ? 'on request: npm run ha -- --certificates' : undefined;
const missing = onRequest ?? componentMissing.etcd() ?? (await netnsMissing());
/** The shortest lifetime that a cluster file may have. */
const lifetimeMs = 10 * 60_000;
const slow = { timeout: 30 * 60_000 };

interface Presented {
  readonly serial: string;
  readonly validTo: number;
}

/** Returns the certificate that a TLS server presents. */
function presentedBy(host: string, port: number): Promise<Presented> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, rejectUnauthorized: false }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error(`${host}:${port} presents no certificate`));
      else resolve({ serial: certificate.serialNumber, validTo: Date.parse(certificate.validTo) });
    });
    socket.once('error', reject);
  });
}

describe.skipIf(missing !== undefined)(`certificates that live ten minutes${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  const machine = Machine.use();
  let machines: readonly ServerMachine[];
  let startedAt: number;
  const at = (index: number): ServerMachine => {
    const found = machines[index];
    if (found === undefined) throw new Error(`there is no machine ${index}`);
    return found;
  };
  const servers = () => [at(0), at(1)];
  /** The listeners with certificates: API servers, etcd for clients, and the kubelet. Peers of etcd need a client certificate. */
  const listeners = () => [
    ...servers().flatMap(({ address }) => [6443, 2379].map((port) => ({ address, port }))),
    { address: at(2).address, port: 10250 },
  ];
  const presented = () => Promise.all(listeners().map(({ address, port }) => presentedBy(address, port)));

  beforeAll(async () => {
    machines = await serverMachines(machine, ['server-a', 'server-b', 'node-a']);
    startedAt = Date.now();
    await at(0).init({
      roles: ['apiserver', 'controllers', 'scheduler'],
      certificateValidityPeriod: '10m',
      server: { address: at(0).address },
      network: 'network-host',
      storage: { use: 'storage-etcd', config: { managed: true } },
      encryption: {},
    });
    await at(1).join(at(0));
    const kubelet = { address: at(2).address, port: 10250, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } };
    await at(2).joinAsNode(at(0), {
      runtimes: ['runtime-process'],
      network: 'network-host',
      proxy: 'proxy-userspace',
      settings: { kubelet },
    });
    await at(0).kubectl.apply(await hello('process'));
    await (await at(0).api()).untilReady('default', 'hello', 3);
  });

  it('are renewed by servers, nodes and members of etcd without a restart', slow, async () => {
    const pids = await Promise.all(servers().map((each) => each.memberPids()));
    const first = await presented();
    const patience = { timeoutMs: 2 * lifetimeMs, everyMs: 1000 };
    await until(
      'every listener presents another certificate',
      async () => (await presented()).every(({ serial }, index) => serial !== first[index]?.serial),
      patience,
    );
    const oldestEnd = Math.max(...first.map(({ validTo }) => validTo), startedAt + lifetimeMs + 60_000);
    await until('the first certificates have expired', () => Date.now() > oldestEnd, patience);
    for (const { validTo } of await presented()) expect(validTo).toBeGreaterThan(Date.now());
    // new connections in each direction: members, clients of members, clients of servers, servers to kubelets, the node to servers
    await at(1).cutOff([at(0)], 'both ways');
    await until('the servers are cut off', () =>
      at(0)
        .kubectl.try(['get', 'configmaps', '--request-timeout=2s'])
        .then(({ code }) => code !== 0),
    );
    await at(1).heal();
    const { etcdctl } = membersOf(servers());
    await until('both members are healthy', () => etcdctl('endpoint', 'health').then(() => true));
    for (const server of servers()) {
      await until('a write is acknowledged', () => server.kubectl.run(['create', 'configmap', `after-${server.name}`]).then(() => true));
      expect(await server.kubectl.run(['get', 'node', 'node-a', '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'])).toBe(
        'True',
      );
      expect((await server.kubectl.run(['exec', 'deployment/hello', '--', 'echo', 'reached'])).trim()).toBe('reached');
    }
    await at(0).kubectl.run(['scale', 'deployment/hello', '--replicas=4']);
    await (await at(0).api()).untilReady('default', 'hello', 4);
    expect(await Promise.all(servers().map((each) => each.memberPids()))).toEqual(pids);
    expect(machines.map(({ daemon }) => daemon.ended)).toEqual([false, false, false]);
    for (const [server, names] of [
      [at(0), ['ca', 'front-proxy-ca', 'kubernetes-admin', 'kube-apiserver', 'etcd-ca', 'etcd-server', 'etcd-peer', 'etcd-client']],
      [at(1), ['kube-apiserver', 'etcd-server']],
    ] as const) {
      const metrics = await server.kubectl.run(['get', '--raw', '/metrics']);
      for (const name of names) {
        const [, end] =
          new RegExp(`oarlock_certificate_expiration_timestamp_seconds\\{certificate="${name}"\\} (\\d+)`).exec(metrics) ?? [];
        expect({ name, isValid: Number(end) * 1000 > Date.now() }).toEqual({ name, isValid: true });
      }
      expect(metrics).toMatch(/apiserver_client_certificate_expiration_seconds_count [1-9]/);
    }
    const kubelet = await at(0).kubectl.run(['get', '--raw', '/api/v1/nodes/node-a/proxy/metrics']);
    for (const purpose of ['client', 'server'])
      expect(kubelet).toMatch(new RegExp(`kubelet_certificate_manager_${purpose}_ttl_seconds [1-9]`));
    const events = await at(0).kubectl.run(['get', 'events', '-A', '-o', 'name', '--field-selector', 'reason=CertificateExpiring']);
    expect(events).toBe('');
  });
});
