import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { missing } from '../harness/machine-parts.ts';
import { untilValue } from '../harness/until.ts';

const runtimes = { containerd: await missing.containerd(), process: undefined };

const statefulSet = (image: string) => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'db' },
  spec: {
    serviceName: 'db',
    replicas: 2,
    selector: { matchLabels: { app: 'db' } },
    template: {
      metadata: { labels: { app: 'db' } },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            name: 'main',
            image,
            // what is there stays; who comes first writes. Processes of the host have their volumes below a root of their own
            command: [
              'sh',
              '-c',
              'd="$OARLOCK_ROOT/data"; [ -e "$d/owner" ] || hostname > "$d/owner"; echo started >> "$d/starts"; exec sleep 3600',
            ],
            volumeMounts: [{ name: 'data', mountPath: '/data' }],
          },
        ],
      },
    },
    volumeClaimTemplates: [
      { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } } },
    ],
  },
});

interface Claim {
  readonly status: { readonly phase: string; readonly capacity?: { readonly storage: string } };
}

describe.each([['containerd', 'bridge'] as const, ['process', 'host'] as const])('claims of a StatefulSet, on %s', (runtime, network) => {
  const reason = runtimes[runtime];
  // steps of one journey: what fails is tried again from the beginning, not from its middle
  describe.skipIf(reason !== undefined && !everythingIsNeeded)(
    `with csi-hostpath${reason === undefined ? '' : ` (${reason})`}`,
    { retry: 0 },
    () => {
      const machine = Machine.use();
      let cluster: Cluster;
      const startedOften = (pod: string, times: string) =>
        untilValue(
          `${pod} has started ${times} times`,
          async () => (await cluster.kubectl.try(['exec', pod, '--', 'sh', '-c', 'wc -l < "$OARLOCK_ROOT/data/starts"'])).stdout.trim(),
          (count) => count === times,
        );
      const claim = (name: string) => cluster.api.get<Claim>(`/api/v1/namespaces/default/persistentvolumeclaims/${name}`);

      beforeAll(async () => {
        const containerd = runtime === 'containerd' ? await machine.containerd() : undefined;
        const spec = composition({ storage: 'memory', runtime, network, ...(containerd && { containerd }) });
        cluster = await machine.cluster({ spec: { ...spec, volumes: ['volume-csi'] } });
        await cluster.kubectl.apply([statefulSet(runtime === 'containerd' ? busyboxImage : 'host')]);
        await cluster.api.untilReady('default', 'db', 2);
      });

      it('are bound, and mounted in the pod of each', async () => {
        expect((await claim('data-db-0')).status).toMatchObject({ phase: 'Bound', capacity: { storage: '16Mi' } });
        expect((await claim('data-db-1')).status).toMatchObject({ phase: 'Bound' });
        await startedOften('db-0', '1');
      });

      it('keep their data when a pod is deleted', async () => {
        await cluster.kubectl.run(['delete', 'pod', 'db-0', '--wait=true']);
        await startedOften('db-0', '2');
      });

      it('grow while they are in use', async () => {
        await cluster.kubectl.run(['patch', 'pvc', 'data-db-0', '-p', '{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}']);
        await untilValue(
          'it has grown',
          async () => (await claim('data-db-0')).status.capacity?.storage,
          (size) => size === '32Mi',
        );
      });

      it('go when they are deleted, and their volumes with them', async () => {
        await cluster.kubectl.run(['delete', 'statefulset', 'db', '--cascade=foreground']);
        await cluster.kubectl.run(['delete', 'pvc', 'data-db-0', 'data-db-1']);
        await untilValue(
          'no volume is left',
          async () => (await cluster.api.get<{ items: readonly unknown[] }>('/api/v1/persistentvolumes')).items.length,
          (count) => count === 0,
        );
      });
    },
  );
});
