// Two control planes over one etcd and simulated nodes, under random use and random faults; every change of the store is checked against the rules.
// `npm run soak -- control-plane [seed] [minutes] [processes with nodes] [nodes of each]`
import { setTimeout as delay } from 'node:timers/promises';
import { BenchEnvironment } from '../../bench/support/bench-environment.ts';
import { cpuSeconds, residentMiB } from '../../bench/support/bench-environment.ts';
import { Api } from '../../harness/api.ts';
import { seeded } from '../../harness/random.ts';
import { Follower as Continuity, Writer } from '../support/writer.ts';
import { Chaos } from './chaos.ts';
import { WatchVerifier } from './watch-verifier.ts';
import { History, type Change } from './model/history.ts';
import { prepare, rest } from './phases.ts';
import { Provisioner } from './provisioner.ts';
import { prefix, Rig } from './control-plane-environment.ts';
import { convergenceFailures } from './rules/convergence.ts';
import { nameOf } from './model/stored-object.ts';
import { User } from './user.ts';
import { RuleChecker } from './rules/rule-checker.ts';
import { ObjectIndex } from './model/object-index.ts';

const [seed = 36, minutes = 5, groups = 4, each = 25] = process.argv.slice(2).map(Number);
const settleMs = 300_000;
/** Kinds that are written at rest, too: nodes report their status every five minutes. */
const quietly: ReadonlySet<string> = new Set(['Lease', 'Event', 'Node']);

await BenchEnvironment.with(async (stage) => {
  console.log(`seed ${seed}: ${minutes} minutes, ${groups * each} nodes`);
  const random = seeded(seed);
  const rig = await Rig.build(stage, groups, each);
  const ways = { pods: await rig.way('pods'), claims: await rig.way('claims'), writes: await rig.way('writes') };
  const world = new ObjectIndex();
  const user = new User(rig.kubeconfig, world, seeded(seed + 1), groups);
  const provisioner = new Provisioner(user);
  const chaos = new Chaos(rig, random, [rig.gate, ...Object.values(ways).map(({ gate }) => gate)]);
  const watcher = new RuleChecker(world, user, chaos);
  const followers = [
    new WatchVerifier(ways.pods.kubeconfig, '/api/v1/pods', 'Pod'),
    new WatchVerifier(ways.claims.kubeconfig, '/apis/batch/v1/jobs', 'Job'),
  ];
  const changes: Change[] = [];
  const history = new History(rig.etcd.endpoint, prefix, (change) => {
    world.put(change);
    watcher.see(change);
    provisioner.see(change);
    changes.push(change);
    if (changes.length > 20_000) changes.splice(0, 10_000);
    const thing = change.now ?? change.before;
    const type = change.now === undefined ? 'DELETED' : change.before ? 'MODIFIED' : 'ADDED';
    for (const one of followers)
      if (thing?.kind === one.kind) one.stored(change.revision, type, `${thing.metadata.namespace ?? ''}/${thing.metadata.name}`);
  });
  const [over, used, calm] = [new AbortController(), new AbortController(), new AbortController()];
  const following = Promise.all([
    history.follow(over.signal),
    provisioner.run(over.signal),
    ...followers.map((one) => one.run(over.signal)),
  ]);
  const faults: string[] = [];
  try {
    await prepare(user, world, groups * each);
    const writer = new Writer(ways.writes.kubeconfig, 'writes');
    const continuity = new Continuity(ways.writes.kubeconfig, 'writes');
    continuity.start();
    writer.start(1, seeded(seed + 2));
    const using = user.run(5, 200, used.signal);
    const troubling = chaos.run(calm.signal);
    await delay(minutes * 60_000);
    console.log('every component is restored');
    calm.abort();
    await troubling;
    await delay(5_000);
    used.abort();
    await using;
    await writer.stop();
    console.log(
      `${user.done} requests done, ${writer.acknowledged} writes acknowledged, ${watcher.changes} changes, ${chaos.deeds.length} deeds`,
    );
    await rest(user, world);
    const converged = await world.until(() => convergenceFailures(world)[Symbol.iterator]().next().done === true, settleMs);
    if (!converged) faults.push(...[...convergenceFailures(world)].map((what) => `not settled: ${what}`));
    const api = await Api.of(rig.kubeconfig);
    faults.push(...(await writer.losses(api)).map((what) => `lost: ${what}`));
    await continuity.stop();
    faults.push(...continuity.faults.map((what) => `watch: ${what}`));
    api.close();

    await delay(20_000);
    const from = changes.length;
    const before = await Promise.all(rig.planes.map(({ cluster }) => cpuSeconds(cluster.pid)));
    await delay(60_000);
    const after = await Promise.all(rig.planes.map(({ cluster }) => cpuSeconds(cluster.pid)));
    const noise = new Map<string, number>();
    for (const { now, before: was } of changes.slice(from)) {
      const thing = now ?? was;
      if (!thing || quietly.has(thing.kind)) continue;
      const name = nameOf(thing);
      noise.set(name, (noise.get(name) ?? 0) + 1);
    }
    for (const [name, count] of noise) faults.push(`at rest: ${name} was written ${count} times in a minute`);
    const sizes = await Promise.all(rig.planes.map(({ cluster }) => residentMiB(cluster.pid)));
    console.log(
      `at rest, a minute: ${before.map((value, at) => ((after[at] ?? 0) - value).toFixed(1)).join(' and ')} s of processor time, ${sizes.map(Math.round).join(' and ')} MiB`,
    );
  } finally {
    calm.abort();
    used.abort();
    over.abort();
    await following;
    await rig.close();
    user.close();
  }
  for (const one of followers) {
    console.log(`watch of ${one.kind}: ${one.compared} events compared, ${one.relists} lists`);
    faults.push(...one.faults.slice(0, 10).map((what) => `watch: ${what}`));
  }
  for (const [rejection, count] of user.rejections) console.log(`  ${count} times ${rejection}`);
  console.log(`${watcher.excused.length} excused violations`);
  faults.push(...user.odd.slice(0, 20).map((what) => `odd answer: ${what}`), ...watcher.breaches.map((what) => `breach: ${what}`));
  console.log(faults.length === 0 ? `seed ${seed}: no fault` : `seed ${seed}: ${faults.length} faults\n${faults.join('\n')}`);
  if (faults.length > 0) {
    process.exitCode = 1;
    if (process.env['OARLOCK_SOAK_HOLD']) await delay(600_000);
  }
});
