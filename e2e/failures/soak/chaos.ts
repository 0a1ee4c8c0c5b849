import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../../harness/until.ts';
import type { TcpGate } from './tcp-gate.ts';
import type { Part, Rig } from './control-plane-environment.ts';

/** A fault that was injected into a component. */
export interface ChaosAction {
  readonly at: number;
  readonly what: string;
}

const between = (random: () => number, from: number, to: number) => from + Math.floor(random() * (to - from));

/** Kills, stops and disconnects components at random moments, and restores each. */
export class Chaos {
  readonly deeds: ChaosAction[] = [];
  readonly #rig: Rig;
  readonly #random: () => number;
  readonly #ways: readonly TcpGate[];
  readonly #busy = new Set<string>();
  readonly #under = new Set<Promise<void>>();

  /** @param ways gates of the users, cut like all others */
  constructor(rig: Rig, random: () => number, ways: readonly TcpGate[]) {
    this.#rig = rig;
    this.#random = random;
    this.#ways = ways;
  }

  /** Runs until the signal aborts, then waits until every component is restored. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await delay(between(this.#random, 1_500, 7_000), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
      const work = this.#deed(signal).finally(() => this.#under.delete(work));
      this.#under.add(work);
    }
    await Promise.all(this.#under);
  }

  /** Returns whether a component was killed or resumed within the last `ms`: a stopped process continues what it had started. */
  recent(pattern: RegExp, withinMs: number): readonly ChaosAction[] {
    const since = performance.now() - withinMs;
    return this.deeds.filter(({ at, what }) => at >= since && pattern.test(what));
  }

  #deed(signal: AbortSignal): Promise<void> {
    const { planes, nodes } = this.#rig;
    const random = this.#random;
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const kinds: readonly (readonly [weight: number, deed: () => Promise<void>])[] = [
      [4, () => this.#kill(pick(planes), between(random, 0, 6_000), signal)],
      [3, () => this.#sleep(pick(planes), random() < 0.3 ? between(random, 16_000, 30_000) : between(random, 500, 9_000), signal)],
      [2, () => this.#etcd(random() < 0.6, between(random, 500, 6_000), signal)],
      [3, () => this.#cut(pick([...planes, ...nodes].map(({ gate }) => gate).concat(this.#ways)))],
      [2, () => this.#hold(pick([...planes, ...nodes]), between(random, 1_000, 14_000), signal)],
      [2, () => this.#kill(pick(nodes), random() < 0.15 ? between(random, 50_000, 70_000) : between(random, 0, 5_000), signal)],
      [2, () => this.#sleep(pick(nodes), random() < 0.15 ? between(random, 50_000, 70_000) : between(random, 500, 15_000), signal)],
    ];
    let at = random() * kinds.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, deed] of kinds) if ((at -= weight) < 0) return deed();
    return Promise.resolve();
  }

  #log(what: string): void {
    this.deeds.push({ at: performance.now(), what });
    console.log(`  ${new Date().toISOString().slice(11, 23)} ${what}`);
  }

  /** Injects one fault at a time. */
  async #alone(name: string, work: () => Promise<void>): Promise<void> {
    if (this.#busy.has(name)) return;
    this.#busy.add(name);
    try {
      await work();
    } finally {
      this.#busy.delete(name);
    }
  }

  #kill({ name, cluster }: Part, downMs: number, signal: AbortSignal): Promise<void> {
    return this.#alone(name, async () => {
      this.#log(`kill -9 of ${name}, for ${downMs} ms`);
      await cluster.kill9();
      await pause(downMs, signal);
      // a control plane without its store exits, and is restarted as by an init system
      await until(`${name} is ready`, async () => {
        this.#log(`${name} starts`);
        await cluster.launch().line(/ is ready at /);
        return true;
      });
      this.#log(`${name} is ready`);
    });
  }

  #sleep({ name, cluster }: Part, ms: number, signal: AbortSignal): Promise<void> {
    return this.#alone(name, async () => {
      this.#log(`${name} is stopped for ${ms} ms`);
      cluster.daemon.signal('SIGSTOP');
      await pause(ms, signal);
      cluster.daemon.signal('SIGCONT');
      this.#log(`${name} goes on`);
    });
  }

  #etcd(kill: boolean, ms: number, signal: AbortSignal): Promise<void> {
    return this.#alone('etcd', async () => {
      const { etcd } = this.#rig;
      if (kill) {
        this.#log('kill -9 of etcd');
        await etcd.kill9();
        await etcd.restart();
        this.#log('etcd is back');
        return;
      }
      this.#log(`etcd is stopped for ${ms} ms`);
      process.kill(etcd.pid, 'SIGSTOP');
      await pause(ms, signal);
      process.kill(etcd.pid, 'SIGCONT');
      this.#log('etcd continues');
    });
  }

  async #cut(gate: TcpGate): Promise<void> {
    this.#log(`connections of port ${gate.port} are cut`);
    gate.cut();
  }

  #hold({ name, gate }: Part, ms: number, signal: AbortSignal): Promise<void> {
    return this.#alone(`network of ${name}`, async () => {
      this.#log(`no data passes to or from ${name} for ${ms} ms`);
      gate.hold();
      await pause(ms, signal);
      gate.release();
      this.#log(`${name} is connected again`);
    });
  }
}

const pause = (ms: number, signal: AbortSignal) => delay(ms, undefined, { signal }).catch(() => undefined);
