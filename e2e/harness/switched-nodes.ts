import { randomInt } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { unmountBelow, type Cluster } from './cluster.ts';
import type { Machine } from './machine.ts';
import { oarlock } from './oarlock.ts';
import { Daemon, endProcessesBelow, mustRun, runProgram } from './programs.ts';

/** A network namespace with a link to a switch, and the node that runs in it. */
export class SwitchedNode {
  readonly name: string;
  readonly address: string;
  readonly dir: string;
  readonly #namespace: string;
  readonly #join: readonly string[];
  #daemon: Daemon | undefined;

  constructor(options: {
    readonly name: string;
    readonly address: string;
    readonly dir: string;
    readonly namespace: string;
    readonly join: readonly string[];
  }) {
    this.name = options.name;
    this.address = options.address;
    this.dir = options.dir;
    this.#namespace = options.namespace;
    this.#join = options.join;
  }

  get dataDir(): string {
    return join(this.dir, 'data');
  }
  /** Starts the node with this `spec` of a cluster file. Resolves when the node is ready. */
  async start(spec: object): Promise<void> {
    const file = join(this.dir, 'node.yaml');
    await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }));
    // not `ip netns exec`: its mounts, network namespaces of pods included, must outlive it
    const own = ['--node-name', this.name, '-f', file, '--data-dir', this.dataDir];
    this.#daemon = new Daemon('nsenter', [
      `--net=/run/netns/${this.#namespace}`,
      oarlock.file,
      ...oarlock.args,
      'node',
      'join',
      ...this.#join,
      ...own,
    ]);
    await this.#daemon.line(new RegExp(`^The node ${this.name} is ready at `));
  }
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#daemon?.stop(signal);
  }
  /** Runs a program in the node's network namespace. */
  run(program: string, ...args: string[]): Promise<string> {
    return mustRun('ip', ['netns', 'exec', this.#namespace, program, ...args]);
  }
}

/** Namespaces on one layer 2 segment, as nodes of one rack; the control plane runs outside, at the switch's address. */
export async function startSwitchedNodes(
  machine: Machine,
  cluster: Cluster,
  names: readonly string[],
  rack: Rack,
): Promise<readonly SwitchedNode[]> {
  const { stdout } = await cluster.oarlock('token', 'create');
  const words = stdout.trim().split(' ').slice(3);
  const args = words.map((word) => (word.startsWith('https://') ? `https://${rack.address}:${cluster.port}` : word));
  return Promise.all(
    names.map(async (name, at) => {
      const address = `${rack.prefix}.${at + 11}`;
      const namespace = await rack.plug(machine, at, address);
      const dir = machine.path(name);
      await mkdir(dir);
      const node = new SwitchedNode({ name, address, dir, namespace, join: args });
      machine.undo(name, async () => {
        await node.stop('SIGKILL');
        await endProcessesBelow(dir);
        await unmountBelow(dir);
        for (const path of await namespacesOfPods(node.dataDir)) await runProgram('ip', ['netns', 'del', path]);
      });
      return node;
    }),
  );
}

/** Removes namespaces of pods that the node still has: an aborted or filtered journey does not delete its pods. */
async function namespacesOfPods(dataDir: string): Promise<readonly string[]> {
  const names = await readdir(dataDir, { recursive: true });
  const records = names.filter((name) => /(^|\/)attachments\/[^/.][^/]*$/.test(name));
  const texts = await Promise.all(records.map((name) => readFile(join(dataDir, name), 'utf8')));
  return texts.flatMap((text) => {
    const { attachment } = JSON.parse(text) as { readonly attachment: { readonly netns?: string } };
    return attachment.netns?.startsWith('/run/netns/') === true ? [basename(attachment.netns)] : [];
  });
}

/** Creates a switch (bridge) on this machine. */
export class Rack {
  readonly #number = randomInt(1, 255);
  readonly prefix = `10.215.${this.#number}`;
  readonly address = `${this.prefix}.1`;
  readonly #link = `oar-sw${this.#number}`;

  static async build(machine: Machine): Promise<Rack> {
    const rack = new Rack();
    await mustRun('ip', ['link', 'add', rack.#link, 'type', 'bridge']);
    machine.undo('switch', () => mustRun('ip', ['link', 'del', rack.#link]));
    await mustRun('ip', ['addr', 'add', `${rack.address}/24`, 'dev', rack.#link]);
    await mustRun('ip', ['link', 'set', rack.#link, 'up']);
    return rack;
  }

  /** Creates a namespace with a link to the switch and returns its name. */
  async plug(machine: Machine, at: number, address: string): Promise<string> {
    const name = `oar-sw${this.#number}-${at}`;
    const ip = (...args: string[]) => mustRun('ip', args);
    await ip('netns', 'add', name);
    machine.undo(name, () => ip('netns', 'del', name));
    await ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'up0', 'netns', name);
    await ip('link', 'set', name, 'master', this.#link, 'up');
    await ip('-n', name, 'addr', 'add', `${address}/24`, 'dev', 'up0');
    for (const link of ['up0', 'lo']) await ip('-n', name, 'link', 'set', link, 'up');
    await ip('-n', name, 'route', 'add', 'default', 'via', this.address);
    return name;
  }
}
