import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { seed, seeded } from '../harness/random.ts';
import { checkHistory } from './checker/check-history.ts';
import { faultsOf } from './support/faults.ts';
import { watchEtcd } from './support/etcd-watch.ts';
import { HistoryRecorder, writesBetween } from './support/history-recorder.ts';
import { startThreeServers, type ThreeServers } from './support/three-servers.ts';

const missing = componentMissing.etcd();
/** Number of faults, or the time in which they are injected. If both are absent, each fault is injected once. */
const { OARLOCK_HA_ROUNDS: maxFaults, OARLOCK_HA_SECONDS: seconds } = process.env;
const writers = 6;

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `three servers on three etcd members${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let three: ThreeServers;
    beforeAll(async () => {
      three = await startThreeServers(machine);
      await three.servers[0]?.kubectl.run(['create', 'namespace', 'ha']);
    });

    it(`lose no write and keep the guarantees of reads and watches under faults (seed ${seed})`, { timeout: 24 * 3_600_000 }, async () => {
      const random = seeded(seed);
      const recorder = new HistoryRecorder(
        three.servers.map(({ kubeconfig }) => kubeconfig),
        { namespace: 'ha', random: seeded(seed + 1) },
      );
      const faults = faultsOf(three, random);
      const injected = new Map<string, number>();
      const etcdWatch = await watchEtcd(three.etcd, 'ha');
      machine.undo('watch of etcd', () => etcdWatch.stop());
      await recorder.start(writers);
      const startedAt = performance.now();
      let round = 0;
      const isOver = () =>
        maxFaults === undefined && seconds !== undefined
          ? performance.now() - startedAt > Number(seconds) * 1000
          : round >= Number(maxFaults ?? faults.length);
      while (!isOver()) {
        // every fault once, in the order of the list, then at random
        const fault = faults[round < faults.length ? round : Math.floor(random() * faults.length)];
        if (fault === undefined) throw new Error('no fault');
        await fault.inject();
        injected.set(fault.name, (injected.get(fault.name) ?? 0) + 1);
        round += 1;
        await recorder.untilWritten(`after ${fault.name}`);
      }
      const { lost, violations, ...counts } = checkHistory(await recorder.finish(etcdWatch));
      console.log(
        JSON.stringify({
          rounds: round,
          faults: Object.fromEntries(injected),
          ...counts,
          relists: recorder.relists,
          lost: lost.length,
          violations: violations.length,
        }),
      );
      expect(lost).toEqual([]);
      expect(violations.slice(0, 20)).toEqual([]);
      expect(counts.acknowledgedWrites).toBeGreaterThan(round * writesBetween);
    });
  },
);
