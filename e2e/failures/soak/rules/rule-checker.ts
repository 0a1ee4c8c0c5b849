import { availability, cronJobs, daemons, deployments, jobs, ordered } from './app-rules.ts';
import type { Chaos } from '../chaos.ts';
import type { Change } from '../model/history.ts';
import { budgets, fit, quotas } from './node-rules.ts';
import { identity, namespaces, podLife } from './object-rules.ts';
import { late, Recent, type Rule } from './rule.ts';
import { controllerOf, isLeaving } from '../model/stored-object.ts';
import type { ObjectIndex } from '../model/object-index.ts';

/** A stopped or disconnected process finishes within this time what it had started. */
const lateMs = 25_000;
const troubleMs = 10_000;
/** The changes of the controlled objects, printed with a violation. */
const remembered = 40;

const clock = () => new Date().toISOString().slice(11, 23);
const noThing = { kind: '', apiVersion: '', metadata: { name: '', uid: '' } };

/** Applies every rule to every change. */
export class RuleChecker {
  readonly breaches: string[] = [];
  /** Violations that upstream's controllers allow too, after a lost response or with a late leader. */
  readonly excused: string[] = [];
  changes = 0;
  readonly #past = new Map<string, string[]>();
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
  readonly #world: ObjectIndex;
  readonly #users: { readonly forced: ReadonlySet<string>; readonly evicted: ReadonlySet<string> };
  readonly #chaos: Chaos;

  constructor(world: ObjectIndex, users: { readonly forced: ReadonlySet<string>; readonly evicted: ReadonlySet<string> }, chaos: Chaos) {
    this.#world = world;
    this.#users = users;
    this.#chaos = chaos;
  }

  see(change: Change): void {
    this.changes++;
    this.#remember(change);
    const { forced, evicted } = this.#users;
    const lateLeader = this.#chaos.recent(/^(one|two|etcd) (goes on|is heard)|^kill -9 of (one|two|etcd)/, lateMs).length > 0;
    const scene = { world: this.#world, forced, evicted, lateLeader };
    for (const rule of this.#rules) for (const what of rule(change, scene)) this.#breach(what, change);
  }

  /** The latest changes of the objects that one object controls. */
  #remember({ revision, now, before }: Change): void {
    const thing = now ?? before;
    const owner = thing && controllerOf(thing);
    if (thing === undefined || owner === undefined) return;
    const { phase } = (thing.status ?? {}) as { readonly phase?: string };
    const { nodeName, replicas } = (thing.spec ?? {}) as { readonly nodeName?: string; readonly replicas?: number };
    const verb = now === undefined ? 'gone' : before === undefined ? 'made' : isLeaving(now) ? 'leaves' : 'changed';
    const past = this.#past.get(owner) ?? [];
    past.push(`${revision} ${clock()} ${verb} ${thing.metadata.name} ${phase ?? replicas ?? ''} ${nodeName ?? ''}`);
    if (past.length > remembered) past.shift();
    this.#past.set(owner, past);
  }

  #breach(what: string, { revision, now, before }: Change): void {
    const text = `${revision} ${clock()} ${what}`;
    (what.endsWith(late) ? this.excused : this.breaches).push(text);
    console.log(`! ${text}`);
    for (const line of this.#past.get(controllerOf(now ?? before ?? noThing) ?? '') ?? []) console.log(`    ${line}`);
  }
}
