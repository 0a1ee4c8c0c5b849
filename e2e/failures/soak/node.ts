// One node on containerd with routed pods, policies and claims, under random use and random faults: detects leaks and needless restarts.
// `npm run soak -- node [seed] [minutes]`
import { setTimeout as delay } from 'node:timers/promises';
import { BenchEnvironment } from '../../bench/support/bench-environment.ts';
import type { PodItem } from '../../harness/api.ts';
import { mustRun } from '../../harness/programs.ts';
import { seeded } from '../../harness/random.ts';
import { until } from '../../harness/until.ts';
import { census, differences } from './node-parts/node-resources.ts';
import { NodeChaos } from './node-parts/node-chaos.ts';
import { startNodeEnvironment, type NodeEnvironment } from './node-parts/node-environment.ts';
import { NodeUser } from './node-parts/node-user.ts';
import { steadyPod } from './node-parts/pods.ts';

const [seed = 36, minutes = 5] = process.argv.slice(2).map(Number);
const home = '/api/v1/namespaces/default';
const goneMs = 240_000;

await BenchEnvironment.with(async (stage) => {
  console.log(`seed ${seed}: ${minutes} minutes`);
  const rig = await startNodeEnvironment(stage);
  try {
    await soak(rig);
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  } finally {
    await rig.close();
  }
});

async function soak(rig: NodeEnvironment): Promise<void> {
  const user = new NodeUser(rig.plane.kubeconfig, seeded(seed + 1));
  const make = (path: string, body: object) =>
    until(path, async () => [201, 409].includes((await user.ask('POST', path, body))?.status ?? 0), { everyMs: 200 });
  const all = async (wanted: (pods: readonly PodItem[]) => boolean, what: string, timeoutMs = 180_000) =>
    until(
      what,
      async () => {
        const pods = await user.podItems();
        return pods !== undefined && wanted(pods) && pods;
      },
      { everyMs: 300, timeoutMs },
    );
  const ready = ({ status }: PodItem) => status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
  await until('the service account', async () => (await user.ask('GET', `${home}/serviceaccounts/default`))?.status === 200);
  await make(`${home}/configmaps`, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings' }, data: { one: '1', two: '2' } });
  await make(`${home}/secrets`, { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'secrets' }, stringData: { word: 'x' } });
  const probe = { httpGet: { port: 8080, path: '/' }, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 30 };
  const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } };
  await make(`${home}/persistentvolumeclaims`, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'steady', labels: { app: 'steady' } },
    spec: claim,
  });
  await make(`${home}/pods`, steadyPod('steady-plain'));
  await make(`${home}/pods`, steadyPod('steady-probed', {}, { readinessProbe: probe, livenessProbe: probe, startupProbe: probe }));
  await make(
    `${home}/pods`,
    steadyPod(
      'steady-claim',
      { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'steady' } }] },
      { volumeMounts: [{ name: 'data', mountPath: '/data' }] },
    ),
  );
  const steadyOf = (pods: readonly PodItem[]) => pods.filter(({ metadata }) => metadata.labels?.['app'] === 'steady');
  await all((pods) => steadyOf(pods).filter(ready).length === 3, 'three steady pods');

  const empty = async () => {
    await user.removeAll();
    await all((pods) => pods.length === 3, 'only the steady pods are left', goneMs);
    for (const [path, count] of [
      [`${home}/persistentvolumeclaims`, 1],
      ['/api/v1/persistentvolumes', 1],
    ] as const)
      await until(`${count} at ${path}`, async () => (await user.list(path))?.length === count, { everyMs: 300, timeoutMs: goneMs });
  };
  // tables, directories and other resources that are created once
  const warm = new NodeUser(rig.plane.kubeconfig, seeded(7));
  const [warming, used, calm] = [new AbortController(), new AbortController(), new AbortController()];
  const warmed = warm.run(400, warming.signal);
  await delay(30_000);
  warming.abort();
  await warmed;
  warm.close();
  await empty();
  await delay(5_000);
  const sandboxes = new Set(
    (await mustRun('/usr/bin/ctr', ['--address', rig.containerd.socket, '--namespace', 'k8s.io', 'containers', 'ls', '-q']))
      .trim()
      .split('\n'),
  );
  const identity = (pods: readonly PodItem[]) =>
    steadyOf(pods)
      .map(({ metadata, status }) => ({
        name: metadata.name,
        uid: metadata.uid,
        ip: status.podIP,
        containers: status.containerStatuses?.map(({ containerID, restartCount }) => [containerID, restartCount]),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  const steadyBefore = JSON.stringify(identity(await all(() => true, 'pods')));
  const before = await census(rig.places);
  console.log(
    `before: ${Object.entries(before)
      .map(([kind, lines]) => `${lines.length} ${kind}`)
      .join(', ')}`,
  );

  const faults: string[] = [];
  const chaos = new NodeChaos(rig, seeded(seed), sandboxes);
  const using = user.run(500, used.signal);
  const troubling = chaos.run(calm.signal);
  await delay(minutes * 60_000);
  console.log('every component is restored');
  calm.abort();
  await troubling;
  await delay(5_000);
  used.abort();
  await using;
  console.log(`${user.done} requests done, ${chaos.deeds} deeds`);
  try {
    await empty();
  } catch (error) {
    faults.push(`not gone: ${String(error).slice(0, 300)}`);
    const names = (items: readonly { readonly metadata: { readonly name: string } }[] | undefined) =>
      items?.map(({ metadata }) => metadata.name).join();
    for (const path of [`${home}/pods`, `${home}/persistentvolumeclaims`, '/api/v1/persistentvolumes'])
      faults.push(`at ${path}: ${names(await user.list(path))}`);
  }
  const steadyAfter = JSON.stringify(identity(await all((pods) => steadyOf(pods).filter(ready).length === 3, 'three steady pods again')));
  if (steadyAfter !== steadyBefore) faults.push(`restarted without need: ${steadyBefore} became ${steadyAfter}`);
  let left: readonly string[] = [];
  await until('no resource is left', async () => (left = differences(before, await census(rig.places))).length === 0, {
    everyMs: 2_000,
    timeoutMs: 150_000,
  }).catch(() => undefined);
  faults.push(...left, ...user.odd.map((what) => `odd answer: ${what}`));
  user.close();
  console.log(faults.length === 0 ? `seed ${seed}: no fault` : `seed ${seed}: ${faults.length} faults\n${faults.join('\n')}`);
  if (faults.length > 0) {
    process.exitCode = 1;
    if (process.env['OARLOCK_SOAK_HOLD']) await delay(Number(process.env['OARLOCK_SOAK_HOLD']) * 1000);
  }
}
