import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchEnvironment } from '../../bench/support/bench-environment.ts';
import type { Cluster } from '../../harness/cluster.ts';
import type { RunningEtcd } from '../../harness/etcd.ts';
import { TcpGate, type Target } from './tcp-gate.ts';

export const prefix = '/soak';
const addresses = [
  ['one', '127.0.0.1'],
  ['two', '127.0.0.2'],
] as const;

/** A process that can be killed, stopped and disconnected. */
export interface Part {
  readonly name: string;
  readonly cluster: Cluster;
  /** The gate through which it reaches the others. */
  readonly gate: TcpGate;
}

/** Two control planes over one etcd, and simulated nodes in separate processes; every connection between them passes through a gate. */
export class Rig {
  readonly etcd: RunningEtcd;
  readonly planes: readonly Part[];
  readonly nodes: readonly Part[];
  /** Gates of the users. */
  readonly gate: TcpGate;
  readonly kubeconfig: string;
  readonly #kubeconfigs: (gate: TcpGate, name: string) => Promise<string>;
  readonly #targets: readonly Target[];
  readonly #ways: TcpGate[] = [];

  private constructor(
    etcd: RunningEtcd,
    planes: readonly Part[],
    nodes: readonly Part[],
    gate: TcpGate,
    kubeconfig: string,
    kubeconfigs: (gate: TcpGate, name: string) => Promise<string>,
    targets: readonly Target[],
  ) {
    this.#targets = targets;
    this.etcd = etcd;
    this.planes = planes;
    this.nodes = nodes;
    this.gate = gate;
    this.kubeconfig = kubeconfig;
    this.#kubeconfigs = kubeconfigs;
  }

  /** @param groups processes with nodes; each has `nodesEach` nodes, labelled `group` */
  static async build(stage: BenchEnvironment, groups: number, nodesEach: number): Promise<Rig> {
    const etcd = await stage.etcd();
    const etcdPort = Number(new URL(etcd.endpoint).port);
    const planes: Part[] = [];
    for (const [name, host] of addresses) {
      const gate = await TcpGate.to({ host: '127.0.0.1', port: etcdPort });
      const [first] = planes;
      // as on separate machines: different addresses, the same port
      const args = first ? ['--port', String(first.cluster.port)] : [];
      const cluster = await stage.prepare({ spec: planeSpec(gate.port, host), nodeName: name, args });
      if (first) {
        await mkdir(cluster.dataDir, { recursive: true, mode: 0o700 });
        await cp(join(first.cluster.dataDir, 'pki'), join(cluster.dataDir, 'pki'), { recursive: true });
      }
      await cluster.up();
      planes.push({ name, cluster, gate });
    }
    const [first] = planes;
    if (!first) throw new Error('there is no control plane');
    const targets = addresses.map(([, host]) => ({ host, port: first.cluster.port }));
    const text = await readFile(first.cluster.kubeconfig, 'utf8');
    const kubeconfigs = async (gate: TcpGate, name: string) => {
      const file = stage.path(`${name}.kubeconfig`);
      await writeFile(file, text.replace(/server: \S+/, `server: https://127.0.0.1:${gate.port}`), { mode: 0o600 });
      return file;
    };
    const nodes: Part[] = [];
    for (let group = 0; group < groups; group++) {
      const name = `group-${group}`;
      const gate = await TcpGate.to(...targets);
      const cluster = await stage.prepare({
        spec: nodesSpec(name, nodesEach, group),
        nodeName: name,
        args: ['--kubeconfig', await kubeconfigs(gate, name)],
      });
      await mkdir(cluster.dataDir, { recursive: true, mode: 0o700 });
      await cp(join(first.cluster.dataDir, 'pki'), join(cluster.dataDir, 'pki'), { recursive: true });
      cluster.launch();
      nodes.push({ name, cluster, gate });
    }
    const gate = await TcpGate.to(...targets);
    return new Rig(etcd, planes, nodes, gate, await kubeconfigs(gate, 'user'), kubeconfigs, targets);
  }

  /** Closes all gates. */
  async close(): Promise<void> {
    await Promise.all([this.gate, ...this.#ways, ...[...this.planes, ...this.nodes].map(({ gate }) => gate)].map((gate) => gate.close()));
  }

  /** Adds a gate to the API servers, for one client. */
  async way(name: string): Promise<{ readonly gate: TcpGate; readonly kubeconfig: string }> {
    const gate = await TcpGate.to(...this.#targets);
    this.#ways.push(gate);
    return { gate, kubeconfig: await this.#kubeconfigs(gate, name) };
  }
}

const planeSpec = (etcdPort: number, address: string) => ({
  server: { address, names: addresses.map(([, host]) => host) },
  roles: ['apiserver', 'controllers', 'scheduler'],
  storage: { use: 'storage-etcd', config: { endpoints: [`http://127.0.0.1:${etcdPort}`], prefix } },
  controllers: ['controller-metrics-server'],
  networking: { podCIDRs: ['10.128.0.0/11'] },
  settings: { controllers: { leaderElect: true }, scheduler: { leaderElect: true } },
});

const nodesSpec = (nodeName: string, count: number, group: number) => ({
  roles: ['kubelet'],
  runtimes: [{ use: 'runtime-simulated', config: { addresses: `10.${128 + group}.0.0/16` } }],
  settings: { kubelet: { nodeName, count, port: 0, labels: { group: nodeName } } },
});
