import { csiNodes, persistentVolumes, volumeAttachments } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import type { CSINode, VolumeAttachment, VolumeError as VolumeErrorStatus } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import { GrpcError, grpcStatus as status } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { capability } from '../volume/capability.ts';
import { callErrorText } from '../volume/call-error-text.ts';
import { readSecrets } from '../volume/secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkqueueController } from './workqueue-controller.ts';

const nodeIdAnnotation = 'csi.alpha.kubernetes.io/node-id';
/** The maximum length of the message of a VolumeError in the API. */
const maxErrorLength = 1024;
/** Returns the finalizer that external-attacher sets on VolumeAttachments and on attached PersistentVolumes. */
const finalizerOf = (driver: string) => `external-attacher/${driver.replaceAll('.', '-')}`;

/**
 * Does the work of external-attacher: publishes volumes to the nodes that VolumeAttachments name, and unpublishes the volumes before the
 * VolumeAttachments are deleted. If the driver does not attach volumes, each VolumeAttachment is confirmed. If volumes belong to a node, each node
 * handles its own volumes.
 */
export class Attacher implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #attachments: Informer<VolumeAttachment>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #nodes: Informer<CSINode>;
  readonly #controller: WorkqueueController;
  readonly #finalizer: string;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#finalizer = finalizerOf(driver.name);
    this.#attachments = informers.forResource(volumeAttachments);
    this.#volumes = informers.forResource(persistentVolumes);
    this.#nodes = informers.forResource(csiNodes);
    this.#controller = new WorkqueueController({
      name: `attacher-${driver.name}`,
      clock,
      log,
      caches: [this.#attachments, this.#volumes, this.#nodes],
      reconcile: (key) => (key.startsWith('volume ') ? this.#releaseVolume(key.slice('volume '.length)) : this.#reconcile(key)),
    });
  }

  start(): void {
    const { driver } = this.#options;
    const attachment = ({ metadata, spec }: VolumeAttachment) => {
      if (spec.attacher === driver.name) this.#controller.add(metadata?.name ?? '');
    };
    const volume = ({ metadata, spec }: PersistentVolume) => {
      if (spec?.csi?.driver === driver.name && metadata?.deletionTimestamp !== undefined) this.#controller.add(`volume ${metadata.name}`);
    };
    this.#controller.start(
      this.#attachments.addEventHandler({
        onAdd: attachment,
        // a status update of this controller is no reason to retry
        onUpdate: (now, old) => {
          if (now === old || stageOf(now) !== stageOf(old)) attachment(now);
        },
        onDelete: ({ spec }) => {
          const name = spec.source.persistentVolumeName;
          if (spec.attacher === driver.name && name !== undefined) this.#controller.add(`volume ${name}`);
        },
      }),
      this.#volumes.addEventHandler({ onAdd: volume, onUpdate: volume }),
    );
  }
  stop(): Promise<void> {
    return this.#controller.stop();
  }

  get #attaches(): boolean {
    return this.#options.driver.controllerCapabilities.has('PUBLISH_UNPUBLISH_VOLUME');
  }

  async #reconcile(name: string): Promise<void> {
    const { driver, nodeName, client } = this.#options;
    if (this.#attachments.get(name) === undefined) return;
    // the cache may be older than what this controller wrote
    const attachment = await client.get(volumeAttachments, { name }).catch(ignoreNotFound);
    if (attachment === undefined) return;
    if (driver.node.accessibleTopology !== undefined && !driver.config.central && attachment.spec.nodeName !== nodeName) return;
    if (attachment.metadata?.deletionTimestamp !== undefined) await this.#detach(attachment);
    else if (attachment.status?.attached !== true) await this.#attach(attachment);
  }

  async #attach(attachment: VolumeAttachment): Promise<void> {
    const { client } = this.#options;
    if (!this.#attaches) {
      await this.#patchStatus(attachment, { attached: true });
      return;
    }
    try {
      const volume = await this.#volume(attachment);
      if (volume.metadata?.deletionTimestamp !== undefined)
        throw new Error(`PersistentVolume "${volume.metadata.name}" is marked for deletion`);
      // finalizers come before the call: neither object may be deleted while the volume may be attached
      await this.#addVolumeFinalizer(volume);
      const held = await this.#addAttachmentFinalizer(attachment);
      const publishContext = await this.#publish(held, volume);
      await this.#patchStatus(held, {
        attached: true,
        ...(Object.keys(publishContext).length > 0 && { attachmentMetadata: publishContext }),
      });
    } catch (error) {
      if (isStatus(error, 'Conflict')) throw error;
      await client
        .patch(
          volumeAttachments,
          nameOf(attachment),
          'merge',
          { status: { attached: false, attachError: this.#volumeError(error) } },
          { subresource: 'status' },
        )
        .catch(ignoreNotFound);
      throw error;
    }
  }

  async #publish({ spec: { nodeName } }: VolumeAttachment, { spec = {} }: PersistentVolume): Promise<Strings> {
    const { driver, client } = this.#options;
    const { csi, accessModes, volumeMode, mountOptions } = spec;
    if (csi === undefined) throw new Error('not a volume of a CSI driver');
    return driver.client.controllerPublishVolume({
      volumeId: csi.volumeHandle,
      nodeId: this.#nodeId(nodeName),
      volumeCapability: capability(
        { accessModes, volumeMode, mountOptions, fsType: csi.fsType },
        driver.controllerCapabilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
      ),
      readonly: driver.controllerCapabilities.has('PUBLISH_READONLY') && csi.readOnly === true,
      secrets: await readSecrets(client, { ref: csi.controllerPublishSecretRef, reader: 'attacher' }),
      volumeContext: csi.volumeAttributes ?? {},
    });
  }

  async #detach(attachment: VolumeAttachment): Promise<void> {
    const { driver, client } = this.#options;
    const finalizers = attachment.metadata?.finalizers ?? [];
    if (!finalizers.includes(this.#finalizer)) return;
    try {
      const volume = await this.#volume(attachment);
      const csi = volume.spec?.csi;
      // the CSINode of a deleted node is gone, so the attachment's annotation has its node id
      const nodeId = attachment.metadata?.annotations?.[nodeIdAnnotation] ?? this.#nodeId(attachment.spec.nodeName);
      if (this.#attaches && csi !== undefined)
        await driver.client.controllerUnpublishVolume(
          csi.volumeHandle,
          nodeId,
          await readSecrets(client, { ref: csi.controllerPublishSecretRef, reader: 'attacher' }),
        );
    } catch (error) {
      await client
        .patch(
          volumeAttachments,
          nameOf(attachment),
          'merge',
          { status: { detachError: this.#volumeError(error) } },
          { subresource: 'status' },
        )
        .catch(ignoreNotFound);
      throw error;
    }
    await client
      .update(volumeAttachments, {
        ...attachment,
        metadata: { ...attachment.metadata, finalizers: finalizers.filter((each) => each !== this.#finalizer) },
      })
      .catch(ignoreNotFound);
  }

  /** Removes the finalizer of a PersistentVolume that is being deleted, when the volume has no attachments. */
  async #releaseVolume(name: string): Promise<void> {
    const { client } = this.#options;
    const volume = this.#volumes.get(name);
    if (volume?.metadata?.deletionTimestamp === undefined || volume.metadata.finalizers?.includes(this.#finalizer) !== true) return;
    if (this.#attachments.list().some(({ spec }) => spec.source.persistentVolumeName === name)) return;
    await client
      .update(persistentVolumes, {
        ...volume,
        metadata: { ...volume.metadata, finalizers: volume.metadata.finalizers.filter((each) => each !== this.#finalizer) },
      })
      .catch(ignoreNotFound);
  }

  async #volume({ spec: { source } }: VolumeAttachment): Promise<PersistentVolume> {
    if (source.inlineVolumeSpec !== undefined) return { spec: source.inlineVolumeSpec };
    return this.#options.client.get(persistentVolumes, { name: source.persistentVolumeName ?? '' });
  }

  async #addVolumeFinalizer(volume: PersistentVolume): Promise<void> {
    const finalizers = volume.metadata?.finalizers ?? [];
    if (volume.metadata?.name === undefined || finalizers.includes(this.#finalizer)) return;
    await this.#options.client.update(persistentVolumes, {
      ...volume,
      metadata: { ...volume.metadata, finalizers: [...finalizers, this.#finalizer] },
    });
  }

  async #addAttachmentFinalizer(attachment: VolumeAttachment): Promise<VolumeAttachment> {
    const { metadata = {} } = attachment;
    const finalizers = metadata.finalizers ?? [];
    if (finalizers.includes(this.#finalizer)) return attachment;
    const annotations = { ...metadata.annotations, [nodeIdAnnotation]: this.#nodeId(attachment.spec.nodeName) };
    return this.#options.client.update(volumeAttachments, {
      ...attachment,
      metadata: { ...metadata, annotations, finalizers: [...finalizers, this.#finalizer] },
    });
  }

  /** Returns the driver's id of a node. @throws Error if the driver is not registered on the node */
  #nodeId(nodeName: string): string {
    const { driver } = this.#options;
    const id = this.#nodes.get(nodeName)?.spec.drivers.find(({ name }) => name === driver.name)?.nodeID;
    if (id === undefined) throw new Error(`CSINode ${nodeName} does not contain driver ${driver.name}`);
    return id;
  }

  async #patchStatus(attachment: VolumeAttachment, status: VolumeAttachment['status']): Promise<void> {
    await this.#options.client
      .patch(
        volumeAttachments,
        nameOf(attachment),
        'merge',
        { metadata: { uid: attachment.metadata?.uid }, status: { ...status, attachError: null } },
        { subresource: 'status' },
      )
      .catch(ignoreNotFound);
  }

  #volumeError(error: unknown): VolumeErrorStatus {
    const code = error instanceof GrpcError ? status[error.code] : undefined;
    return {
      message: callErrorText(error).slice(0, maxErrorLength),
      time: formatTime(this.#options.clock.now()),
      ...(code !== undefined && { errorCode: code }),
    };
  }
}

/** Returns the fields of a VolumeAttachment. If one of them changes, the controller reconciles the VolumeAttachment again. */
const stageOf = ({ metadata, status }: VolumeAttachment) => `${metadata?.deletionTimestamp !== undefined} ${status?.attached === true}`;
const nameOf = ({ metadata }: VolumeAttachment) => ({ name: metadata?.name ?? '' });
const ignoreNotFound = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
