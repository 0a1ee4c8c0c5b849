import { randomInt } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Api } from '../../harness/api.ts';
import { Kubectl, newestKubectl } from '../../harness/kubectl.ts';
import type { WatchedEtcd } from './etcd-watch.ts';
import type { Machine } from '../../harness/machine.ts';
import { oarlock } from '../../harness/oarlock.ts';
import { Daemon, killPid, mustRun, processesBelow } from '../../harness/programs.ts';

/** The directions in which a machine drops packets of another one. */
export type Partition = 'both ways' | 'incoming' | 'outgoing';

/** A machine with an address of its own: a network namespace at a bridge that the test made. */
export class ServerMachine {
  readonly name: string;
  readonly address: string;
  readonly dataDir: string;
  readonly #namespace: string;
  readonly #dir: string;
  /** A directory whose programs the machine has in /usr/bin instead of installed ones, such as another version of etcd. */
  programs: string | undefined;
  #daemon: Daemon | undefined;
  #firstCommand: readonly string[] = [];

  constructor({ name, address, namespace, dir }: { name: string; address: string; namespace: string; dir: string }) {
    this.name = name;
    this.address = address;
    this.dataDir = join(dir, 'data');
    this.#namespace = namespace;
    this.#dir = dir;
  }

  get url(): string {
    return `https://${this.address}:6443`;
  }
  get kubeconfig(): string {
    return join(this.dataDir, 'admin.kubeconfig');
  }
  get kubectl(): Kubectl {
    const binary = newestKubectl();
    if (binary === undefined) throw new Error('there is no kubectl on the PATH');
    return new Kubectl(binary, this.kubeconfig, join(this.#dir, 'home'));
  }
  api(): Promise<Api> {
    return Api.of(this.kubeconfig);
  }

  get clusterFile(): string {
    return join(this.#dir, 'cluster.yaml');
  }

  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error(`${this.name} has not started`);
    return this.#daemon;
  }

  /** Runs a command of the machine until it ends. */
  oarlock(...args: string[]): Promise<string> {
    return this.run(oarlock.file, ...oarlock.args, ...args, '--data-dir', this.dataDir);
  }
  run(file: string, ...args: string[]): Promise<string> {
    return mustRun('ip', this.#inMachine(file, ...args), { cwd: this.#dir });
  }
  /** Starts a command of the machine, which the caller can kill. */
  command(...args: string[]): Daemon {
    const command = [oarlock.file, ...oarlock.args, ...args, '--data-dir', this.dataDir];
    return new Daemon('ip', this.#inMachine(...command), { cwd: this.#dir });
  }
  /** Returns the arguments of `ip` for a command of the machine. `ip netns exec` gives the command mounts of its own. */
  #inMachine(...command: string[]): readonly string[] {
    const mounted = `mount -t overlay -o lowerdir=${this.programs}:/usr/bin overlay /usr/bin && exec "$@"`;
    const own = this.programs === undefined ? [] : ['sh', '-c', mounted, 'sh'];
    return ['netns', 'exec', this.#namespace, ...own, ...command];
  }

  /** Starts the first server of several with a cluster file. */
  init(spec: object): Promise<void> {
    return this.up(spec, '--init');
  }
  /** Starts the first server of several with managed etcd and without nodes. `more` adds to the cluster file. */
  initManagedEtcd(more: object = {}): Promise<void> {
    return this.init({
      roles: ['apiserver', 'controllers', 'scheduler'],
      server: { address: this.address },
      networking: { serviceCIDRs: ['127.96.0.0/16'] },
      storage: { use: 'storage-etcd', config: { managed: true } },
      encryption: {},
      ...more,
    });
  }
  /** Starts a server with a cluster file. */
  async up(spec: object, ...args: string[]): Promise<void> {
    await this.#writeClusterFile(spec);
    this.#firstCommand = ['up', '-f', this.clusterFile];
    await this.start(...args);
  }

  /** Joins the cluster of another machine, with the command that it prints, and a cluster file of its own if there is a spec. */
  async join(other: ServerMachine, spec?: object): Promise<void> {
    const [, ...command] = (await other.oarlock('token', 'create', '--role', 'server')).trim().split(' ');
    if (spec !== undefined) await this.#writeClusterFile(spec);
    this.#firstCommand = ['server', 'join', ...(spec === undefined ? [] : ['-f', this.clusterFile])];
    await this.start(...command.slice(2));
  }

  /** Joins the cluster of another machine as a node. Resolves when the node is ready. */
  async joinAsNode(other: ServerMachine, spec: object): Promise<void> {
    await this.#writeClusterFile(spec);
    const [, , , ...options] = (await other.oarlock('token', 'create')).trim().split(' ');
    this.#firstCommand = ['node', 'join', '-f', this.clusterFile];
    await this.startNode(...options);
  }
  #writeClusterFile(spec: object): Promise<void> {
    return writeFile(
      this.clusterFile,
      JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'machines' }, spec }),
    );
  }
  /** Starts the node, also again over the same data directory. Resolves when it is ready. */
  async startNode(...args: string[]): Promise<void> {
    await this.launch(...args).line(/^The node \S+ is ready at /);
  }

  /** Starts the server, also again over the same data directory. Resolves when it is ready. */
  async start(...args: string[]): Promise<void> {
    await this.launch(...args).line(/^Oarlock is ready at /);
  }
  launch(...args: string[]): Daemon {
    const command = [...this.#firstCommand, ...args, '--data-dir', this.dataDir, '--node-name', this.name];
    this.#daemon = new Daemon('ip', this.#inMachine(oarlock.file, ...oarlock.args, ...command), { cwd: this.#dir });
    return this.#daemon;
  }

  /** Sends a signal to all processes of the machine: the server and its etcd member. */
  async signalAll(signal: NodeJS.Signals): Promise<void> {
    for (const pid of (await mustRun('ip', ['netns', 'pids', this.#namespace])).split(/\s+/).filter((text) => text !== ''))
      killPid(Number(pid), signal);
  }
  /** Returns the process ids of the etcd member. */
  async memberPids(): Promise<readonly number[]> {
    const found = await Promise.all((await processesBelow(this.dataDir)).map(async (pid) => ({ pid, name: await nameOf(pid) })));
    return found.filter(({ name }) => name === 'etcd').map(({ pid }) => pid);
  }
  /** Kills the machine. */
  async kill9(): Promise<void> {
    await this.signalAll('SIGKILL');
    await this.daemon.exit;
  }
  /** Deletes the disk of a machine that was killed. */
  async wipe(): Promise<void> {
    await rm(this.dataDir, { recursive: true });
  }

  /** Drops the packets between this machine and others until `heal`. */
  async cutOff(others: readonly ServerMachine[], partition: Partition): Promise<void> {
    const addresses = `{ ${others.map(({ address }) => address).join(', ')} }`;
    const rules = [
      ...(partition === 'outgoing' ? [] : [`chain incoming { type filter hook input priority 0; ip saddr ${addresses} drop; }`]),
      ...(partition === 'incoming' ? [] : [`chain outgoing { type filter hook output priority 0; ip daddr ${addresses} drop; }`]),
    ];
    await this.run('nft', `table inet partition { ${rules.join(' ; ')} ; }`);
  }
  /** Drops a part of all incoming packets until `heal`. */
  async loseIncoming(percent: number): Promise<void> {
    const drop = `numgen random mod 100 < ${percent} drop`;
    await this.run('nft', `table inet partition { chain incoming { type filter hook input priority 0; iif != "lo" ${drop}; } ; }`);
  }
  async heal(): Promise<void> {
    await this.run('nft', 'delete table inet partition');
  }
}

const nameOf = (pid: number): Promise<string> =>
  readFile(`/proc/${pid}/comm`, 'utf8').then(
    (text) => text.trim(),
    () => '', // the process has ended
  );

/** Returns access to the etcd members of machines, with the certificate of the first one. */
export function membersOf(machines: readonly ServerMachine[]): WatchedEtcd {
  const endpoints = machines.map(({ address }) => `https://${address}:2379`);
  const pki = join(machines[0]?.dataDir ?? '', 'pki', 'etcd');
  const options = ['--cacert', join(pki, 'ca.crt'), '--cert', join(pki, 'client.crt'), '--key', join(pki, 'client.key')];
  const all = ['--endpoints', endpoints.join(','), ...options, '--command-timeout', '5s'];
  return { endpoints, options, etcdctl: (...args) => mustRun('etcdctl', [...all, ...args], { env: { ETCDCTL_API: '3' } }) };
}

/** Creates machines at one bridge, which this test can reach. */
export async function serverMachines(machine: Machine, names: readonly string[]): Promise<readonly ServerMachine[]> {
  const used = new Set(await readdir('/run/netns').catch(() => []));
  const namespaceOf = (n: number, index: number) => `oarlock-ha-${n}-${index}`;
  let n: number;
  do n = randomInt(1, 255);
  while (names.some((_, index) => used.has(namespaceOf(n, index))));
  const bridge = `oar-ha${n}`;
  const ip = (...args: string[]) => mustRun('ip', args);
  await ip('link', 'add', bridge, 'type', 'bridge');
  machine.undo('bridge', () => ip('link', 'del', bridge));
  await ip('addr', 'add', `10.215.${n}.1/24`, 'dev', bridge);
  await ip('link', 'set', bridge, 'up');
  const machines: ServerMachine[] = [];
  for (const [index, name] of names.entries()) {
    const [namespace, link, address] = [namespaceOf(n, index), `oar-ha${n}-${index}`, `10.215.${n}.${index + 11}`];
    await ip('netns', 'add', namespace);
    const dir = machine.path(name);
    await mkdir(dir);
    const created = new ServerMachine({ name, address, namespace, dir });
    machine.undo(`machine ${name}`, async () => {
      await created.signalAll('SIGKILL');
      // connections that a closed machine cannot end keep its namespace for minutes, but not the link
      await ip('link', 'del', link);
      await ip('netns', 'del', namespace);
    });
    await ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
    await ip('link', 'set', link, 'master', bridge, 'up');
    await ip('-n', namespace, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    for (const device of ['eth0', 'lo']) await ip('-n', namespace, 'link', 'set', device, 'up');
    machines.push(created);
  }
  return machines;
}
