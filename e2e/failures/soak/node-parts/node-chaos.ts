import { setTimeout as delay } from 'node:timers/promises';
import type { Cluster } from '../../../harness/cluster.ts';
import { killPid, runProgram } from '../../../harness/programs.ts';
import { pidsOf, sandboxOf, type NodeEnvironment } from './node-environment.ts';

/** Kills and stops components of a node at random moments, and restores them. */
export class NodeChaos {
  deeds = 0;
  readonly #rig: NodeEnvironment;
  readonly #random: () => number;
  readonly #spared: ReadonlySet<string>;
  readonly #busy = new Set<string>();

  /** @param spared sandboxes of pods that must not be disturbed */
  constructor(rig: NodeEnvironment, random: () => number, spared: ReadonlySet<string>) {
    this.#rig = rig;
    this.#random = random;
    this.#spared = spared;
  }

  async run(signal: AbortSignal): Promise<void> {
    const under = new Set<Promise<void>>();
    while (!signal.aborted) {
      await delay(1_000 + this.#random() * 6_000, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
      const work = this.#deed(signal).finally(() => under.delete(work));
      under.add(work);
    }
    await Promise.all(under);
  }

  #log(what: string): void {
    this.deeds++;
    console.log(`  ${new Date().toISOString().slice(11, 23)} ${what}`);
  }

  #deed(signal: AbortSignal): Promise<void> {
    const { plane, node, containerd, places } = this.#rig;
    const kinds: readonly (readonly [weight: number, deed: () => Promise<void>])[] = [
      [4, () => this.#restart('node', node, signal)],
      [2, () => this.#restart('plane', plane, signal)],
      [3, () => this.#containerd(signal)],
      [2, () => this.#sleep('node', () => node.pid, signal)],
      [1, () => this.#sleep('containerd', () => containerd.pid, signal)],
      [2, () => this.#end('a CSI driver', () => pidsOf(places.base, /csi-hostpath/))],
      [3, () => this.#end('a shim', () => this.#shims())],
      [2, () => this.#end('a container', () => this.#containers())],
    ];
    let at = this.#random() * kinds.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, deed] of kinds) if ((at -= weight) < 0) return deed();
    return Promise.resolve();
  }

  async #alone(name: string, work: () => Promise<void>): Promise<void> {
    if (this.#busy.has(name)) return;
    this.#busy.add(name);
    try {
      await work();
    } finally {
      this.#busy.delete(name);
    }
  }

  #restart(name: string, cluster: Cluster, signal: AbortSignal): Promise<void> {
    const downMs = this.#random() * 3_000;
    return this.#alone(name, async () => {
      this.#log(`kill -9 of the ${name}`);
      await cluster.kill9();
      await delay(downMs, undefined, { signal }).catch(() => undefined);
      const daemon = cluster.launch();
      await daemon.line(/ is ready at /);
      this.#log(`the ${name} is back`);
    });
  }

  #containerd(signal: AbortSignal): Promise<void> {
    const downMs = this.#random() * 2_000;
    return this.#alone('containerd', async () => {
      this.#log('kill -9 of containerd');
      await this.#rig.containerd.kill9();
      await delay(downMs, undefined, { signal }).catch(() => undefined);
      await this.#rig.containerd.restart();
      this.#log('containerd is back');
    });
  }

  #sleep(name: string, pid: () => number, signal: AbortSignal): Promise<void> {
    const ms = 500 + this.#random() * 6_000;
    return this.#alone(name, async () => {
      this.#log(`${name} is stopped for ${Math.round(ms)} ms`);
      killPid(pid(), 'SIGSTOP');
      await delay(ms, undefined, { signal }).catch(() => undefined);
      killPid(pid(), 'SIGCONT');
      this.#log(`${name} goes on`);
    });
  }

  async #end(what: string, find: () => Promise<readonly number[]>): Promise<void> {
    const at = this.#random();
    const pids = await find();
    const pid = pids[Math.floor(at * pids.length)];
    if (pid === undefined) return;
    this.#log(`kill -9 of ${what}, ${pid}`);
    killPid(pid, 'SIGKILL');
  }

  async #shims(): Promise<readonly number[]> {
    const all = await pidsOf(this.#rig.places.base, /^\S*containerd-shim/);
    const sandboxes = await Promise.all(all.map(sandboxOf));
    return all.filter((_, at) => sandboxes[at] !== undefined && !this.#spared.has(sandboxes[at] ?? ''));
  }

  /** Returns the first processes of containers, below shims. */
  async #containers(): Promise<readonly number[]> {
    const shims = new Set(await this.#shims());
    const { stdout } = await runProgram('ps', ['-eo', 'pid,ppid']);
    return stdout.split('\n').flatMap((line) => {
      const [pid, parent] = line.trim().split(/\s+/).map(Number);
      return pid !== undefined && parent !== undefined && shims.has(parent) ? [pid] : [];
    });
  }
}
