import { availability, cronJobs, daemons, deployments, jobs, ordered } from './app-rules.ts';
import type { Chaos } from './chaos.ts';
import type { Change } from './history.ts';
import { budgets, fit, quotas } from './node-rules.ts';
import { identity, namespaces, podLife } from './object-rules.ts';
import { late, Recent, type Rule } from './rule.ts';
import type { World } from './world.ts';

/** What somebody who slept or was cut off had begun is over after that. */
const lateMs = 25_000;
const troubleMs = 10_000;

/** Applies every rule to every change. */
export class Watcher {
  readonly breaches: string[] = [];
  /** Those that upstream's loops allow themselves too, where an answer is lost or a leader is late. */
  readonly excused: string[] = [];
  changes = 0;
  readonly #rules: readonly Rule[] = [
    identity(),
    podLife,
    namespaces,
    fit,
    quotas,
    budgets(new Recent(troubleMs)),
    deployments(),
    availability(),
    ordered(),
    daemons,
    jobs(),
    cronJobs,
  ];
  readonly #world: World;
  readonly #users: { readonly forced: ReadonlySet<string>; readonly evicted: ReadonlySet<string> };
  readonly #chaos: Chaos;

  constructor(world: World, users: { readonly forced: ReadonlySet<string>; readonly evicted: ReadonlySet<string> }, chaos: Chaos) {
    this.#world = world;
    this.#users = users;
    this.#chaos = chaos;
  }

  see(change: Change): void {
    this.changes++;
    const { forced, evicted } = this.#users;
    const lateLeader = this.#chaos.recent(/^(one|two|etcd) (goes on|is heard)|^kill -9 of (one|two|etcd)/, lateMs).length > 0;
    const scene = { world: this.#world, forced, evicted, lateLeader };
    for (const rule of this.#rules) for (const what of rule(change, scene)) this.#breach(what, change);
  }

  #breach(what: string, { revision }: Change): void {
    const text = `${revision} ${new Date().toISOString().slice(11, 23)} ${what}`;
    (what.endsWith(late) ? this.excused : this.breaches).push(text);
    console.log(`! ${text}`);
  }
}
