import {
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  secrets,
  storageClasses,
  volumeAttachments,
  volumeAttributesClasses,
} from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { attachmentName } from '../../src/node/volumes-in-use.ts';
import type { VolumeCsi } from '../../src/volume-csi.ts';
import { until, World } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName } from '../support/plain-driver.ts';

/** The parameters of a StorageClass that name a Secret, by the reference in the volume. */
const uses = {
  controllerPublishSecretRef: 'controller-publish',
  controllerExpandSecretRef: 'controller-expand',
  nodeStageSecretRef: 'node-stage',
  nodePublishSecretRef: 'node-publish',
  nodeExpandSecretRef: 'node-expand',
} as const;
type Field = keyof typeof uses;
const fields = Object.keys(uses) as readonly Field[];

let world: World;
let driver: PlainDriver;
let plugin: VolumeCsi;
afterEach(() => world[Symbol.asyncDispose]());

const claimName = { namespace: 'default', name: 'data' };
const keys = (use: string) => ({ namespace: 'vault', name: `${use}-of-data` });
const requestsOf = (method: string) => driver.requests.filter((each) => each.method === method).map(({ request }) => request['secrets']);
const event = (pattern: RegExp) => until(() => world.events.find((line) => pattern.test(line)));
const mountRequest = (volume: PersistentVolume) =>
  world.request('pod', { name: 'v', persistentVolumeClaim: { claimName: 'data' } }, volume);
const present = (volume: PersistentVolume) => world.api.client().get(persistentVolumes, { name: volume.metadata?.name ?? '' });
const attachment = (volume: PersistentVolume) => ({ name: attachmentName(plainDriverName, volume.spec?.csi?.volumeHandle ?? '', 'here') });

/** Starts a driver with every step that takes a Secret, and a StorageClass that names a Secret of its own for each. `missing` are those that do not exist. */
async function start(missing: readonly string[]): Promise<void> {
  driver = new PlainDriver({
    controllerCapabilities: ['PUBLISH_UNPUBLISH_VOLUME', 'CONTROLLER_EXPAND_VOLUME', 'MODIFY_VOLUME'],
    nodeCapabilities: ['STAGE_UNSTAGE_VOLUME', 'NODE_EXPAND_VOLUME'],
  });
  const other = { name: plainDriverName, serve: (endpoint: string, directory: string) => driver.serve(endpoint, directory) };
  world = await World.open({ other, csiDriver: { attachRequired: true } });
  plugin = await world.plugin();
  const names = [...Object.values(uses), 'provisioner'];
  world.api.seed(storageClasses, {
    metadata: { name: 'encrypted' },
    provisioner: plainDriverName,
    allowVolumeExpansion: true,
    parameters: Object.fromEntries(
      names.flatMap((use) => [
        [`csi.storage.k8s.io/${use}-secret-name`, `${use}-of-\${pvc.name}`],
        [`csi.storage.k8s.io/${use}-secret-namespace`, 'vault'],
      ]),
    ),
  });
  for (const use of names.filter((each) => !missing.includes(each)))
    world.api.seed(secrets, { metadata: keys(use), data: { for: Buffer.from(use).toString('base64') } });
}
const createClaim = () => world.claim('data', { storageClassName: 'encrypted' });
async function open(...missing: readonly string[]): Promise<PersistentVolume> {
  await start(missing);
  return world.bind(await createClaim());
}

const attach = (volume: PersistentVolume) =>
  world.api.client().create(volumeAttachments, {
    metadata: attachment(volume),
    spec: { attacher: plainDriverName, nodeName: 'here', source: { persistentVolumeName: volume.metadata?.name ?? '' } },
  });
/** Attaches the volume, as the attach-detach controller does. */
async function attachToNode(volume: PersistentVolume): Promise<void> {
  await attach(volume);
  await until(() => world.api.object(volumeAttachments, attachment(volume))?.status?.attached);
  const volumesAttached = [{ name: `kubernetes.io/csi/${plainDriverName}^${volume.spec?.csi?.volumeHandle}`, devicePath: '' }];
  await world.api.client().patch(nodes, { name: 'here' }, 'merge', { status: { volumesAttached } }, { subresource: 'status' });
}
const grow = () =>
  world.api.client().patch(persistentVolumeClaims, claimName, 'merge', { spec: { resources: { requests: { storage: '3Gi' } } } });
const expanded = () => until(() => world.api.object(persistentVolumeClaims, claimName)?.status?.allocatedResourceStatuses?.['storage']);
const claim = () => world.api.object(persistentVolumeClaims, claimName) as PersistentVolumeClaim;

describe('secrets of a StorageClass', () => {
  it('are references of the volume', async () => {
    const volume = await open();
    for (const field of fields) expect(volume.spec?.csi?.[field]).toEqual(keys(uses[field]));
  });

  it('are passed to the call that each is for', async () => {
    const volume = await open();
    await attachToNode(volume);
    await grow();
    await expanded();
    const mounted = mountRequest(volume);
    await plugin.mount({ ...mounted, persistentVolume: await present(volume), claim: claim() });
    await plugin.unmount(mounted);
    world.api.seed(volumeAttributesClasses, { metadata: { name: 'fast' }, driverName: plainDriverName, parameters: { speed: 'high' } });
    await world.api.client().patch(persistentVolumeClaims, claimName, 'merge', { spec: { volumeAttributesClassName: 'fast' } });
    await until(() => claim().status?.currentVolumeAttributesClassName);
    await world.api.client().delete(volumeAttachments, attachment(volume));
    await until(() => (world.api.object(volumeAttachments, attachment(volume)) === undefined ? true : undefined));
    expect(
      Object.fromEntries(
        [
          'CreateVolume',
          'ControllerPublishVolume',
          'ControllerUnpublishVolume',
          'ControllerExpandVolume',
          'ControllerModifyVolume',
          'NodeStageVolume',
          'NodePublishVolume',
          'NodeExpandVolume',
        ].map((method) => [method, requestsOf(method)]),
      ),
    ).toEqual({
      CreateVolume: [{ for: 'provisioner' }],
      ControllerPublishVolume: [{ for: 'controller-publish' }],
      ControllerUnpublishVolume: [{ for: 'controller-publish' }],
      ControllerExpandVolume: [{ for: 'controller-expand' }],
      ControllerModifyVolume: [{ for: 'controller-expand' }],
      NodeStageVolume: [{ for: 'node-stage' }],
      NodePublishVolume: [{ for: 'node-publish' }],
      NodeExpandVolume: [{ for: 'node-expand' }],
    });
  });
});

describe('a missing secret', () => {
  it('of controller-publish is an attach error', async () => {
    const volume = await open('controller-publish');
    await attach(volume);
    expect(await until(() => world.api.object(volumeAttachments, attachment(volume))?.status?.attachError?.message)).toBe(
      'failed to load secret "vault/controller-publish-of-data": secrets "controller-publish-of-data" not found',
    );
    expect(driver.calls).not.toContain('ControllerPublishVolume');
  });

  it('of controller-expand is an event of the claim', async () => {
    const volume = await open('controller-expand');
    await grow();
    expect(await event(/VolumeResizeFailed/)).toBe(
      `Warning VolumeResizeFailed resize volume "${volume.metadata?.name}" by resizer "${plainDriverName}" failed: error getting secret controller-expand-of-data in namespace vault: secrets "controller-expand-of-data" not found`,
    );
    expect(driver.calls).not.toContain('ControllerExpandVolume');
  });

  it('of provisioner is an event of the claim', async () => {
    await start(['provisioner']);
    await createClaim();
    expect(await event(/ProvisioningFailed/)).toBe(
      'Warning ProvisioningFailed failed to provision volume with StorageClass "encrypted": error getting secret provisioner-of-data in namespace vault: secrets "provisioner-of-data" not found',
    );
  });

  for (const [use, field, operation] of [
    ['node-stage', 'NodeStageSecretRef', 'MountDevice'],
    ['node-publish', 'NodePublishSecretRef', 'SetUp'],
    ['node-expand', 'NodeExpandSecretRef', 'SetUp'],
  ] as const)
    it(`of ${use} fails the mount`, async () => {
      const volume = await open(use);
      await attachToNode(volume);
      await grow();
      await expanded();
      const mounted = { ...mountRequest(volume), persistentVolume: await present(volume), claim: claim() };
      await expect(plugin.mount(mounted)).rejects.toMatchObject({
        message: `fetching ${field} vault/${use}-of-data failed: kubernetes.io/csi: failed to find the secret ${use}-of-data in the namespace vault with error: secrets "${use}-of-data" not found`,
        operation,
        code: 'NotReady',
      });
      await plugin.unmount(mounted);
    });
});
