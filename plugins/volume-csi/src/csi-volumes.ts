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
import { VolumeError, type Mounted, type VolumeCall, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import { capability } from './capability.ts';
import type { CsiDriver } from './csi-driver.ts';
import { giveToGroup, wantsGroup } from './fs-group.ts';
import type { ExpansionTarget, NodeExpansion } from './node-expansion.ts';
import type { OnlineGrowth } from './online-growth.ts';
import { forgetPublished, readPublished, writePublished } from './published.ts';
import { readSecrets } from './secrets.ts';
import type { Staging } from './staging.ts';
import { podContext } from './volume-context.ts';
import type { VolumesInUse } from './volumes-in-use.ts';

export interface CsiVolumesOptions {
  readonly client: Client;
  readonly staging: Staging;
  /** Drivers that have answered, by name. */
  readonly drivers: ReadonlyMap<string, CsiDriver>;
  readonly inUse: () => VolumesInUse;
  readonly expansion: NodeExpansion;
  readonly growth: OnlineGrowth;
}

/** One volume, whether it is in a pod's spec or behind a claim. */
interface Wanted {
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

/** How often a driver is called again that wants to be (CSIDriver.requiresRepublish). Milliseconds. */
const republishMs = 60_000;

/** Mounts the volumes of CSI drivers: waits until they are attached, stages them once on the node, and publishes them for each pod. */
export class CsiVolumes implements Pick<VolumeDriver, 'supports' | 'mount' | 'unmount'> {
  readonly #options: CsiVolumesOptions;

  constructor(options: CsiVolumesOptions) {
    this.#options = options;
  }

  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return (volume.csi ?? persistentVolume?.spec?.csi) !== undefined;
  }

  async mount(request: VolumeRequest, call: VolumeCall = {}): Promise<Mounted> {
    const { pod, path, persistentVolume, fsGroup } = request;
    const wanted = wantedOf(request);
    const driver = this.#driver(wanted.driver);
    const spec = await this.#spec(driver.name, call);
    checkLifecycle(driver.name, spec, wanted.ephemeral);
    const ownGroup = fsGroup !== undefined && driver.nodeAbilities.has('VOLUME_MOUNT_GROUP');
    const volumeCapability = capability(
      {
        accessModes: persistentVolume?.spec?.accessModes,
        volumeMode: wanted.block ? 'Block' : 'Filesystem',
        fsType: wanted.fsType,
        mountOptions: persistentVolume?.spec?.mountOptions,
        ...(ownGroup && { mountGroup: fsGroup }),
      },
      driver.nodeAbilities.has('NODE_SINGLE_NODE_MULTI_WRITER'),
    );
    const { context, secrets } = await podContext(request, spec, wanted.ephemeral);
    const volumeContext = { ...wanted.attributes, ...context };
    const targetPath = join(path, 'mount');
    const { staging } = this.#options;
    const staged = staging.of(driver.name, wanted.volumeHandle);
    await staging.turn(staged, () =>
      asVolumeError('MountVolume', wanted.volumeName, async () => {
        await mkdir(path, { recursive: true, mode: 0o750 });
        await writePublished(path, { driver: driver.name, volumeHandle: wanted.volumeHandle, ephemeral: wanted.ephemeral });
        const { stagingTargetPath, publishContext } = wanted.ephemeral
          ? { stagingTargetPath: '', publishContext: {} }
          : await this.#stage(driver, wanted, staged, request, spec, { volumeCapability, volumeContext }, call);
        await driver.client.nodePublish(
          {
            volumeId: wanted.volumeHandle,
            publishContext,
            stagingTargetPath,
            targetPath,
            volumeCapability,
            readonly: wanted.readOnly,
            secrets: { ...(await readSecrets(this.#options.client, wanted.publishSecret, call.signal)), ...secrets },
            volumeContext,
          },
          call,
        );
      }),
    );
    if (persistentVolume !== undefined)
      await this.#grow(driver, persistentVolume, request.claim, { volumePath: targetPath, staged, volumeCapability }, call);
    if (fsGroup !== undefined && !ownGroup && !wanted.block && wantsGroup(spec?.fsGroupPolicy, wanted, persistentVolume))
      await giveToGroup(targetPath, fsGroup, pod.spec?.securityContext?.fsGroupChangePolicy);
    return {
      hostPath: targetPath,
      ...(wanted.block && { device: true }),
      ...(spec?.requiresRepublish === true && { refreshAfterMs: republishMs }),
    };
  }

  /** What has been made larger before, and from now on. */
  async #grow(
    driver: CsiDriver,
    volume: PersistentVolume,
    claim: PersistentVolumeClaim | undefined,
    target: ExpansionTarget,
    call: VolumeCall,
  ): Promise<void> {
    const { expansion, growth } = this.#options;
    await expansion.finish(driver, volume, claim, target, call);
    const { namespace = '', name = '' } = claim?.metadata ?? {};
    if (name !== '') growth.watch({ driver, claim: { namespace, name }, volumeName: volume.metadata?.name ?? '', ...target });
  }

  async unmount({ path }: { readonly path: string }, call: VolumeCall = {}): Promise<void> {
    const published = await readPublished(path);
    if (published === undefined) return; // nothing was begun
    const { driver: name, volumeHandle, ephemeral } = published;
    const driver = this.#driver(name);
    const { staging, inUse, growth } = this.#options;
    const staged = staging.of(name, volumeHandle);
    await staging.turn(staged, () =>
      asVolumeError('UnmountVolume', volumeHandle, async () => {
        await driver.client.nodeUnpublish(volumeHandle, join(path, 'mount'), call);
        if (!ephemeral && (await staging.letGo(staged, path))) {
          growth.forget(staged);
          if (driver.nodeAbilities.has('STAGE_UNSTAGE_VOLUME')) await driver.client.nodeUnstage(volumeHandle, staging.target(staged), call);
          if ((await staging.about(staged))?.attachable === true) await inUse().release(name, volumeHandle);
          await staging.forget(staged);
        }
        // last: until here it is known what to take away
        await forgetPublished(path);
      }),
    );
  }

  /** Attached, written down and staged, in this order. */
  async #stage(
    driver: CsiDriver,
    wanted: Wanted,
    staged: string,
    { path, persistentVolume }: VolumeRequest,
    spec: CSIDriverSpec | undefined,
    { volumeCapability, volumeContext }: { readonly volumeCapability: VolumeCapability; readonly volumeContext: Strings },
    call: VolumeCall,
  ): Promise<{ readonly stagingTargetPath: string; readonly publishContext: Strings }> {
    const { staging, inUse, client } = this.#options;
    const { volumeHandle, volumeName } = wanted;
    const attachable = spec?.attachRequired !== false;
    const modes = persistentVolume?.spec?.accessModes ?? [];
    if (modes.length > 0 && modes.every((mode) => mode === 'ReadWriteOncePod') && (await staging.heldByOthers(staged, path)))
      throw new VolumeError('NotReady', 'volume uses the ReadWriteOncePod access mode and is already in use by another pod');
    await staging.hold(staged, path, { driver: driver.name, volumeHandle, volumeName, attachable, block: wanted.block });
    const publishContext = attachable ? await inUse().attached({ driver: driver.name, volumeHandle, volumeName }, call.signal) : {};
    const stagingTargetPath = staging.target(staged);
    if (driver.nodeAbilities.has('STAGE_UNSTAGE_VOLUME')) {
      await mkdir(wanted.block ? dirname(stagingTargetPath) : stagingTargetPath, { recursive: true, mode: 0o750 });
      const secrets = await readSecrets(client, persistentVolume?.spec?.csi?.nodeStageSecretRef, call.signal);
      await driver.client.nodeStage(
        { volumeId: volumeHandle, publishContext, stagingTargetPath, volumeCapability, secrets, volumeContext },
        call,
      );
    }
    return { stagingTargetPath, publishContext };
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
}

function wantedOf({ pod, volume, persistentVolume, readOnly }: VolumeRequest): Wanted {
  const { csi: inline } = volume;
  if (inline !== undefined)
    return {
      driver: inline.driver,
      // the same in every process
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

/** @throws VolumeError `InvalidArgument` for a use that the driver's CSIDriver does not name */
function checkLifecycle(driver: string, spec: CSIDriverSpec | undefined, ephemeral: boolean): void {
  const mode = ephemeral ? 'Ephemeral' : 'Persistent';
  if (spec === undefined) {
    if (ephemeral)
      throw new VolumeError('InvalidArgument', `volume mode "${mode}" not supported by driver ${driver} (no CSIDriver object)`);
    return;
  }
  const known = spec.volumeLifecycleModes ?? ['Persistent'];
  if (!known.includes(mode))
    throw new VolumeError(
      'InvalidArgument',
      `volume mode "${mode}" not supported by driver ${driver} (only supports [${known.map((each) => JSON.stringify(each)).join(' ')}])`,
    );
}

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
