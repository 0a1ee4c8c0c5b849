import { createHash } from 'node:crypto';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import {
  csiDrivers,
  nodes as nodeResource,
  persistentVolumeClaims,
  persistentVolumes,
  pods as podResource,
  volumeAttachments,
} from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, PersistentVolume, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { CSIDriver, VolumeAttachment } from '@oarlock/api/types/storage-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { isTerminal } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { podsByClaimIndex, claimKeysOfPod } from '../../indexes/pods-by-claim.ts';
import { podsByNodeIndex, podNodeKeys } from '../../indexes/pods-by-node.ts';

const byAttachedNode = 'attachments-of-node';
const byVolume = 'attachments-of-volume';
const attachedTo = ({ spec }: VolumeAttachment) => [spec.nodeName];
const volumeOf = ({ spec }: VolumeAttachment) => (spec.source.persistentVolumeName === undefined ? [] : [spec.source.persistentVolumeName]);

interface AttachDetachControllerOptions {
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
  readonly attachments: Informer<VolumeAttachment>;
  readonly drivers: Informer<CSIDriver>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  /** Time in milliseconds after which a volume is force-detached from a node that is not ready and still reports the volume in use. */
  readonly forceDetachMs: number;
}
interface DetachingVolume {
  readonly attachment: VolumeAttachment;
  /** True if the volume is detached although the node may still use the volume. */
  readonly forced: boolean;
  readonly uniqueVolumeName?: string;
}
interface DesiredAttachment {
  readonly volume: PersistentVolume;
  readonly pods: readonly Pod[];
}

/** Returns the unique volume name in `volumesInUse` and `volumesAttached` of a node. */
const uniqueName = ({ spec }: PersistentVolume) => `kubernetes.io/csi/${spec?.csi?.driver}^${spec?.csi?.volumeHandle}`;
/** Returns the name of a VolumeAttachment, as external attachers expect it. */
export const attachmentName = ({ spec }: PersistentVolume, node: string): string =>
  `csi-${createHash('sha256').update(`${spec?.csi?.volumeHandle}${spec?.csi?.driver}${node}`).digest('hex')}`;
/** Matches the names of VolumeAttachments that this controller created, to find attachments whose volume is deleted. */
const attachmentNamePattern = /^csi-[0-9a-f]{64}$/;

/** The current and the desired list of attached volumes. */
interface AttachedVolumes {
  readonly volumesAttached: readonly { readonly name: string; readonly devicePath: string }[];
  readonly desired: ReadonlyMap<string, DesiredAttachment>;
  readonly client: Client;
}

/** Attaches volumes to the nodes whose pods use them, and detaches each volume when no pod on the node uses it any more. */
export class AttachDetachController implements Controller {
  readonly name = 'persistentvolume-attach-detach';
  readonly watches;
  readonly #options: AttachDetachControllerOptions;
  /** Time at which each VolumeAttachment became unused, in milliseconds of the monotonic clock. */
  readonly #unusedSince = new Map<string, number>();

  constructor(options: AttachDetachControllerOptions) {
    this.#options = options;
    const { pods, nodes, claims, volumes, attachments } = options;
    pods.addIndexer(podsByNodeIndex, podNodeKeys);
    pods.addIndexer(podsByClaimIndex, claimKeysOfPod);
    attachments.addIndexer(byAttachedNode, attachedTo);
    attachments.addIndexer(byVolume, volumeOf);
    const nodesOfClaim = (key: ObjectKey) => pods.byIndex(podsByClaimIndex, key).flatMap(podNodeKeys);
    const nodesOfVolume = (volume: PersistentVolume | undefined) => {
      const ref = volume?.spec?.claimRef;
      return ref === undefined ? [] : nodesOfClaim(`${ref.namespace}/${ref.name}`);
    };
    this.watches = [
      watch(options.drivers, () => []), // drivers are only read, but must have synced
      watch(pods, (pod) => (claimKeysOfPod(pod).length > 0 ? podNodeKeys(pod) : [])),
      watch(claims, (claim) => nodesOfClaim(objectKey(claim))),
      watch(volumes, nodesOfVolume),
      // a deleted attachment permits another node to attach the volume
      watch(attachments, (attachment) => [
        attachment.spec.nodeName,
        ...volumeOf(attachment).flatMap((name) => nodesOfVolume(volumes.get(name))),
      ]),
      watch(nodes, (node, old) => (old === undefined || reportedVolumes(node) !== reportedVolumes(old) ? [node.metadata?.name ?? ''] : [])),
    ];
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { attachments, nodes, clock, forceDetachMs } = this.#options;
    const node = nodes.get(name);
    const desired = this.#desiredAttachments(name);
    const existing = new Map(attachments.byIndex(byAttachedNode, name).map((each) => [each.metadata?.name ?? '', each]));
    const volumesAttached: { readonly name: string; readonly devicePath: string }[] = [];
    for (const [id, attachmentSpec] of desired) {
      this.#unusedSince.delete(id);
      const attachment = existing.get(id);
      if (attachment === undefined) {
        if (node !== undefined) await this.#attach(id, { nodeName: name, attachment: attachmentSpec, client });
      } else if (attachment.status?.attached === true) volumesAttached.push({ name: uniqueName(attachmentSpec.volume), devicePath: '' });
      else if (attachment.status?.attachError?.message !== undefined)
        this.#recordEvent(
          attachmentSpec,
          'FailedAttachVolume',
          `AttachVolume.Attach failed for volume "${attachmentSpec.volume.metadata?.name}" : ${attachment.status.attachError.message}`,
        );
    }
    const toDetach: DetachingVolume[] = [];
    let waitMs = Number.POSITIVE_INFINITY;
    for (const [id, attachment] of existing) {
      const volume = this.#options.volumes.get(attachment.spec.source.persistentVolumeName ?? '');
      if (desired.has(id) || attachment.metadata?.deletionTimestamp !== undefined) continue;
      if (volume === undefined ? !attachmentNamePattern.test(id) : id !== attachmentName(volume, name)) continue; // created by another client
      const since = this.#unusedSince.get(id) ?? clock.monotonic();
      this.#unusedSince.set(id, since);
      const remainingMs = since + forceDetachMs - clock.monotonic();
      const forced = node === undefined || isOutOfService(node) || (remainingMs <= 0 && !isHealthy(node));
      if (volume !== undefined && !forced && inUse(node).includes(uniqueName(volume))) {
        // a ready node is waited for without limit
        if (remainingMs > 0) waitMs = Math.min(waitMs, remainingMs);
        if (attachment.status?.attached === true) volumesAttached.push({ name: uniqueName(volume), devicePath: '' });
      } else toDetach.push({ attachment, forced, ...(volume && { uniqueVolumeName: uniqueName(volume) }) });
    }
    let updatedNode = node;
    if (node !== undefined) {
      // volumes are removed from the live status of the node, not from a stale one in the cache
      const current = toDetach.length === 0 ? node : await ignoreNotFound(() => client.get(nodeResource, objectName(node)));
      updatedNode = current && (await this.#writeVolumesAttached(current, { volumesAttached, desired, client }));
    }
    for (const { attachment, forced, uniqueVolumeName } of toDetach) {
      // the node mounted the volume just before the status was written: its next status update triggers a reconcile
      if (!forced && uniqueVolumeName !== undefined && updatedNode !== undefined && inUse(updatedNode).includes(uniqueVolumeName)) continue;
      await ignoreNotFound(() =>
        client.delete(volumeAttachments, objectName(attachment), { preconditions: { uid: attachment.metadata?.uid ?? '' } }),
      );
      this.#unusedSince.delete(attachment.metadata?.name ?? '');
    }
    return Number.isFinite(waitMs) ? { requeueAfterMs: waitMs } : undefined;
  }

  /** Returns the volumes that the pods of a node need, keyed by VolumeAttachment name. */
  #desiredAttachments(name: string): ReadonlyMap<string, DesiredAttachment> {
    const { pods, claims, volumes, drivers } = this.#options;
    const desired = new Map<string, DesiredAttachment>();
    for (const pod of pods.byIndex(podsByNodeIndex, name)) {
      if (isTerminal(pod)) continue;
      for (const key of claimKeysOfPod(pod)) {
        const claim = claims.get(key);
        const volume = claim?.status?.phase === 'Bound' ? volumes.get(claim.spec?.volumeName ?? '') : undefined;
        const driver = volume?.spec?.csi?.driver;
        if (volume === undefined || driver === undefined || drivers.get(driver)?.spec.attachRequired === false) continue;
        const id = attachmentName(volume, name);
        desired.set(id, { volume, pods: [...(desired.get(id)?.pods ?? []), pod] });
      }
    }
    return desired;
  }

  async #attach(
    id: string,
    { nodeName, attachment, client }: { readonly nodeName: string; readonly attachment: DesiredAttachment; readonly client: Client },
  ): Promise<void> {
    const { spec, metadata } = attachment.volume;
    const shared = spec?.accessModes?.some((mode) => mode === 'ReadWriteMany' || mode === 'ReadOnlyMany') ?? false;
    const others = this.#options.attachments.byIndex(byVolume, metadata?.name ?? '').some((each) => each.spec.nodeName !== nodeName);
    if (!shared && others) {
      this.#recordMultiAttachError(attachment, nodeName);
      return;
    }
    try {
      await client.create(volumeAttachments, {
        apiVersion: 'storage.k8s.io/v1',
        kind: 'VolumeAttachment',
        metadata: { name: id },
        spec: { attacher: spec?.csi?.driver ?? '', nodeName, source: { persistentVolumeName: metadata?.name ?? '' } },
      });
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
    }
  }

  /** Records a Multi-Attach event on each pod. The message names the other pods of the volume only if they are in the same namespace. */
  #recordMultiAttachError({ volume, pods }: DesiredAttachment, nodeName: string): void {
    const ref = volume.spec?.claimRef;
    const others = this.#options.pods
      .byIndex(podsByClaimIndex, `${ref?.namespace}/${ref?.name}`)
      .filter(({ metadata, spec }) => spec?.nodeName !== undefined && spec.nodeName !== nodeName && metadata !== undefined);
    for (const pod of pods) {
      const sameNamespace = others
        .filter(({ metadata }) => metadata?.namespace === pod.metadata?.namespace)
        .map(({ metadata }) => metadata?.name ?? '');
      const otherNamespaces = others.length - sameNamespace.length;
      const reason =
        others.length === 0
          ? "Volume is already exclusively attached to one node and can't be attached to another"
          : sameNamespace.length === 0
            ? `Volume is already used by ${otherNamespaces} pod(s) in different namespaces`
            : `Volume is already used by pod(s) ${sameNamespace.sort().join(', ')}${otherNamespaces > 0 ? ` and ${otherNamespaces} pod(s) in different namespaces` : ''}`;
      this.#recordEvent(
        { volume, pods: [pod] },
        'FailedAttachVolume',
        `Multi-Attach error for volume "${volume.metadata?.name}" ${reason}`,
      );
    }
  }

  /**
   * Writes `volumesAttached` to the node status, so that the kubelet stops using a volume before the volume is detached. Returns the updated
   * node, or undefined if the node is deleted.
   */
  async #writeVolumesAttached(node: Node, { volumesAttached, desired, client }: AttachedVolumes): Promise<Node | undefined> {
    const before = node.status?.volumesAttached ?? [];
    const names = (list: readonly { readonly name: string }[]) =>
      list
        .map(({ name }) => name)
        .sort()
        .join();
    if (names(before) === names(volumesAttached)) return node;
    const updated = await ignoreNotFound(() =>
      client.patch(
        nodeResource,
        objectName(node),
        'merge',
        { metadata: { uid: node.metadata?.uid }, status: { volumesAttached: volumesAttached.length > 0 ? volumesAttached : null } },
        { subresource: 'status' },
      ),
    );
    const previousNames = new Set(before.map(({ name }) => name));
    for (const attachment of desired.values())
      if (!previousNames.has(uniqueName(attachment.volume)) && volumesAttached.some(({ name }) => name === uniqueName(attachment.volume)))
        this.#recordEvent(
          attachment,
          'SuccessfulAttachVolume',
          `AttachVolume.Attach succeeded for volume "${attachment.volume.metadata?.name}" `,
        );
    return updated;
  }

  #recordEvent({ pods }: DesiredAttachment, reason: string, message: string): void {
    for (const pod of pods)
      this.#options.recorder.event(withTypeMeta(podResource, pod), reason.startsWith('Failed') ? 'Warning' : 'Normal', reason, message);
  }
}

const inUse = ({ status }: Node): readonly string[] => status?.volumesInUse ?? [];
const isHealthy = ({ status }: Node) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
/** Returns true if the node has the out-of-service taint, with which an administrator confirms that the node is shut down. */
const isOutOfService = ({ spec }: Node) => spec?.taints?.some(({ key }) => key === 'node.kubernetes.io/out-of-service') === true;
/** Returns the properties of a node that affect detaching, as text for comparison. */
const reportedVolumes = (node: Node) => [...inUse(node), isHealthy(node), isOutOfService(node)].join();

export default Controllers.plugin({
  id: 'controller-attach-detach',
  declares: { loop: 'persistentvolume-attach-detach' },
  config: z.strictObject({
    /** Seconds after which a volume is detached from a node that is not ready and still reports it in use. */
    forceDetachSeconds: z.number().int().min(0).default(360),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new AttachDetachController({
      pods: informers.forResource(podResource),
      nodes: informers.forResource(nodeResource),
      claims: informers.forResource(persistentVolumeClaims),
      volumes: informers.forResource(persistentVolumes),
      attachments: informers.forResource(volumeAttachments),
      drivers: informers.forResource(csiDrivers),
      recorder: events.recorder('attachdetach-controller'),
      clock,
      forceDetachMs: config.forceDetachSeconds * 1000,
    }),
});
