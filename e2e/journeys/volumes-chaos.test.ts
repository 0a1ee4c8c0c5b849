import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { isReady, type PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { until, untilValue } from '../harness/until.ts';

const reason = everythingIsNeeded || process.getuid?.() === 0 ? undefined : 'mounts need root';
const snapshotGroup = 'snapshot.storage.k8s.io';
const size = (storage: string) => ({ resources: { requests: { storage } } });
const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'kept' },
  spec: { accessModes: ['ReadWriteOnce'], ...size('8Mi') },
};
const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'keeper', labels: { app: 'keeper' } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image: 'host',
        command: ['sh', '-c', 'echo here >> /data/said; exec sleep 3600'],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'kept' } }],
  },
};
const snapshotClass = {
  apiVersion: `${snapshotGroup}/v1`,
  kind: 'VolumeSnapshotClass',
  metadata: { name: 'standard', annotations: { 'snapshot.storage.kubernetes.io/is-default-class': 'true' } },
  driver: 'hostpath.csi.oarlock.dev',
  deletionPolicy: 'Delete',
};
const snapshot = {
  apiVersion: `${snapshotGroup}/v1`,
  kind: 'VolumeSnapshot',
  metadata: { name: 'taken' },
  spec: { source: { persistentVolumeClaimName: 'kept' } },
};
interface Claim {
  readonly status: { readonly capacity?: { readonly storage?: string } };
}
interface List {
  readonly items: readonly unknown[];
}

describe.skipIf(reason !== undefined)(
  `kill -9 of the control plane during CSI calls${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let faults: string;
    let empty: Awaited<ReturnType<typeof census>>;

    /** Resources that could leak or be lost. */
    const census = async () => {
      const count = async (path: string) => (await cluster.api.get<List>(path)).items.length;
      const driver = join(cluster.dataDir, 'plugins', 'volume-csi', 'driver-0', 'data');
      const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter((line) => line.includes(`${cluster.dir}/`));
      const folders = await readdir(driver).catch(() => []);
      const files = await Promise.all(folders.map(async (name) => (await readdir(join(driver, name)).catch(() => [])).length));
      return {
        mounts: mounts.filter((line) => line.includes('/volumes/') || line.includes('/staging/') || line.includes('driver-0')).length,
        files: files.reduce((sum, each) => sum + each, 0),
        volumes: await count('/api/v1/persistentvolumes'),
        attachments: await count('/apis/storage.k8s.io/v1/volumeattachments'),
        contents: await count(`/apis/${snapshotGroup}/v1/volumesnapshotcontents`),
      };
    };
    /** Kills the control plane during each of the methods that `act` causes, one after another, and restarts it each time. */
    const through = async (when: 'before' | 'after', methods: readonly string[], act: () => Promise<unknown>) => {
      await writeFile(faults, JSON.stringify(Object.fromEntries(methods.map((method) => [method, { kill: when, of: 'caller' }]))));
      await act();
      for (let died = 0; died < methods.length; died++) {
        const left = async () => Object.keys(JSON.parse(await readFile(faults, 'utf8')) as object).join();
        await until(`the control plane dies ${when} one of ${await left()}`, () => !cluster.running, { everyMs: 20 });
        await cluster.up();
      }
      expect(JSON.parse(await readFile(faults, 'utf8'))).toEqual({});
    };
    const gone = (path: string) => cluster.api.until(`nothing at ${path}`, path, (items) => items.length === 0);
    const dataOf = () => cluster.kubectl.run(['exec', 'keeper', '--', 'sh', '-c', 'cat /data/said']);

    beforeAll(async () => {
      const spec = composition({ storage: 'embedded', runtime: 'process', network: 'host' });
      faults = machine.path('faults.json');
      await writeFile(faults, '{}');
      const driver = {
        run: [process.execPath, join(root, 'plugins/csi-hostpath/dist/main.js'), '--attach', '--node-expansion', '--faults', faults],
        csiDriver: { attachRequired: true },
        storageClass: { name: 'standard' },
      };
      // definitions of snapshots are installed when a driver whose name is not Oarlock's may register
      const config = { drivers: [driver], kubeletDir: machine.path('k'), provisionFor: ['another.example'] };
      cluster = await machine.cluster({ spec: { ...spec, volumes: [{ use: 'volume-csi', config }] } });
      await until('snapshots are defined', async () => (await cluster.kubectl.apply(snapshotClass), true));
      await cluster.api.until('the driver is registered', '/apis/storage.k8s.io/v1/csidrivers', (items) => items.length === 1);
      empty = await census();
    });

    for (const when of ['before', 'after'] as const) {
      describe(`killed ${when} the call completes`, () => {
        it('a volume is created, attached, staged and published', async () => {
          await through(when, ['CreateVolume', 'ControllerPublishVolume', 'NodeStageVolume', 'NodePublishVolume'], () =>
            cluster.kubectl.apply([claim, pod]),
          );
          await cluster.api.until<PodItem>(
            'the pod is ready',
            cluster.api.pods('default', 'keeper'),
            (pods) => pods.length === 1 && pods.every(isReady),
          );
          expect(await dataOf()).toBe('here\n');
          expect(await census()).toMatchObject({ volumes: 1, attachments: 1, contents: 0 });
        });

        it('a snapshot is taken and deleted', async () => {
          await through(when, ['CreateSnapshot'], () => cluster.kubectl.apply(snapshot));
          const path = `/apis/${snapshotGroup}/v1/namespaces/default/volumesnapshots`;
          await until('the snapshot is ready', async () => {
            const { status } = await cluster.api.get<{ status?: { readyToUse?: boolean } }>(`${path}/taken`);
            return status?.readyToUse;
          });
          expect((await census()).contents).toBe(1);
          await through(when, ['DeleteSnapshot'], () => cluster.kubectl.run(['delete', 'volumesnapshot', 'taken', '--wait=false']));
          await gone(`/apis/${snapshotGroup}/v1/volumesnapshotcontents`);
        });

        it('a volume is expanded in the driver and on the node', async () => {
          const patch = JSON.stringify({ spec: size('16Mi') });
          await through(when, ['ControllerExpandVolume', 'NodeExpandVolume'], () =>
            cluster.kubectl.run(['patch', 'pvc', 'kept', '-p', patch]),
          );
          await untilValue(
            'its size',
            async () => (await cluster.api.get<Claim>('/api/v1/namespaces/default/persistentvolumeclaims/kept')).status.capacity?.storage,
            (capacity) => capacity === '16Mi',
          );
        });

        it('a volume is unpublished, unstaged, detached and deleted without leftovers', async () => {
          await through(when, ['NodeUnpublishVolume', 'NodeUnstageVolume', 'ControllerUnpublishVolume', 'DeleteVolume'], async () => {
            await cluster.kubectl.run(['delete', 'pod/keeper', 'pvc/kept', '--wait=false']);
          });
          await gone('/api/v1/persistentvolumes');
          await gone('/apis/storage.k8s.io/v1/volumeattachments');
          await untilValue('nothing is left', census, (now) => JSON.stringify(now) === JSON.stringify(empty));
        });
      });
    }
  },
);
