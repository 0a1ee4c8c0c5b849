import { existsSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { seed, seeded } from '../harness/random.ts';
import { until } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';

const onRequest = process.env['OARLOCK_HA_CLOCK'] === undefined ? 'on request: npm run ha -- --clock' : undefined;
const missing = onRequest ?? (existsSync('/usr/bin/faketime') ? undefined : 'the program faketime is not installed (Debian: faketime)');
const [hour, year] = [3600, 365 * 24 * 3600];

interface Review {
  readonly status: { readonly authenticated?: boolean };
}
interface Named {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly uid: string } }[];
}

async function faketimeLibrary(): Promise<string> {
  for (const directory of await readdir('/usr/lib')) {
    const file = join('/usr/lib', directory, 'faketime', 'libfaketime.so.1');
    if (existsSync(file)) return file;
  }
  throw new Error('libfaketime.so.1 is not below /usr/lib');
}

describe.skipIf(missing !== undefined)(`a clock that jumps${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  const machine = Machine.use();
  let cluster: Cluster;
  let offsetFile: string;
  /** Sets the clock of the server's process, in seconds from the real time. */
  const jump = (seconds: number) => writeFile(offsetFile, `${seconds < 0 ? '' : '+'}${seconds}\n`);
  const pods = async () =>
    (await cluster.api.get<Named>('/api/v1/namespaces/default/pods?labelSelector=app%3Dweb')).items
      .map(({ metadata }) => metadata.uid)
      .sort();
  const isAuthenticated = async (token: string) => {
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } };
    const review = await cluster.api.json<Review>('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { body });
    return review.status.authenticated === true;
  };
  const leader = () =>
    cluster.kubectl.run(['get', 'lease', '-n', 'kube-system', 'kube-controller-manager', '-o', 'jsonpath={.spec.holderIdentity}']);

  beforeAll(async () => {
    offsetFile = machine.path('offset');
    await jump(0);
    cluster = await machine.cluster({
      spec: {
        ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }),
        settings: { controllers: { leaderElect: true }, scheduler: { leaderElect: true }, kubelet: { port: 0 } },
      },
      env: {
        LD_PRELOAD: await faketimeLibrary(),
        FAKETIME_TIMESTAMP_FILE: offsetFile,
        FAKETIME_NO_CACHE: '1',
        DONT_FAKE_MONOTONIC: '1',
      },
    });
    await cluster.kubectl.run(['create', 'namespace', 'ha']);
    await cluster.kubectl.run(['create', 'deployment', 'web', '--image=any', '--replicas=3']);
    await cluster.api.untilReady('default', 'web', 3);
  });

  it(`ends no leases and loses no writes; tokens and certificates follow it (seed ${seed})`, { timeout: 3_600_000 }, async () => {
    const recorder = new HistoryRecorder([cluster.kubeconfig, cluster.kubeconfig], { namespace: 'ha', random: seeded(seed) });
    await recorder.start(3);
    await recorder.untilWritten('before the jumps');
    const [before, holder] = [await pods(), await leader()];
    const token = (await cluster.kubectl.run(['create', 'token', 'default', '--duration=10m'])).trim();
    expect(await isAuthenticated(token)).toBe(true);
    await cluster.kubectl.run(['create', 'cronjob', 'tick', '--image=any', '--schedule=* * * * *', '--', 'true']);

    await jump(hour);
    await recorder.untilWritten('an hour later');
    expect(await isAuthenticated(token)).toBe(false);
    await until('the CronJob starts a Job at the new time', async () => {
      const { items } = await cluster.api.get<Named>('/apis/batch/v1/namespaces/default/jobs');
      return items.length > 0;
    });
    await jump(0);
    await recorder.untilWritten('an hour earlier');
    expect(await isAuthenticated(token)).toBe(true);

    // all certificates have expired: clients are rejected, and nothing in the process ends
    await jump(2 * year);
    await until('the client certificate is rejected', async () => (await cluster.kubectl.try(['get', 'pods'])).code !== 0);
    await jump(0);
    await recorder.untilWritten('after the certificates');
    await cluster.kubectl.run(['wait', 'node', '--all', '--for=condition=Ready', '--timeout=300s']);
    expect([await pods(), await leader()]).toEqual([before, holder]);
    const { lost, violations, ...counts } = checkHistory(await recorder.finish());
    console.log(JSON.stringify({ ...counts, relists: recorder.relists, lost: lost.length, violations: violations.length }));
    expect(lost).toEqual([]);
    expect(violations.slice(0, 20)).toEqual([]);
  });
});
