import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { csiDrivers, secrets, volumeAttachments } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, Pod, SecretReference, Volume } from '@oarlock/api/types/core-v1';
import type { CSIDriverSpec } from '@oarlock/api/types/storage-v1';
import type { AccessMode } from '@oarlock/csi/csi-messages';
import type { Strings, VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Client } from '@oarlock/spi/client';
import { VolumeError, type VolumeCall, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import type { CsiDriver } from './csi-driver.ts';
import { giveToGroup } from './fs-group.ts';
import type { Staging } from './staging.ts';

export interface CsiVolumesOptions {
  readonly client: Client;
  readonly staging: Staging;
  /** Drivers that have answered, by name. */
  readonly drivers: ReadonlyMap<string, CsiDriver>;
}

/** What has to be known to take a volume away again, beside where it is. */
interface Published {
  readonly driver: string;
  readonly volumeHandle: string;
}

const modes: Readonly<Record<string, AccessMode>> = {
  ReadWriteOnce: 'SINGLE_NODE_WRITER',
  ReadOnlyMany: 'MULTI_NODE_READER_ONLY',
  ReadWriteMany: 'MULTI_NODE_MULTI_WRITER',
  ReadWriteOncePod: 'SINGLE_NODE_SINGLE_WRITER',
};

/** How a claim's or a volume's modes are said to a driver. */
export function accessMode(accessModes: readonly string[] = [], singleNodeMultiWriter: boolean): AccessMode {
  const [mode = 'ReadWriteOnce'] = ['ReadWriteMany', 'ReadOnlyMany', 'ReadWriteOnce', 'ReadWriteOncePod'].filter((one) =>
    accessModes.includes(one),
  );
  if (mode === 'ReadWriteOnce' && singleNodeMultiWriter) return 'SINGLE_NODE_MULTI_WRITER';
  return mode === 'ReadWriteOncePod' && !singleNodeMultiWriter ? 'SINGLE_NODE_WRITER' : (modes[mode] ?? 'SINGLE_NODE_WRITER');
}

/** Mounts the volumes of CSI drivers: waits until they are attached, stages them once on the node, and publishes them for each pod. */
export class CsiVolumes implements Pick<VolumeDriver, 'supports' | 'mount' | 'unmount'> {
  readonly #options: CsiVolumesOptions;

  constructor(options: CsiVolumesOptions) {
    this.#options = options;
  }

  supports(_volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return persistentVolume?.spec?.csi !== undefined;
  }

  async mount(
    { pod, path, persistentVolume, readOnly, fsGroup }: VolumeRequest,
    call: VolumeCall = {},
  ): Promise<{ readonly hostPath: string }> {
    const csi = persistentVolume?.spec?.csi;
    if (csi === undefined) throw new VolumeError('InvalidArgument', 'not a volume of a CSI driver');
    const { volumeHandle } = csi;
    const driver = this.#driver(csi.driver);
    const { staging } = this.#options;
    const staged = staging.of(driver.name, volumeHandle);
    const targetPath = join(path, 'mount');
    const spec = await this.#spec(driver.name, call);
    const volumeCapability: VolumeCapability = {
      mount: {
        ...(csi.fsType !== undefined && { fsType: csi.fsType }),
        mountFlags: persistentVolume?.spec?.mountOptions ?? [],
      },
      accessMode: { mode: accessMode(persistentVolume?.spec?.accessModes, driver.nodeAbilities.has('NODE_SINGLE_NODE_MULTI_WRITER')) },
    };
    const volumeContext: Strings = { ...csi.volumeAttributes, ...(spec?.podInfoOnMount === true && podInfo(pod)) };
    const publishContext = spec?.attachRequired === false ? {} : await this.#attached(persistentVolume ?? {}, pod, call);
    const stagingTargetPath = staging.target(staged);
    await staging.turn(staged, () =>
      asVolumeError('MountVolume', persistentVolume?.metadata?.name ?? '', async () => {
        await mkdir(path, { recursive: true, mode: 0o750 });
        await staging.hold(staged, path);
        const published: Published = { driver: driver.name, volumeHandle };
        await writeFile(join(path, 'vol_data.json'), JSON.stringify(published), { mode: 0o600 });
        if (driver.nodeAbilities.has('STAGE_UNSTAGE_VOLUME')) {
          await mkdir(stagingTargetPath, { recursive: true, mode: 0o750 });
          const stageSecrets = await this.#secrets(csi.nodeStageSecretRef, call);
          await driver.client.nodeStage(
            { volumeId: volumeHandle, publishContext, stagingTargetPath, volumeCapability, secrets: stageSecrets, volumeContext },
            call,
          );
        }
        await driver.client.nodePublish(
          {
            volumeId: volumeHandle,
            publishContext,
            stagingTargetPath,
            targetPath,
            volumeCapability,
            readonly: readOnly || csi.readOnly === true,
            secrets: await this.#secrets(csi.nodePublishSecretRef, call),
            volumeContext,
          },
          call,
        );
      }),
    );
    const once = persistentVolume?.spec?.accessModes?.every((mode) => mode.startsWith('ReadWriteOnce')) === true;
    const policy = spec?.fsGroupPolicy ?? 'ReadWriteOnceWithFSType';
    if (fsGroup !== undefined && !readOnly && (policy === 'File' || (policy !== 'None' && once && csi.fsType !== undefined)))
      await giveToGroup(targetPath, fsGroup);
    return { hostPath: targetPath };
  }

  async unmount({ path }: { readonly path: string }, call: VolumeCall = {}): Promise<void> {
    const text = await readFile(join(path, 'vol_data.json'), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    });
    if (text === undefined) return; // nothing was begun
    const { driver: name, volumeHandle } = JSON.parse(text) as Published;
    const driver = this.#driver(name);
    const { staging } = this.#options;
    const staged = staging.of(name, volumeHandle);
    await staging.turn(staged, () =>
      asVolumeError('UnmountVolume', volumeHandle, async () => {
        await driver.client.nodeUnpublish(volumeHandle, join(path, 'mount'), call);
        if (await staging.letGo(staged, path)) {
          if (driver.nodeAbilities.has('STAGE_UNSTAGE_VOLUME')) await driver.client.nodeUnstage(volumeHandle, staging.target(staged), call);
          await staging.forget(staged);
        }
        // last: until here it is known what to take away
        await rm(join(path, 'vol_data.json'), { force: true });
      }),
    );
  }

  #driver(name: string): CsiDriver {
    const driver = this.#options.drivers.get(name);
    if (driver === undefined) throw new VolumeError('NotReady', `driver name ${name} not found in the list of registered CSI drivers`);
    return driver;
  }

  /** What the cluster says of a driver; absent: the defaults of CSIDriver. */
  async #spec(name: string, { signal }: VolumeCall): Promise<CSIDriverSpec | undefined> {
    try {
      return (await this.#options.client.get(csiDrivers, { name }, { ...(signal && { signal }) })).spec;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** What the attacher says of the volume on this node. @throws VolumeError `NotReady` until it is attached */
  async #attached({ metadata, spec }: PersistentVolume, pod: Pod, { signal }: VolumeCall): Promise<Strings> {
    const node = pod.spec?.nodeName ?? '';
    const name = `csi-${createHash('sha256').update(`${spec?.csi?.volumeHandle}${spec?.csi?.driver}${node}`).digest('hex')}`;
    const attachment = await this.#options.client
      .get(volumeAttachments, { name }, { ...(signal && { signal }) })
      .catch((error: unknown) => {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      });
    if (attachment?.status?.attached === true) return attachment.status.attachmentMetadata ?? {};
    throw new VolumeError('NotReady', `volume ${metadata?.name} is not attached to node ${node} yet`);
  }

  async #secrets(ref: SecretReference | undefined, { signal }: VolumeCall): Promise<Strings> {
    if (ref === undefined) return {};
    const { data = {} } = await this.#options.client.get(
      secrets,
      { namespace: ref.namespace ?? '', name: ref.name ?? '' },
      { ...(signal && { signal }) },
    );
    return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
  }
}

const podInfo = ({ metadata, spec }: Pod): Strings => ({
  'csi.storage.k8s.io/pod.name': metadata?.name ?? '',
  'csi.storage.k8s.io/pod.namespace': metadata?.namespace ?? '',
  'csi.storage.k8s.io/pod.uid': metadata?.uid ?? '',
  'csi.storage.k8s.io/serviceAccount.name': spec?.serviceAccountName ?? '',
  'csi.storage.k8s.io/ephemeral': 'false',
});

async function asVolumeError(what: string, volume: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    throw new VolumeError('Failed', `${what} failed for volume "${volume}" : rpc error: code = ${error.code} desc = ${error.message}`, {
      cause: error,
    });
  }
}
