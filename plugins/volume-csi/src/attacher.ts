import { csiNodes, persistentVolumes, volumeAttachments } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import type { CSINode, VolumeAttachment, VolumeError as VolumeErrorStatus } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import { GrpcError, grpcStatus as status } from '@oarlock/grpc/grpc-error';
import type { Informer } from '@oarlock/spi/client';
import { capability } from './capability.ts';
import { readSecrets } from './secrets.ts';
import type { Sidecar, SidecarOptions } from './sidecar.ts';
import { WorkLoop } from './work-loop.ts';

const nodeIdNote = 'csi.alpha.kubernetes.io/node-id';
/** What attachers of Kubernetes put on attachments and on volumes that are attached. */
const finalizerOf = (driver: string) => `external-attacher/${driver.replaceAll('.', '-')}`;

/**
 * Does what an external attacher beside a driver would: publishes volumes to the nodes that attachments name, and takes them back before the
 * attachments go. A driver that does not attach has each attachment confirmed. Where volumes belong to a node, each node looks after its own.
 */
export class Attacher implements Sidecar {
  readonly #options: SidecarOptions;
  readonly #attachments: Informer<VolumeAttachment>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #nodes: Informer<CSINode>;
  readonly #loop: WorkLoop;
  readonly #finalizer: string;

  constructor(options: SidecarOptions) {
    const { informers, clock, log, driver } = options;
    this.#options = options;
    this.#finalizer = finalizerOf(driver.name);
    this.#attachments = informers.of(volumeAttachments);
    this.#volumes = informers.of(persistentVolumes);
    this.#nodes = informers.of(csiNodes);
    this.#loop = new WorkLoop({
      name: `attacher-${driver.name}`,
      clock,
      log,
      caches: [this.#attachments, this.#volumes, this.#nodes],
      work: (key) => (key.startsWith('volume ') ? this.#letGo(key.slice('volume '.length)) : this.#look(key)),
    });
  }

  start(): void {
    const { driver } = this.#options;
    const attachment = ({ metadata, spec }: VolumeAttachment) => {
      if (spec.attacher === driver.name) this.#loop.add(metadata?.name ?? '');
    };
    const volume = ({ metadata, spec }: PersistentVolume) => {
      if (spec?.csi?.driver === driver.name && metadata?.deletionTimestamp !== undefined) this.#loop.add(`volume ${metadata.name}`);
    };
    this.#loop.start(
      this.#attachments.on({
        added: attachment,
        // what is said here of how it goes is no reason to try again
        updated: (now, old) => {
          if (now === old || stageOf(now) !== stageOf(old)) attachment(now);
        },
        deleted: ({ spec }) => {
          const name = spec.source.persistentVolumeName;
          if (spec.attacher === driver.name && name !== undefined) this.#loop.add(`volume ${name}`);
        },
      }),
      this.#volumes.on({ added: volume, updated: volume }),
    );
  }
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  get #attaches(): boolean {
    return this.#options.driver.controllerAbilities.has('PUBLISH_UNPUBLISH_VOLUME');
  }

  async #look(name: string): Promise<void> {
    const { driver, nodeName, client } = this.#options;
    if (this.#attachments.get(name) === undefined) return;
    // what is cached may be older than what this loop wrote
    const attachment = await client.get(volumeAttachments, { name }).catch(gone);
    if (attachment === undefined) return;
    if (driver.node.accessibleTopology !== undefined && !driver.config.central && attachment.spec.nodeName !== nodeName) return;
    if (attachment.metadata?.deletionTimestamp !== undefined) await this.#detach(attachment);
    else if (attachment.status?.attached !== true) await this.#attach(attachment);
  }

  async #attach(attachment: VolumeAttachment): Promise<void> {
    const { client } = this.#options;
    if (!this.#attaches) {
      await this.#status(attachment, { attached: true });
      return;
    }
    try {
      const volume = await this.#volume(attachment);
      if (volume.metadata?.deletionTimestamp !== undefined)
        throw new Error(`PersistentVolume "${volume.metadata.name}" is marked for deletion`);
      // before the driver is asked: neither may go while it may be attached
      await this.#hold(volume);
      const held = await this.#holdAttachment(attachment);
      const publishContext = await this.#publish(held, volume);
      await this.#status(held, { attached: true, ...(Object.keys(publishContext).length > 0 && { attachmentMetadata: publishContext }) });
    } catch (error) {
      if (isStatus(error, 'Conflict')) throw error;
      await client
        .patch(
          volumeAttachments,
          nameOf(attachment),
          'merge',
          { status: { attached: false, attachError: this.#told(error) } },
          { subresource: 'status' },
        )
        .catch(gone);
      throw error;
    }
  }

  async #publish({ spec: { nodeName } }: VolumeAttachment, { spec = {} }: PersistentVolume): Promise<Strings> {
    const { driver, client } = this.#options;
    const { csi, accessModes, volumeMode, mountOptions } = spec;
    if (csi === undefined) throw new Error('not a volume of a CSI driver');
    return driver.client.publish({
      volumeId: csi.volumeHandle,
      nodeId: this.#nodeId(nodeName),
      volumeCapability: capability(
        { accessModes, volumeMode, mountOptions, fsType: csi.fsType },
        driver.controllerAbilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
      ),
      readonly: driver.controllerAbilities.has('PUBLISH_READONLY') && csi.readOnly === true,
      secrets: await readSecrets(client, csi.controllerPublishSecretRef),
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
      // a node that is gone cannot be asked any more: its attachments remember what the driver called it
      const nodeId = attachment.metadata?.annotations?.[nodeIdNote] ?? this.#nodeId(attachment.spec.nodeName);
      if (this.#attaches && csi !== undefined)
        await driver.client.unpublish(csi.volumeHandle, nodeId, await readSecrets(client, csi.controllerPublishSecretRef));
    } catch (error) {
      await client
        .patch(volumeAttachments, nameOf(attachment), 'merge', { status: { detachError: this.#told(error) } }, { subresource: 'status' })
        .catch(gone);
      throw error;
    }
    await client
      .update(volumeAttachments, {
        ...attachment,
        metadata: { ...attachment.metadata, finalizers: finalizers.filter((each) => each !== this.#finalizer) },
      })
      .catch(gone);
  }

  /** A volume that is on its way out is let go when nothing of it is attached. */
  async #letGo(name: string): Promise<void> {
    const { client } = this.#options;
    const volume = this.#volumes.get(name);
    if (volume?.metadata?.deletionTimestamp === undefined || volume.metadata.finalizers?.includes(this.#finalizer) !== true) return;
    if (this.#attachments.list().some(({ spec }) => spec.source.persistentVolumeName === name)) return;
    await client
      .update(persistentVolumes, {
        ...volume,
        metadata: { ...volume.metadata, finalizers: volume.metadata.finalizers.filter((each) => each !== this.#finalizer) },
      })
      .catch(gone);
  }

  async #volume({ spec: { source } }: VolumeAttachment): Promise<PersistentVolume> {
    if (source.inlineVolumeSpec !== undefined) return { spec: source.inlineVolumeSpec };
    return this.#options.client.get(persistentVolumes, { name: source.persistentVolumeName ?? '' });
  }

  async #hold(volume: PersistentVolume): Promise<void> {
    const finalizers = volume.metadata?.finalizers ?? [];
    if (volume.metadata?.name === undefined || finalizers.includes(this.#finalizer)) return;
    await this.#options.client.update(persistentVolumes, {
      ...volume,
      metadata: { ...volume.metadata, finalizers: [...finalizers, this.#finalizer] },
    });
  }

  async #holdAttachment(attachment: VolumeAttachment): Promise<VolumeAttachment> {
    const { metadata = {} } = attachment;
    const finalizers = metadata.finalizers ?? [];
    if (finalizers.includes(this.#finalizer)) return attachment;
    const annotations = { ...metadata.annotations, [nodeIdNote]: this.#nodeId(attachment.spec.nodeName) };
    return this.#options.client.update(volumeAttachments, {
      ...attachment,
      metadata: { ...metadata, annotations, finalizers: [...finalizers, this.#finalizer] },
    });
  }

  /** What the driver calls a node. @throws Error for a node that does not have the driver */
  #nodeId(nodeName: string): string {
    const { driver } = this.#options;
    const id = this.#nodes.get(nodeName)?.spec.drivers.find(({ name }) => name === driver.name)?.nodeID;
    if (id === undefined) throw new Error(`CSINode ${nodeName} does not contain driver ${driver.name}`);
    return id;
  }

  async #status(attachment: VolumeAttachment, status: VolumeAttachment['status']): Promise<void> {
    await this.#options.client
      .patch(
        volumeAttachments,
        nameOf(attachment),
        'merge',
        { metadata: { uid: attachment.metadata?.uid }, status: { ...status, attachError: null } },
        { subresource: 'status' },
      )
      .catch(gone);
  }

  #told(error: unknown): VolumeErrorStatus {
    const code = error instanceof GrpcError ? status[error.code] : undefined;
    return {
      message: error instanceof Error ? error.message : String(error),
      time: formatTime(this.#options.clock.now()),
      ...(code !== undefined && { errorCode: code }),
    };
  }
}

/** What makes an attachment worth another look. */
const stageOf = ({ metadata, status }: VolumeAttachment) => `${metadata?.deletionTimestamp !== undefined} ${status?.attached === true}`;
const nameOf = ({ metadata }: VolumeAttachment) => ({ name: metadata?.name ?? '' });
const gone = (error: unknown): undefined => {
  if (!isStatus(error, 'NotFound')) throw error;
};
