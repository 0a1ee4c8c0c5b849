import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { impersonate } from '../fixtures/impersonation.ts';
import { csiController, csiRegistrar, singleWriter } from '../fixtures/csi-calls.ts';
import { sidecarAccounts, sidecarNames, type SidecarName } from '../fixtures/csi-roles.ts';
import {
  attacherFinalizer,
  attachmentsPath,
  claim,
  claimsPath,
  classes,
  contentsPath,
  driverName,
  leases,
  leasesPath,
  namespace,
  pod,
  protection,
  provisionerFinalizer,
  snapshot,
  snapshotClass,
  snapshotsPath,
  contentFor,
  volumeFor,
  volumesPath,
  type Attachment,
  type Claim,
  type Fields,
  type PersistentVolume,
  type Snapshot,
} from '../fixtures/sidecar-objects.ts';
import { isReady, type Item, type PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { Daemon, mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';

const reason = everythingIsNeeded || process.getuid?.() === 0 ? undefined : 'mounts need root';
describe.skipIf(reason !== undefined)(
  `a driver with the Kubernetes CSI sidecars${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  () => {
    const machine = Machine.use();
    let our: Cluster;
    let driver: ReturnType<typeof csiController>;
    let volume: PersistentVolume;

    const as = (name: SidecarName) => impersonate(our.api, namespace, name);
    const is = async <T extends Item>(what: string, path: string, wanted: (item: T) => boolean): Promise<T> => {
      const [list = '', name = ''] = [path.slice(0, path.lastIndexOf('/')), path.slice(path.lastIndexOf('/') + 1)];
      const [found] = await our.api.until<T>(
        what,
        `${list}?fieldSelector=metadata.name%3D${name}`,
        (items) => items[0] !== undefined && wanted(items[0]),
      );
      if (found === undefined) throw new Error(`${what}: nothing`);
      return found;
    };
    const gone = (path: string) => our.api.until(`nothing at ${path}`, path, (items) => items.length === 0);
    /** Acquires the lease of a sidecar, or releases it. */
    const lead = async (name: SidecarName, holderIdentity: string) => {
      const now = new Date().toISOString().replace('Z', '000Z');
      const spec = { holderIdentity, leaseDurationSeconds: 3600, acquireTime: now, renewTime: now, leaseTransitions: 0 };
      const path = `${leasesPath}/${leases[name]}`;
      if ((await our.api.call('GET', path)).status === 404)
        await as(name).post(leasesPath, {
          apiVersion: 'coordination.k8s.io/v1',
          kind: 'Lease',
          metadata: { name: leases[name], namespace },
          spec,
        });
      else await edit<Item>(name, path, (lease) => ({ ...lease, spec }));
    };
    /** Replaces an object by a change of it, again after a conflict with a controller. */
    const edit = <T extends Item>(name: SidecarName, path: string, change: (object: T) => Fields) =>
      until(`${name} writes ${path}`, async () => as(name).put(path, change(await as(name).get<T>(path))));
    /** Replaces the finalizers of the claim `first`. */
    const editFinalizers = (change: (finalizers: readonly string[]) => readonly string[]) =>
      edit<Claim & { metadata: { finalizers?: readonly string[] } }>('snapshot-controller', `${claimsPath}/first`, (source) => ({
        ...source,
        metadata: { ...source.metadata, finalizers: change(source.metadata.finalizers ?? []) },
      }));

    beforeAll(async () => {
      const kubeletDir = machine.path('k');
      const spec = composition({ storage: 'memory', runtime: 'process', network: 'host' });
      our = await machine.cluster({
        spec: { ...spec, volumes: [{ use: 'volume-csi', config: { drivers: [], kubeletDir, provisionFor: ['*'] } }] },
      });
      await our.kubectl.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }]);
      await our.kubectl.apply([...sidecarAccounts(namespace), ...classes]);
      for (const name of sidecarNames) await lead(name, `${name}-0`);
      const parts = machine.path('parts');
      await mkdir(parts);
      const socket = join(parts, 'csi.sock');
      // ends with its stdin, which a pipe with both ends in this process never closes
      const input = join(parts, 'input');
      await mustRun('mkfifo', [input]);
      const places = ['--endpoint', `unix://${socket}`, '--node-id', 'node-a-there', '--data-dir', join(parts, 'volumes')];
      const words = [
        join(root, 'plugins/csi-hostpath/dist/main.js'),
        '--name',
        driverName,
        '--attach',
        '--shared',
        '--node-expansion',
        ...places,
      ];
      const daemon = new Daemon('sh', ['-c', 'exec "$@" <> "$0"', input, process.execPath, ...words]);
      machine.undo('driver', () => daemon.stop('SIGKILL').then(() => undefined));
      await daemon.line(/^ready$/);
      driver = csiController(socket);
      machine.undo('calls', () => driver.close());
      const registrar = await csiRegistrar(join(kubeletDir, 'plugins_registry', `${driverName}-reg.sock`), {
        name: driverName,
        endpoint: socket,
      });
      machine.undo('registrar', () => registrar.close());
      await is<Item & { spec: { drivers: readonly unknown[] } }>(
        'the driver is registered',
        '/apis/storage.k8s.io/v1/csinodes/node-a',
        ({ spec: { drivers } }) => drivers.length === 1,
      );
      await our.kubectl.apply([snapshotClass]);
    });

    /** Acts as external-provisioner for a claim that is annotated with its name. */
    const provision = async (name: string) => {
      const { metadata } = await is<Claim>(
        `${name} waits for a volume`,
        `${claimsPath}/${name}`,
        ({ metadata: { annotations } }) => annotations?.['volume.kubernetes.io/storage-provisioner'] === driverName,
      );
      const created = await driver.call<{ volume: { volumeId: string; capacityBytes: number } }>('CreateVolume', {
        name: `pvc-${metadata.uid}`,
        capacityRange: { requiredBytes: 8 << 20 },
        volumeCapabilities: [singleWriter],
      });
      // rejected if another provisioner created it first
      return as('csi-provisioner').post<PersistentVolume>(volumesPath, volumeFor(name, metadata.uid, created.volume.volumeId));
    };

    it('gets its volumes from external-provisioner', async () => {
      await our.kubectl.apply([claim('first')]);
      volume = await provision('first');
      await is<Claim>('the claim is bound', `${claimsPath}/first`, ({ status }) => status.phase === 'Bound');
    });

    it('gets them attached by external-attacher, and mounted by the node', async () => {
      await our.kubectl.apply([pod('keeper', 'first')]);
      const name = `csi-${createHash('sha256').update(`${volume.spec.csi.volumeHandle}${driverName}node-a`).digest('hex')}`;
      const attachment = await is<Attachment>('a VolumeAttachment is created', `${attachmentsPath}/${name}`, () => true);
      expect(attachment.spec).toMatchObject({ nodeName: 'node-a', source: { persistentVolumeName: volume.metadata.name } });
      // no other component has started to attach
      expect(attachment.metadata.finalizers).toBeUndefined();
      const attacher = as('csi-attacher');
      await attacher.merge(`${attachmentsPath}/${name}`, {
        metadata: { finalizers: [attacherFinalizer], annotations: { 'csi.alpha.kubernetes.io/node-id': 'node-a-there' } },
      });
      const present = await attacher.get<PersistentVolume>(`${volumesPath}/${volume.metadata.name}`);
      await attacher.merge(`${volumesPath}/${volume.metadata.name}`, {
        metadata: { finalizers: [...(present.metadata.finalizers ?? []), attacherFinalizer] },
      });
      await driver.call('ControllerPublishVolume', {
        volumeId: volume.spec.csi.volumeHandle,
        nodeId: 'node-a-there',
        volumeCapability: singleWriter,
      });
      await attacher.merge(`${attachmentsPath}/${name}/status`, { status: { attached: true, attachmentMetadata: { by: 'sidecar' } } });
      await is<PodItem>('the pod is ready', '/api/v1/namespaces/default/pods/keeper', isReady);
      expect(await our.kubectl.run(['exec', 'keeper', '--', 'sh', '-c', 'cat /data/said'])).toBe('here\n');
    });

    it('gets them expanded by external-resizer', async () => {
      const size = JSON.stringify({ spec: { resources: { requests: { storage: '16Mi' } } } });
      await our.kubectl.run(['patch', 'pvc', 'first', '-p', size]);
      const resizer = as('csi-resizer');
      const now = new Date().toISOString().replace(/\.\d+/, '');
      await resizer.strategic(`${claimsPath}/first/status`, {
        status: {
          conditions: [{ type: 'Resizing', status: 'True', lastTransitionTime: now }],
          allocatedResources: { storage: '16Mi' },
          allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' },
        },
      });
      await driver.call('ControllerExpandVolume', { volumeId: volume.spec.csi.volumeHandle, capacityRange: { requiredBytes: 16 << 20 } });
      await resizer.strategic(`${volumesPath}/${volume.metadata.name}`, { spec: { capacity: { storage: '16Mi' } } });
      // the node continues from here
      await resizer.strategic(`${claimsPath}/first/status`, {
        status: {
          conditions: [
            { $patch: 'delete', type: 'Resizing' },
            { type: 'FileSystemResizePending', status: 'True', lastTransitionTime: now, message: 'Waiting for user to (re-)start a pod' },
          ],
          allocatedResourceStatuses: { storage: 'NodeResizePending' },
        },
      });
      await is<Claim>('the claim has the new size', `${claimsPath}/first`, ({ status }) => status.capacity?.storage === '16Mi');
    });

    it('gets snapshots bound by snapshot-controller, and taken and deleted by external-snapshotter', async () => {
      await our.kubectl.apply([snapshot]);
      const [controller, snapshotter] = [as('snapshot-controller'), as('csi-snapshotter')];
      const { uid } = (await controller.get<Snapshot>(`${snapshotsPath}/taken`)).metadata;
      const contentName = `snapcontent-${uid}`;
      const held = [`${protection}/volumesnapshot-as-source-protection`, `${protection}/volumesnapshot-bound-protection`];
      await controller.json(`${snapshotsPath}/taken`, [{ op: 'add', path: '/metadata/finalizers', value: held }]);
      const sourceProtection = `${protection}/pvc-as-source-protection`;
      await editFinalizers((finalizers) => [...finalizers, sourceProtection]);
      // rejected if another snapshotter created it first
      await controller.post(contentsPath, contentFor(contentName, uid, volume.spec.csi.volumeHandle));
      await snapshotter.json(`${contentsPath}/${contentName}`, [
        { op: 'add', path: '/metadata/annotations', value: { [`${protection}/volumesnapshot-being-created`]: 'yes' } },
      ]);
      const { snapshot: created } = await driver.call<{ snapshot: { snapshotId: string; sizeBytes: number } }>('CreateSnapshot', {
        sourceVolumeId: volume.spec.csi.volumeHandle,
        name: `snapshot-${uid}`,
      });
      await snapshotter.json(`${contentsPath}/${contentName}/status`, [
        {
          op: 'add',
          path: '/status',
          value: {
            snapshotHandle: created.snapshotId,
            readyToUse: true,
            restoreSize: created.sizeBytes,
            creationTime: Date.now() * 1e6,
          },
        },
      ]);
      await snapshotter.json(`${contentsPath}/${contentName}`, [
        { op: 'remove', path: `/metadata/annotations/${protection}~1volumesnapshot-being-created` },
      ]);
      const status = {
        boundVolumeSnapshotContentName: contentName,
        readyToUse: true,
        restoreSize: '16Mi',
        creationTime: new Date().toISOString(),
      };
      await controller.json(`${snapshotsPath}/taken/status`, [{ op: 'add', path: '/status', value: status }]);
      expect(await our.kubectl.run(['get', 'volumesnapshot', 'taken', '-o', 'jsonpath={.status.readyToUse}'])).toBe('true');
      await editFinalizers((finalizers) => finalizers.filter((each) => each !== sourceProtection));
      await our.kubectl.run(['delete', 'volumesnapshot', 'taken', '--wait=false']);
      await controller.json(`${contentsPath}/${contentName}`, [
        { op: 'add', path: '/metadata/annotations', value: { [`${protection}/volumesnapshot-being-deleted`]: 'yes' } },
      ]);
      await controller.remove(`${contentsPath}/${contentName}`);
      await driver.call('DeleteSnapshot', { snapshotId: created.snapshotId });
      await snapshotter.json(`${contentsPath}/${contentName}`, [{ op: 'remove', path: '/metadata/finalizers' }]);
      await gone(contentsPath);
      await controller.json(`${snapshotsPath}/taken`, [{ op: 'remove', path: '/metadata/finalizers' }]);
      await gone(snapshotsPath);
    });

    it('gets its volumes detached and deleted by the sidecars that created them', async () => {
      await our.kubectl.run(['delete', 'pod/keeper', 'pvc/first', '--wait=false']);
      const [attachment] = await our.api.until<Attachment>(
        'the attachment is being deleted',
        attachmentsPath,
        (items) => items[0]?.metadata.deletionTimestamp !== undefined,
      );
      expect(attachment?.metadata.finalizers).toEqual([attacherFinalizer]);
      await driver.call('ControllerUnpublishVolume', { volumeId: volume.spec.csi.volumeHandle, nodeId: 'node-a-there' });
      await as('csi-attacher').merge(`${attachmentsPath}/${attachment?.metadata.name}`, { metadata: { finalizers: null } });
      await gone(attachmentsPath);
      const path = `${volumesPath}/${volume.metadata.name}`;
      const released = await is<PersistentVolume>('the volume is released', path, ({ status }) => status?.phase === 'Released');
      await driver.call('DeleteVolume', { volumeId: volume.spec.csi.volumeHandle });
      await as('csi-provisioner').remove(path);
      const provisioner = as('csi-provisioner');
      const left = (released.metadata.finalizers ?? []).filter((each) => each !== provisionerFinalizer);
      await provisioner.merge(path, { metadata: { finalizers: left.filter((each) => each === attacherFinalizer) } });
      await as('csi-attacher').merge(path, { metadata: { finalizers: null } });
      await gone(volumesPath);
    });

    it('is served by Oarlock without its sidecars, and by the sidecars when they return', async () => {
      for (const name of sidecarNames) await lead(name, '');
      await our.kubectl.apply([claim('second'), pod('second', 'second')]);
      await is<PodItem>('the pod is ready', '/api/v1/namespaces/default/pods/second', isReady);
      await our.kubectl.run(['delete', 'pod/second', 'pvc/second']);
      await gone(volumesPath);
      await gone(attachmentsPath);
      for (const name of sidecarNames) await lead(name, `${name}-1`);
      await untilValue(
        'every sidecar yields to its lease holder',
        // two parts of the work may have the same lease
        async () => new Set((await our.log(2000)).match(/(?<="work":")[\w-]+(?=".*a sidecar holds the lease for this work)/g)).size,
        (count) => count === sidecarNames.length,
      );
      await our.kubectl.apply([claim('third')]);
      const third = await provision('third');
      await is<Claim>('the claim is bound', `${claimsPath}/third`, ({ status }) => status.phase === 'Bound');
      expect(third.metadata.finalizers).toContain(provisionerFinalizer);
    });
  },
);
