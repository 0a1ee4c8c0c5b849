import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { csiDrivers } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim, SecretReference, Volume } from '@oarlock/api/types/core-v1';
import type { CSIDriverSpec } from '@oarlock/api/types/storage-v1';
import type { Strings, VolumeCapability } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Client } from '@oarlock/spi/client';
import { VolumeError, type MountResult, type VolumeCallOptions, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import { capability } from '../volume/capability.ts';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { setVolumeOwnership, shouldSetOwnership } from './internal/fs-group.ts';
import type { ExpansionTarget, NodeExpansion } from './node-expansion.ts';
import type { OnlineExpansion } from './online-expansion.ts';
import { removeVolumeData, readVolumeData, writeVolumeData } from './internal/volume-data-file.ts';
import { selinuxMountOptions } from './selinux-mount.ts';
import { readSecrets } from '../volume/secrets.ts';
import type { Staging } from './staging.ts';
import { podContext } from './internal/volume-context.ts';
import type { VolumesInUse } from './volumes-in-use.ts';

export interface CsiVolumesOptions {
  readonly client: Client;
  readonly staging: Staging;
  /** The connected CSI drivers, keyed by name. */
  readonly drivers: ReadonlyMap<string, CsiDriver>;
  readonly inUse: () => VolumesInUse;
  readonly expansion: NodeExpansion;
  readonly growth: OnlineExpansion;
  /** Returns the SELinux context of files of containers; undefined on a node without SELinux. */
  readonly fileContext: () => Promise<string | undefined>;
}

/** A volume, either inline in the pod or behind a PersistentVolumeClaim. */
interface VolumeSpec {
  readonly driver: string;
  readonly volumeHandle: string;
  readonly ephemeral: boolean;
  readonly block: boolean;
  readonly readOnly: boolean;
  readonly fsType: string | undefined;
  readonly attributes: Strings;
  readonly publishSecret: SecretReference | undefined;
  readonly volumeName: string;
}

/** How often NodePublishVolume is repeated for volumes of drivers with CSIDriver.requiresRepublish. Milliseconds. */
const republishPeriodMs = 60_000;

/** The volume to stage and its published context. */
interface StageRequest {
  readonly volume: VolumeSpec;
  readonly staged: string;
  readonly volumeRequest: VolumeRequest;
  readonly spec: CSIDriverSpec | undefined;
  readonly volumeCapability: VolumeCapability;
  readonly volumeContext: Strings;
}

/** Mounts and unmounts the volumes of CSI drivers: waits until a volume is attached, stages it once on the node, and publishes it for each pod. */
export class CsiVolumes implements Pick<VolumeDriver, 'supports' | 'mount' | 'unmount'> {
  readonly #options: CsiVolumesOptions;

  constructor(options: CsiVolumesOptions) {
    this.#options = options;
  }

  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return (volume.csi ?? persistentVolume?.spec?.csi) !== undefined;
  }

  async mount(request: VolumeRequest, call: VolumeCallOptions = {}): Promise<MountResult> {
    const { pod, path, persistentVolume, fsGroup } = request;
    const volume = volumeSpec(request);
    const driver = this.#driver(volume.driver);
    const spec = await this.#spec(driver.name, call);
    checkLifecycle(driver.name, spec, volume.ephemeral);
    const driverSetsGroup = fsGroup !== undefined && driver.nodeCapabilities.has('VOLUME_MOUNT_GROUP');
    const volumeCapability = await this.#capability(driver, volume, { volumeRequest: request, spec, driverSetsGroup });
    const { context, secrets } = await podContext(request, spec, volume.ephemeral);
    const volumeContext = { ...volume.attributes, ...context };
    const targetPath = join(path, 'mount');
    const { staging } = this.#options;
    const staged = staging.directoryOf(driver.name, volume.volumeHandle);
    await staging.runExclusive(staged, () =>
      asVolumeError({}, async () => {
        await mkdir(path, { recursive: true, mode: 0o750 });
        await writeVolumeData(path, { driver: driver.name, volumeHandle: volume.volumeHandle, ephemeral: volume.ephemeral });
        const { stagingTargetPath, publishContext } = volume.ephemeral
          ? { stagingTargetPath: '', publishContext: {} }
          : await this.#stage(driver, { volume, staged, volumeRequest: request, spec, volumeCapability, volumeContext }, call);
        const publishSecrets = await readSecrets(this.#options.client, {
          ref: volume.publishSecret,
          reader: 'nodePublishSecretRef',
          signal: call.signal,
        });
        await driver.client.nodePublishVolume(
          {
            volumeId: volume.volumeHandle,
            publishContext,
            stagingTargetPath,
            targetPath,
            volumeCapability,
            readonly: volume.readOnly,
            secrets: { ...publishSecrets, ...secrets },
            volumeContext,
          },
          call,
        );
      }),
    );
    if (persistentVolume !== undefined)
      await this.#expand(
        driver,
        { volume: persistentVolume, claim: request.claim, target: { volumePath: targetPath, staged, volumeCapability } },
        call,
      );
    if (fsGroup !== undefined && !driverSetsGroup && !volume.block && shouldSetOwnership(spec?.fsGroupPolicy, volume, persistentVolume))
      await setVolumeOwnership(targetPath, fsGroup, pod.spec?.securityContext?.fsGroupChangePolicy);
    return {
      hostPath: targetPath,
      ...(volume.block && { device: true }),
      ...(spec?.requiresRepublish === true && { refreshAfterMs: republishPeriodMs }),
    };
  }

  /** Returns the capability of a volume for the calls of the node service. */
  async #capability(
    driver: CsiDriver,
    volume: VolumeSpec,
    {
      volumeRequest,
      spec,
      driverSetsGroup,
    }: { readonly volumeRequest: VolumeRequest; readonly spec: CSIDriverSpec | undefined; readonly driverSetsGroup: boolean },
  ): Promise<VolumeCapability> {
    const { accessModes, mountOptions = [] } = volumeRequest.persistentVolume?.spec ?? {};
    const fileContext = spec?.seLinuxMount === true ? await this.#options.fileContext() : undefined;
    return capability(
      {
        accessModes,
        volumeMode: volume.block ? 'Block' : 'Filesystem',
        fsType: volume.fsType,
        mountOptions: [...mountOptions, ...selinuxMountOptions(volumeRequest, spec, fileContext)],
        ...(driverSetsGroup && volumeRequest.fsGroup !== undefined && { mountGroup: volumeRequest.fsGroup }),
      },
      driver.nodeCapabilities.has('NODE_SINGLE_NODE_MULTI_WRITER'),
    );
  }

  /** Finishes a pending node expansion of a volume, and watches for later expansions. */
  async #expand(
    driver: CsiDriver,
    {
      volume,
      claim,
      target,
    }: { readonly volume: PersistentVolume; readonly claim: PersistentVolumeClaim | undefined; readonly target: ExpansionTarget },
    call: VolumeCallOptions,
  ): Promise<void> {
    const { expansion, growth } = this.#options;
    await expansion.finish(driver, { volume, claim, expansionTarget: target }, call);
    const { namespace = '', name = '' } = claim?.metadata ?? {};
    if (name !== '') growth.watch({ driver, claim: { namespace, name }, volumeName: volume.metadata?.name ?? '', ...target });
  }

  async unmount({ path }: { readonly path: string }, call: VolumeCallOptions = {}): Promise<void> {
    const published = await readVolumeData(path);
    if (published === undefined) return; // the mount was never started
    const { driver: name, volumeHandle, ephemeral } = published;
    const driver = this.#driver(name);
    const { staging, inUse, growth } = this.#options;
    const staged = staging.directoryOf(name, volumeHandle);
    await staging.runExclusive(staged, () =>
      asVolumeError({ prefix: `UnmountVolume failed for volume "${volumeHandle}" : ` }, async () => {
        await driver.client.nodeUnpublishVolume(volumeHandle, join(path, 'mount'), call);
        if (!ephemeral && (await staging.removePublication(staged, path))) {
          growth.forget(staged);
          if (driver.nodeCapabilities.has('STAGE_UNSTAGE_VOLUME'))
            await driver.client.nodeUnstageVolume(volumeHandle, staging.target(staged), call);
          if ((await staging.read(staged))?.attachable === true) await inUse().release(name, volumeHandle);
          await staging.forget(staged);
        }
        // last, so that an interrupted unmount can be repeated
        await removeVolumeData(path);
      }),
    );
  }

  /** Records the publication, waits until the volume is attached, and stages the volume. */
  async #stage(
    driver: CsiDriver,
    { volume, staged, volumeRequest: { path, persistentVolume }, spec, volumeCapability, volumeContext }: StageRequest,
    call: VolumeCallOptions,
  ): Promise<{ readonly stagingTargetPath: string; readonly publishContext: Strings }> {
    const { staging, inUse, client } = this.#options;
    const { volumeHandle, volumeName } = volume;
    const attachable = spec?.attachRequired !== false;
    const modes = persistentVolume?.spec?.accessModes ?? [];
    if (modes.length > 0 && modes.every((mode) => mode === 'ReadWriteOncePod') && (await staging.isPublishedElsewhere(staged, path)))
      throw new VolumeError('NotReady', 'volume uses the ReadWriteOncePod access mode and is already in use by another pod');
    await staging.addPublication(staged, path, { driver: driver.name, volumeHandle, volumeName, attachable, block: volume.block });
    const publishContext = attachable
      ? await inUse().waitForAttachment({ driver: driver.name, volumeHandle, volumeName }, call.signal)
      : {};
    const stagingTargetPath = staging.target(staged);
    if (driver.nodeCapabilities.has('STAGE_UNSTAGE_VOLUME')) {
      await mkdir(volume.block ? dirname(stagingTargetPath) : stagingTargetPath, { recursive: true, mode: 0o750 });
      const secrets = await readSecrets(client, {
        ref: persistentVolume?.spec?.csi?.nodeStageSecretRef,
        reader: 'nodeStageSecretRef',
        signal: call.signal,
      });
      const request = { volumeId: volumeHandle, publishContext, stagingTargetPath, volumeCapability, secrets, volumeContext };
      await asVolumeError({ operation: 'MountDevice' }, () => driver.client.nodeStageVolume(request, call));
    }
    return { stagingTargetPath, publishContext };
  }

  #driver(name: string): CsiDriver {
    const driver = this.#options.drivers.get(name);
    if (driver === undefined) throw new VolumeError('NotReady', `driver name ${name} not found in the list of registered CSI drivers`);
    return driver;
  }

  /** Returns the spec of a driver's CSIDriver object; undefined if the object does not exist, in which case the defaults apply. */
  async #spec(name: string, { signal }: VolumeCallOptions): Promise<CSIDriverSpec | undefined> {
    try {
      return (await this.#options.client.get(csiDrivers, { name }, { ...(signal && { signal }) })).spec;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}

function volumeSpec({ pod, volume, persistentVolume, readOnly }: VolumeRequest): VolumeSpec {
  const { csi: inline } = volume;
  if (inline !== undefined)
    return {
      driver: inline.driver,
      // deterministic: the same after a restart
      volumeHandle: `csi-${createHash('sha256').update(`${pod.metadata?.uid}${volume.name}`).digest('hex')}`,
      ephemeral: true,
      block: false,
      readOnly: inline.readOnly === true,
      fsType: inline.fsType,
      attributes: inline.volumeAttributes ?? {},
      publishSecret: inline.nodePublishSecretRef && { ...inline.nodePublishSecretRef, namespace: pod.metadata?.namespace ?? '' },
      volumeName: volume.name,
    };
  const { csi, volumeMode } = persistentVolume?.spec ?? {};
  if (csi === undefined) throw new VolumeError('InvalidArgument', 'not a volume of a CSI driver');
  return {
    driver: csi.driver,
    volumeHandle: csi.volumeHandle,
    ephemeral: false,
    block: volumeMode === 'Block',
    readOnly: readOnly || csi.readOnly === true,
    fsType: csi.fsType,
    attributes: csi.volumeAttributes ?? {},
    publishSecret: csi.nodePublishSecretRef,
    volumeName: persistentVolume?.metadata?.name ?? '',
  };
}

/** Checks the volume's lifecycle mode. @throws VolumeError `InvalidArgument` if the driver's CSIDriver does not list the mode */
function checkLifecycle(driver: string, spec: CSIDriverSpec | undefined, ephemeral: boolean): void {
  const mode = ephemeral ? 'Ephemeral' : 'Persistent';
  if (spec === undefined) {
    if (ephemeral)
      throw new VolumeError('InvalidArgument', `volume mode "${mode}" not supported by driver ${driver} (no CSIDriver object)`);
    return;
  }
  const supported = spec.volumeLifecycleModes ?? ['Persistent'];
  if (!supported.includes(mode))
    throw new VolumeError(
      'InvalidArgument',
      `volume mode "${mode}" not supported by driver ${driver} (only supports [${supported.map((each) => JSON.stringify(each)).join(' ')}])`,
    );
}

/** Converts the error of a driver's call. The kubelet names the operation and the volume in the events of mounts. */
async function asVolumeError(
  { prefix = '', operation = 'SetUp' }: { readonly prefix?: string; readonly operation?: VolumeError['operation'] },
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error;
    throw new VolumeError('Failed', `${prefix}${error.rpcText}`, { cause: error, operation });
  }
}
