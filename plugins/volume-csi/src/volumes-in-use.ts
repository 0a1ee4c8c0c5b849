import { nodes, volumeAttachments } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node } from '@oarlock/api/types/core-v1';
import { createHash } from 'node:crypto';
import { grpcStatus } from '@oarlock/grpc/grpc-error';
import type { VolumeAttachment } from '@oarlock/api/types/storage-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client, Informer } from '@oarlock/spi/client';
import { VolumeError } from '@oarlock/spi/volume';

/** The name by which a node and the attach-detach loop call a volume to each other. */
export const uniqueName = (driver: string, volumeHandle: string) => `kubernetes.io/csi/${driver}^${volumeHandle}`;
/** What the attachment of a volume to a node is called. */
export const attachmentName = (driver: string, volumeHandle: string, nodeName: string) =>
  `csi-${createHash('sha256').update(`${volumeHandle}${driver}${nodeName}`).digest('hex')}`;

const resourceExhausted = grpcStatus.RESOURCE_EXHAUSTED;

export interface Attachable {
  readonly driver: string;
  readonly volumeHandle: string;
  /** Of the PersistentVolume. */
  readonly volumeName: string;
}

export interface VolumesInUseOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly nodeName: string;
  /** Of this node alone. */
  readonly node: () => Informer<Node>;
  /** How long to wait for an attachment before whoever asks is told to come again. Milliseconds. */
  readonly patienceMs: number;
  /** Told of a driver that has no room for another volume on the node. */
  exhausted?(driver: string): void;
}

/**
 * Says in the node's status which attachable volumes it uses, before it uses them and until it does not any more, so that none is detached
 * meanwhile: `volumesInUse` is written first, and only then `volumesAttached` is read; whoever detaches does it the other way round.
 */
export class VolumesInUse {
  readonly #options: VolumesInUseOptions;
  readonly #used = new Set<string>();
  #writing: Promise<Node> | undefined;
  #next: Promise<Node> | undefined;

  constructor(options: VolumesInUseOptions) {
    this.#options = options;
  }

  /** What was in use before this process began. Written with the next change, or by `write`. */
  adopt(driver: string, volumeHandle: string): void {
    this.#used.add(uniqueName(driver, volumeHandle));
  }

  /** Resolves with the node when its status shows what is in use. @throws StatusError */
  write(): Promise<Node> {
    // a write that waits for its turn takes in whatever comes meanwhile
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
   * Takes a volume into use, and waits until it is attached. Gives what the attacher says of it.
   * @throws VolumeError `NotReady` when it is not attached in time; it stays in use until it is released
   */
  async attached({ driver, volumeHandle, volumeName }: Attachable, signal: AbortSignal | undefined): Promise<Strings> {
    const { client, nodeName, clock, patienceMs } = this.#options;
    const name = uniqueName(driver, volumeHandle);
    const patience = new AbortController();
    const timer = clock.after(patienceMs, () => patience.abort(this.#notAttached(volumeName)));
    const until = signal === undefined ? patience.signal : AbortSignal.any([signal, patience.signal]);
    try {
      this.#used.add(name);
      // a cache may show an attachment that has been taken back meanwhile: what counts was read after the write
      let node = await this.write();
      while (!has(node, name)) {
        await this.#untilShown(name, until);
        node = await client.get(nodes, { name: nodeName }, { signal: until });
      }
    } catch (error) {
      if (patience.signal.aborted) await this.#attachment(driver, volumeHandle, undefined);
      throw error;
    } finally {
      timer.cancel();
    }
    const attachment = await this.#attachment(driver, volumeHandle, signal);
    if (attachment?.status?.attached === true && attachment.metadata?.deletionTimestamp === undefined)
      return attachment.status.attachmentMetadata ?? {};
    throw this.#notAttached(volumeName);
  }

  /** @throws StatusError when it could not be said: then the volume stays in use */
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
    const { client, nodeName, exhausted } = this.#options;
    const name = attachmentName(driver, volumeHandle, nodeName);
    const attachment = await client.get(volumeAttachments, { name }, { ...(signal && { signal }) }).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
    if (attachment?.status?.attachError?.errorCode === resourceExhausted) exhausted?.(driver);
    return attachment;
  }

  #notAttached(volumeName: string): VolumeError {
    return new VolumeError('NotReady', `volume ${volumeName} is not attached to node ${this.#options.nodeName} yet`);
  }

  /** Resolves when the cache shows it, for the first time or again. */
  #untilShown(name: string, signal: AbortSignal): Promise<void> {
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
      const see = (object: Node) => {
        if (object.metadata?.name === nodeName && has(object, name)) end(resolve);
      };
      off = node().on({ added: see, updated: see });
      // what was cached was told before there was anything to take off
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

const has = ({ status }: Node, name: string) => status?.volumesAttached?.some((each) => each.name === name) === true;
