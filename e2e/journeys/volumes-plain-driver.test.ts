import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlainDriver, plainDriverName } from '../../plugins/volume-csi/test/support/plain-driver.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';

const claim = (name: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } }, ...more },
});
const pod = (name: string, claimName: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'host', command: ['sleep', '3600'], volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
  },
});
const snapshotClass = {
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshotClass',
  metadata: { name: 'plain', annotations: { 'snapshot.storage.kubernetes.io/is-default-class': 'true' } },
  driver: plainDriverName,
  deletionPolicy: 'Delete',
};
const snapshot = {
  apiVersion: 'snapshot.storage.k8s.io/v1',
  kind: 'VolumeSnapshot',
  metadata: { name: 'taken' },
  spec: { source: { persistentVolumeClaimName: 'data' } },
};
const groupVersion = 'groupsnapshot.storage.k8s.io/v1';
const group = [
  {
    apiVersion: groupVersion,
    kind: 'VolumeGroupSnapshotClass',
    metadata: { name: 'plain', annotations: { 'groupsnapshot.storage.kubernetes.io/is-default-class': 'true' } },
    driver: plainDriverName,
    deletionPolicy: 'Delete',
  },
  {
    apiVersion: groupVersion,
    kind: 'VolumeGroupSnapshot',
    metadata: { name: 'both' },
    spec: { source: { selector: { matchLabels: { group: 'both' } } } },
  },
];
const fromSnapshot = { dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'taken' } };

describe.skipIf(process.getuid?.() !== 0)('a CSI driver without attachment and staging, whose snapshots become ready later', () => {
  const machine = Machine.use();
  let directory: string;
  let driver: PlainDriver;
  let server: { close(): Promise<void> };
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'plain-'));
    driver = new PlainDriver({ callsUntilReady: 2, maxVolumesPerNode: 2, groups: true });
    server = await driver.serve(join(directory, 'csi.sock'), join(directory, 'driver'));
  });
  afterEach(async () => {
    await server.close();
    await rm(directory, { recursive: true, force: true });
  });

  const start = (provision: boolean): Promise<Cluster> =>
    machine.cluster({
      spec: {
        ...composition({ storage: 'memory', runtime: 'process', network: 'host' }),
        volumes: [
          {
            use: 'volume-csi',
            config: {
              drivers: [
                { socket: join(directory, 'csi.sock'), provision, csiDriver: { attachRequired: false }, storageClass: { name: 'plain' } },
              ],
            },
          },
        ],
      },
    });
  const crdsServed = ({ kubectl }: Cluster) =>
    kubectl
      .run(['wait', '--for=create', 'crd/volumesnapshots.snapshot.storage.k8s.io', '--timeout=180s'])
      .then(() =>
        kubectl.run([
          'wait',
          '--for=condition=Established',
          'crd/volumesnapshots.snapshot.storage.k8s.io',
          'crd/volumesnapshotclasses.snapshot.storage.k8s.io',
          'crd/volumesnapshotcontents.snapshot.storage.k8s.io',
          '--timeout=180s',
        ]),
      );
  const isReady = ({ kubectl }: Cluster) =>
    kubectl.run(['wait', '--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/taken', '--timeout=180s']);

  it('keeps data, is limited, and is restored from a snapshot and grouped', async () => {
    const cluster = await start(true);
    const { kubectl } = cluster;
    await crdsServed(cluster);
    await kubectl.apply([claim('data'), pod('writer', 'data'), snapshotClass]);
    await kubectl.run(['wait', '--for=condition=Ready', 'pod/writer', '--timeout=180s']);
    await kubectl.run(['exec', 'writer', '--', 'sh', '-c', 'echo before > /data/file']);
    await kubectl.apply([snapshot]);
    await isReady(cluster);
    expect(driver.snapshotIds).toHaveLength(1);
    await kubectl.run(['exec', 'writer', '--', 'sh', '-c', 'echo after > /data/file']);
    await kubectl.apply([claim('copy', fromSnapshot), pod('reader', 'copy')]);
    await kubectl.run(['wait', '--for=condition=Ready', 'pod/reader', '--timeout=180s']);
    expect(await kubectl.run(['exec', 'reader', '--', 'cat', '/data/file'])).toBe('before\n');
    // the driver allows two volumes on a node
    await kubectl.apply([claim('third'), pod('third', 'third')]);
    const condition = '{.status.conditions[?(@.type=="PodScheduled")].reason}';
    await kubectl.run(['wait', `--for=jsonpath=${condition}=Unschedulable`, 'pod/third', '--timeout=180s']);
    await kubectl.run(['delete', 'pod/reader', 'pvc/copy', '--timeout=180s']);
    await kubectl.run(['wait', '--for=condition=Ready', 'pod/third', '--timeout=180s']);
    await kubectl.run(['delete', 'volumesnapshot/taken', '--timeout=180s']);
    await until('the driver has deleted it', () => driver.snapshotIds.length === 0);
    await kubectl.run(['label', 'pvc', 'data', 'third', 'group=both']);
    await kubectl.run(['wait', '--for=condition=Established', 'crd/volumegroupsnapshots.groupsnapshot.storage.k8s.io', '--timeout=180s']);
    await kubectl.apply(group);
    await kubectl.run(['wait', '--for=jsonpath={.status.readyToUse}=true', 'volumegroupsnapshot/both', '--timeout=180s']);
    await kubectl.run(['wait', '--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot', '--all', '--timeout=180s']);
    expect(driver.snapshotIds).toHaveLength(2);
    await kubectl.run(['delete', 'volumegroupsnapshot/both', '--timeout=180s']);
    await until('the driver has deleted the group', () => driver.snapshotIds.length === 0);
    expect(driver.calls.filter((call) => /Stage|ControllerPublish|Expand/.test(call))).toEqual([]);
    await cluster.stop();
  });

  it('has its snapshots bound by the cluster if its external-snapshotter takes them', async () => {
    const cluster = await start(false);
    const { kubectl } = cluster;
    await crdsServed(cluster);
    await kubectl.apply([
      snapshotClass,
      {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: 'made' },
        spec: {
          capacity: { storage: '16Mi' },
          accessModes: ['ReadWriteOnce'],
          storageClassName: '',
          csi: { driver: plainDriverName, volumeHandle: 'made' },
        },
      },
      claim('data', { storageClassName: '', volumeName: 'made' }),
    ]);
    await kubectl.run(['wait', '--for=jsonpath={.status.phase}=Bound', 'pvc/data', '--timeout=180s']);
    await kubectl.apply([snapshot]);
    const name = '{.status.boundVolumeSnapshotContentName}';
    await kubectl.run(['wait', `--for=jsonpath=${name}`, 'volumesnapshot/taken', '--timeout=180s']);
    const content = await kubectl.run(['get', 'volumesnapshot', 'taken', '-o', `jsonpath=${name}`]);
    // what external-snapshotter reports
    const status = {
      status: { snapshotHandle: 'external', readyToUse: true, restoreSize: 16 * 2 ** 20, creationTime: 1_700_000_000_000_000_000 },
    };
    await kubectl.run(['patch', 'volumesnapshotcontent', content, '--subresource=status', '--type=merge', '-p', JSON.stringify(status)]);
    await isReady(cluster);
    expect(await kubectl.run(['get', 'volumesnapshot', 'taken', '-o', 'jsonpath={.status.restoreSize}'])).toBe('16Mi');
    expect(driver.calls).not.toContain('CreateSnapshot');
    await cluster.stop();
  });
});
