// Claims on csi-hostpath with containerd: from a claim and its pod to a container that has it, one after the other and a hundred at once.
// Reference: the same pods without a claim.
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Item } from '../harness/api.ts';
import { composition } from '../harness/composition.ts';
import { median, print, quantile } from './support/statistics.ts';
import { BenchEnvironment } from './support/bench-environment.ts';

const single = 12;
const together = 100;

await BenchEnvironment.with(async (stage) => {
  const containerd = await stage.containerd();
  const spec = composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd });
  const { api } = await stage.cluster({ spec: { ...spec, volumes: ['volume-csi'] } });
  const claims = '/api/v1/namespaces/default/persistentvolumeclaims';
  const claim = (name: string) =>
    api.json('POST', claims, {
      body: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } },
      },
    });
  const pod = (name: string, app: string, claimed: boolean) =>
    api.json('POST', '/api/v1/namespaces/default/pods', {
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, labels: { app } },
        spec: {
          terminationGracePeriodSeconds: 0,
          containers: [
            {
              name: 'main',
              image: busyboxImage,
              command: ['sleep', '3600'],
              ...(claimed && { volumeMounts: [{ name: 'data', mountPath: '/data' }] }),
            },
          ],
          ...(claimed && { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }] }),
        },
      },
    });
  const clear = async () => {
    await api.call('DELETE', '/api/v1/namespaces/default/pods?gracePeriodSeconds=0');
    await api.until('no pods', api.pods('default'), (pods) => pods.length === 0);
    await api.call('DELETE', claims);
    await api.until('no volumes', '/api/v1/persistentvolumes', (volumes) => volumes.length === 0);
  };
  const one = async (name: string, claimed: boolean) => {
    const began = performance.now();
    if (claimed) await claim(name);
    await pod(name, name, claimed);
    await api.untilReady('default', name, 1);
    return performance.now() - began;
  };

  // the first claim starts the driver
  const first = await one('first', true);
  await clear();
  const [plain, claimed]: [number[], number[]] = [[], []];
  for (let round = 0; round < single; round++) {
    plain.push(await one(`plain-${round}`, false));
    claimed.push(await one(`claimed-${round}`, true));
    await clear();
  }
  const began = performance.now();
  await Promise.all(
    Array.from({ length: together }, async (_, at) => {
      await claim(`many-${at}`);
      await pod(`many-${at}`, 'many', true);
    }),
  );
  await api.until<Item & { readonly status?: { readonly phase?: string } }>(
    'all are bound',
    claims,
    (all) => all.length === together && all.every(({ status }) => status?.phase === 'Bound'),
    600_000,
  );
  const bound = performance.now() - began;
  await api.untilReady('default', 'many', together, 600_000);
  const ready = performance.now() - began;
  await clear();
  const without = performance.now();
  await Promise.all(Array.from({ length: together }, (_, at) => pod(`bare-${at}`, 'bare', false)));
  await api.untilReady('default', 'bare', together, 600_000);
  const bare = performance.now() - without;
  const reference = (value: number) => ({ reference: { what: 'without a claim', value } });
  print([
    { what: 'first claim and pod, with the start of the driver', value: first, unit: 'ms' },
    { what: 'claim and pod, create to Ready, median', value: median(claimed), unit: 'ms', ...reference(median(plain)) },
    { what: 'what the claim adds, median', value: median(claimed.map((each, at) => each - (plain[at] ?? 0))), unit: 'ms' },
    { what: 'claim and pod, create to Ready, worst', value: quantile(claimed, 1), unit: 'ms', ...reference(quantile(plain, 1)) },
    { what: `${together} claims at once, all bound`, value: bound, unit: 'ms' },
    { what: `${together} claims at once, all pods Ready`, value: ready, unit: 'ms', ...reference(bare) },
  ]);
});
