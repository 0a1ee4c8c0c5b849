import { nodes, volumeAttachments } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node } from '@oarlock/api/types/core-v1';
import { createHash } from 'node:crypto';
import { grpcStatus } from '@oarlock/grpc/grpc-error';
import type { VolumeAttachment } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client, Informer } from '@oarlock/spi/client';
import { VolumeError } from '@oarlock/spi/volume';

/** Returns the name of a volume in the node status, which the attach-detach controller also uses (UniqueVolumeName upstream). */
export const uniqueName = (driver: string, volumeHandle: string) => `kubernetes.io/csi/${driver}^${volumeHandle}`;
/** Returns the name of the VolumeAttachment of a volume to a node. */
export const attachmentName = (driver: string, volumeHandle: string, nodeName: string) =>
  `csi-${createHash('sha256').update(`${volumeHandle}${driver}${nodeName}`).digest('hex')}`;

const resourceExhausted = grpcStatus.RESOURCE_EXHAUSTED;

export interface AttachableVolume {
  readonly driver: string;
  readonly volumeHandle: string;
  /** The name of the PersistentVolume. */
  readonly volumeName: string;
}

export interface VolumesInUseOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly nodeName: string;
  /** Returns the informer that watches only this node. */
  readonly node: () => Informer<Node>;
  /** How long `waitForAttachment` waits. Milliseconds. */
  readonly attachTimeoutMs: number;
  /** Called when the driver cannot attach another volume to the node. */
  onResourceExhausted?(driver: string): void;
}

/**
 * Reports in the node's `status.volumesInUse` which attachable volumes are in use, from before until after their use, so that no volume in use is
 * detached: this node writes `volumesInUse` before it reads `volumesAttached`; the attach-detach controller does the reverse.
 */
export class VolumesInUse {
  readonly #options: VolumesInUseOptions;
  readonly #used = new Set<string>();
  #writing: Promise<Node> | undefined;
  #next: Promise<Node> | undefined;

  constructor(options: VolumesInUseOptions) {
    this.#options = options;
  }

  /** Adds a volume that was in use before this process started. The node status is written with the next change, or by `write`. */
  adopt(driver: string, volumeHandle: string): void {
    this.#used.add(uniqueName(driver, volumeHandle));
  }

  /** Writes the node status. Resolves with the Node when its status contains all volumes in use. @throws StatusError if the write fails */
  write(): Promise<Node> {
    // a write that waits for the previous one covers all changes until it starts
    this.#next ??= (this.#writing ?? Promise.resolve())
      .catch(() => undefined)
      .then(() => {
        this.#writing = this.#next;
        this.#next = undefined;
        return this.#patch();
      });
    return this.#next;
  }

  /**
   * Marks a volume as in use, waits until the volume is attached, and returns the attacher's metadata.
   * @throws VolumeError if the volume is not attached in time: `ResourceExhausted` if the driver reported that the node has reached its limit
   * (KEP-4876), otherwise `NotReady`; the volume stays in use until it is released
   */
  async waitForAttachment({ driver, volumeHandle, volumeName }: AttachableVolume, signal: AbortSignal | undefined): Promise<Strings> {
    const { client, nodeName, clock, attachTimeoutMs } = this.#options;
    const name = uniqueName(driver, volumeHandle);
    const timeout = new AbortController();
    const timer = clock.after(attachTimeoutMs, () => timeout.abort(this.#notAttached(volumeName)));
    const until = signal === undefined ? timeout.signal : AbortSignal.any([signal, timeout.signal]);
    try {
      this.#used.add(name);
      // the cache may still show a removed attachment, so only a node that was read after the write counts
      let node = await this.write();
      while (!has(node, name)) {
        await this.#waitForCache(name, until);
        node = await client.get(nodes, { name: nodeName }, { signal: until });
      }
    } catch (error) {
      if (timeout.signal.aborted && isExhausted(await this.#attachment(driver, volumeHandle, undefined)))
        throw new VolumeError('ResourceExhausted', `node ${nodeName} has no capacity to attach volume ${volumeName}`, { cause: error });
      throw error;
    } finally {
      timer.cancel();
    }
    const attachment = await this.#attachment(driver, volumeHandle, signal);
    if (attachment?.status?.attached === true && attachment.metadata?.deletionTimestamp === undefined)
      return attachment.status.attachmentMetadata ?? {};
    throw this.#notAttached(volumeName);
  }

  /** Marks a volume as no longer in use. @throws StatusError if the status cannot be written; the volume then stays in use */
  async release(driver: string, volumeHandle: string): Promise<void> {
    const name = uniqueName(driver, volumeHandle);
    if (!this.#used.delete(name)) return;
    try {
      await this.write();
    } catch (error) {
      this.#used.add(name);
      throw error;
    }
  }

  async #attachment(driver: string, volumeHandle: string, signal: AbortSignal | undefined): Promise<VolumeAttachment | undefined> {
    const { client, nodeName, onResourceExhausted } = this.#options;
    const name = attachmentName(driver, volumeHandle, nodeName);
    const attachment = await client.get(volumeAttachments, { name }, { ...(signal && { signal }) }).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
    if (isExhausted(attachment)) onResourceExhausted?.(driver);
    return attachment;
  }

  #notAttached(volumeName: string): VolumeError {
    return new VolumeError('NotReady', `volume ${volumeName} is not attached to node ${this.#options.nodeName} yet`);
  }

  /** Resolves when the informer's cache contains the volume as attached. */
  #waitForCache(name: string, signal: AbortSignal): Promise<void> {
    const { node, nodeName } = this.#options;
    return new Promise((resolve, reject) => {
      let off: (() => void) | undefined;
      let ended = false;
      const end = (then: () => void) => {
        if (ended) return;
        ended = true;
        signal.removeEventListener('abort', abort);
        off?.();
        then();
      };
      const abort = () => end(() => reject(signal.reason as Error));
      if (signal.aborted) {
        abort();
        return;
      }
      signal.addEventListener('abort', abort, { once: true });
      const check = (object: Node) => {
        if (object.metadata?.name === nodeName && has(object, name)) end(resolve);
      };
      off = node().addEventHandler({ onAdd: check, onUpdate: check });
      // cached objects are delivered during addEventHandler, before `off` is assigned
      if (ended) off();
    });
  }

  #patch(): Promise<Node> {
    const { client, nodeName } = this.#options;
    const volumesInUse = [...this.#used].sort();
    const status = { volumesInUse: volumesInUse.length > 0 ? volumesInUse : null };
    return client.patch(nodes, { name: nodeName }, 'merge', { status }, { subresource: 'status' });
  }
}

const isExhausted = (attachment: VolumeAttachment | undefined) => attachment?.status?.attachError?.errorCode === resourceExhausted;
const has = ({ status }: Node, name: string) => status?.volumesAttached?.some((each) => each.name === name) === true;
