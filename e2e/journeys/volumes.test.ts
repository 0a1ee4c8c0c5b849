import { isDeepStrictEqual } from 'node:util';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import { isReady, type PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { killPid, processesBelow, runProgram } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

const runtimes = { containerd: await componentMissing.containerd(), process: undefined };

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
            // keeps existing data; the first pod becomes the owner
            command: ['sh', '-c', 'd=/data; [ -e "$d/owner" ] || echo "$POD" > "$d/owner"; echo started >> "$d/starts"; exec sleep 3600'],
            env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
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

const snapshotOf = (claim: string) => ({
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshot',
  metadata: { name: 'taken' },
  spec: { source: { persistentVolumeClaimName: claim } },
});
interface Snapshot {
  readonly status?: { readonly readyToUse?: boolean; readonly restoreSize?: string };
}
const restored = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'restored', labels: { app: 'reader' } },
  spec: {
    accessModes: ['ReadWriteOncePod'],
    dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'taken' },
    resources: { requests: { storage: '16Mi' } },
  },
};
/** A pod with a restored claim, an inline volume, and a block device where the runtime supports devices. */
const reader = (image: string, runtime: 'containerd' | 'process') => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'reader', labels: { app: 'reader' } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image,
        command: ['sleep', '3600'],
        volumeMounts: [
          { name: 'data', mountPath: '/data' },
          { name: 'scratch', mountPath: '/scratch' },
        ],
        ...(runtime === 'containerd' && { volumeDevices: [{ name: 'disk', devicePath: '/dev/disk' }] }),
      },
    ],
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'restored' } },
      { name: 'scratch', csi: { driver: 'hostpath.csi.oarlock.dev' } },
      ...(runtime === 'containerd' ? [{ name: 'disk', ephemeral: { volumeClaimTemplate: blockTemplate } }] : []),
    ],
  },
});
/** A directory and a block device that are deleted with their pod. */
const victim = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: 'victim' } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image: busyboxImage,
        command: ['sleep', '3600'],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
        volumeDevices: [{ name: 'disk', devicePath: '/dev/disk' }],
      },
    ],
    volumes: [
      {
        name: 'data',
        ephemeral: { volumeClaimTemplate: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } } } },
      },
      { name: 'disk', ephemeral: { volumeClaimTemplate: blockTemplate } },
    ],
  },
});
const blockTemplate = {
  spec: { accessModes: ['ReadWriteOnce'], volumeMode: 'Block', resources: { requests: { storage: '8Mi' } } },
};

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly name: string };
    readonly volume?: readonly { readonly name: string; readonly capacityBytes: number }[];
  }[];
}
interface Claim {
  readonly status: { readonly phase: string; readonly capacity?: { readonly storage: string } };
}

describe.each([['containerd', 'bridge'] as const, ['process', 'host'] as const])('claims of a StatefulSet, on %s', (runtime, network) => {
  const reason = runtimes[runtime];
  describe.skipIf(reason !== undefined && !everythingIsNeeded)(`with csi-hostpath${reason === undefined ? '' : ` (${reason})`}`, () => {
    const machine = Machine.use();
    let cluster: Cluster;
    const startedOften = (pod: string, times: string) =>
      untilValue(
        `${pod} has started ${times} times`,
        async () => (await cluster.kubectl.try(['exec', pod, '--', 'sh', '-c', 'wc -l < /data/starts'])).stdout.trim(),
        (count) => count === times,
      );
    const image = runtime === 'containerd' ? busyboxImage : 'host';
    const inPod = async (pod: string, command: string) => (await cluster.kubectl.run(['exec', pod, '--', 'sh', '-c', command])).trim();
    const claim = (name: string) => cluster.api.get<Claim>(`/api/v1/namespaces/default/persistentvolumeclaims/${name}`);

    beforeAll(async () => {
      const containerd = runtime === 'containerd' ? await machine.containerd() : undefined;
      const spec = composition({ storage: 'memory', runtime, network, ...(containerd && { containerd }) });
      cluster = await machine.cluster({ spec: { ...spec, volumes: ['volume-csi'] } });
      await cluster.kubectl.apply([statefulSet(image)]);
      await cluster.api.untilReady('default', 'db', 2);
    });

    it('are bound, and mounted in the pod of each', async () => {
      expect((await claim('data-db-0')).status).toMatchObject({ phase: 'Bound', capacity: { storage: '16Mi' } });
      expect((await claim('data-db-1')).status).toMatchObject({ phase: 'Bound' });
      await startedOften('db-0', '1');
    });

    it('report their usage in the node summary and in its metrics', async () => {
      const { spec } = await cluster.api.get<{ spec: { nodeName: string } }>('/api/v1/namespaces/default/pods/db-1');
      const nodeProxy = (path: string) => cluster.kubectl.run(['get', '--raw', `/api/v1/nodes/${spec.nodeName}/proxy/${path}`]);
      // a measurement that takes long is returned to a later request
      const volume = await until('the summary has the claim', async () => {
        const summary = JSON.parse(await nodeProxy('stats/summary')) as Summary;
        return summary.pods.find(({ podRef }) => podRef.name === 'db-1')?.volume?.find(({ name }) => name === 'data');
      });
      expect(volume).toMatchObject({ pvcRef: { name: 'data-db-1', namespace: 'default' }, volumeHealthStats: { abnormal: false } });
      expect(volume.capacityBytes).toBeGreaterThan(0);
      const labels = '{namespace="default",persistentvolumeclaim="data-db-1"}';
      const metrics = await until('the metrics have the claim', async () => {
        const text = await nodeProxy('metrics');
        return text.includes(labels) && text;
      });
      const lines = metrics.split('\n').filter((line) => line.includes(labels));
      expect(lines).toContain(`kubelet_volume_stats_capacity_bytes${labels} ${volume.capacityBytes}`);
      expect(lines).toContain(`kubelet_volume_stats_health_status_abnormal${labels} 0`);
      expect(lines).toHaveLength(7);
    });

    it('keep their data when a pod is deleted', async () => {
      await cluster.kubectl.run(['delete', 'pod', 'db-0', '--wait=true']);
      await startedOften('db-0', '2');
    });

    it('are expanded while they are in use', async () => {
      await cluster.kubectl.run(['patch', 'pvc', 'data-db-0', '-p', '{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}']);
      await untilValue(
        'the volume has the new size',
        async () => (await claim('data-db-0')).status.capacity?.storage,
        (size) => size === '32Mi',
      );
    });

    it('are restored from snapshots of each other', async () => {
      const snapshots = '/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots';
      await cluster.kubectl.apply([snapshotOf('data-db-1')]);
      const snapshotStatus = await until('the snapshot is ready', async () => {
        const { status } = await cluster.api.get<Snapshot>(`${snapshots}/taken`);
        return status?.readyToUse === true && status;
      });
      expect(snapshotStatus.restoreSize).toBe('16Mi');
      await cluster.kubectl.apply([restored, reader(image, runtime)]);
      await cluster.api.untilReady('default', 'reader', 1);
      await untilValue(
        'the volume has the data of the snapshot',
        () => inPod('reader', 'cat /data/owner'),
        (text) => text === 'db-1',
      );
      if (runtime === 'containerd') {
        // a file system the size of the loop device, and a directory for this pod alone
        expect(await inPod('reader', 'blockdev --getsize64 /dev/disk')).toBe(String(8 * 2 ** 20));
        expect(await inPod('reader', 'echo hello | dd of=/dev/disk conv=notrunc 2>/dev/null && head -c 5 /dev/disk')).toBe('hello');
      }
      expect(await inPod('reader', 'touch /scratch/file && ls /scratch')).toBe('file');
      await cluster.kubectl.run(['delete', 'pod', 'reader', '--wait=true']);
      await cluster.kubectl.run(['delete', 'pvc', '-l', 'app=reader', '--wait=true']);
      await cluster.kubectl.run(['delete', 'volumesnapshot', 'taken', '--wait=true']);
      const contents = '/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents';
      await cluster.api.until('the content is deleted', contents, (items) => items.length === 0);
    });

    it.runIf(runtime === 'containerd')('survive kill -9 of their driver, and leave no resources on the machine', async () => {
      const driver = join(cluster.dataDir, 'plugins', 'volume-csi', 'driver-0');
      const killDriver = async () => {
        const pids = await until('the driver runs', async () => {
          const all = await processesBelow(driver);
          return all.length > 0 && all;
        });
        for (const pid of pids) killPid(pid, 'SIGKILL');
      };
      const listed = async (path: string) => (await cluster.api.get<{ items: readonly PodItem[] }>(path)).items;
      const volumes = '/api/v1/persistentvolumes';
      // resources of other tests may still be terminating
      const before = 2;
      await until('only the volumes of the set exist', async () => (await listed(volumes)).length === before);
      const left = async () => {
        const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter((line) => line.includes(`${cluster.dir}/`));
        const { stdout } = await runProgram('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE']);
        return [...mounts, ...stdout.split('\n').filter((line) => line.includes(driver))].sort();
      };
      const leftBefore = await left();
      await cluster.kubectl.apply(['one', 'two', 'three', 'four'].map(victim));
      // during creation and during mount
      await until('a volume exists', async () => (await listed(volumes)).length > before);
      await killDriver();
      await until('a pod is ready', async () => (await listed(cluster.api.pods('default', 'victim'))).some(isReady));
      await killDriver();
      await cluster.api.untilReady('default', 'victim', 4);
      await cluster.kubectl.run(['delete', 'pods', '-l', 'app=victim', '--wait=false']);
      await killDriver();
      await until('the pods are gone', async () => (await listed(cluster.api.pods('default', 'victim'))).length === 0);
      await until('the volumes are gone', async () => (await listed(volumes)).length === before);
      await untilValue('nothing else is left', left, (now) => isDeepStrictEqual(now, leftBefore));
      await untilValue(
        'the volumes in the driver',
        () => readdir(join(driver, 'data', 'content')),
        ({ length }) => length === before,
      );
    });

    it('are deleted, and their volumes with them', async () => {
      await cluster.kubectl.run(['delete', 'statefulset', 'db', '--cascade=foreground']);
      await cluster.kubectl.run(['delete', 'pvc', 'data-db-0', 'data-db-1']);
      await untilValue(
        'no volume is left',
        async () => (await cluster.api.get<{ items: readonly unknown[] }>('/api/v1/persistentvolumes')).items.length,
        (count) => count === 0,
      );
    });
  });
});
