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
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { isTerminal } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { byClaim, claimsOfPod } from '../pods-by-claim.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';

const byAttachedNode = 'attachments-of-node';
const byVolume = 'attachments-of-volume';
const attachedTo = ({ spec }: VolumeAttachment) => [spec.nodeName];
const volumeOf = ({ spec }: VolumeAttachment) => (spec.source.persistentVolumeName === undefined ? [] : [spec.source.persistentVolumeName]);

interface Parts {
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
  readonly attachments: Informer<VolumeAttachment>;
  readonly drivers: Informer<CSIDriver>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  /** After which a volume is detached from a node that is not ready although it has not said that it is free. */
  readonly forceDetachMs: number;
}
interface Leaving {
  readonly attachment: VolumeAttachment;
  /** Whether or not the node still uses it. */
  readonly forced: boolean;
  readonly unique?: string;
}
interface Need {
  readonly volume: PersistentVolume;
  readonly pods: readonly Pod[];
}

/** The name by which nodes and this loop call a volume to each other. */
const uniqueName = ({ spec }: PersistentVolume) => `kubernetes.io/csi/${spec?.csi?.driver}^${spec?.csi?.volumeHandle}`;
/** External attachers expect this name. */
export const attachmentName = ({ spec }: PersistentVolume, node: string): string =>
  `csi-${createHash('sha256').update(`${spec?.csi?.volumeHandle}${spec?.csi?.driver}${node}`).digest('hex')}`;
/** What attachments that this controller made are called, where their volume is gone. */
const ours = /^csi-[0-9a-f]{64}$/;

/** Has volumes attached to the nodes of the pods that use them, and detached after the last one. */
export class AttachDetachController implements Controller {
  readonly name = 'persistentvolume-attach-detach';
  readonly watches;
  readonly #parts: Parts;
  /** Since when attachments are not needed any more, on the monotonic clock. */
  readonly #idleSince = new Map<string, number>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const { pods, nodes, claims, volumes, attachments } = parts;
    pods.addIndex(byNode, nodeOf);
    pods.addIndex(byClaim, claimsOfPod);
    attachments.addIndex(byAttachedNode, attachedTo);
    attachments.addIndex(byVolume, volumeOf);
    const nodesOfClaim = (key: ObjectKey) => pods.byIndex(byClaim, key).flatMap(nodeOf);
    const nodesOfVolume = (volume: PersistentVolume | undefined) => {
      const ref = volume?.spec?.claimRef;
      return ref === undefined ? [] : nodesOfClaim(`${ref.namespace}/${ref.name}`);
    };
    this.watches = [
      watch(parts.drivers, () => []), // only asked, but it has to be there first
      watch(pods, (pod) => (claimsOfPod(pod).length > 0 ? nodeOf(pod) : [])),
      watch(claims, (claim) => nodesOfClaim(objectKey(claim))),
      watch(volumes, nodesOfVolume),
      // one that goes lets another node have the volume
      watch(attachments, (attachment) => [
        attachment.spec.nodeName,
        ...volumeOf(attachment).flatMap((name) => nodesOfVolume(volumes.get(name))),
      ]),
      watch(nodes, (node, old) => (old === undefined || told(node) !== told(old) ? [node.metadata?.name ?? ''] : [])),
    ];
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { attachments, nodes, clock, forceDetachMs } = this.#parts;
    const node = nodes.get(name);
    const needs = this.#needs(name);
    const present = new Map(attachments.byIndex(byAttachedNode, name).map((each) => [each.metadata?.name ?? '', each]));
    const ready: { readonly name: string; readonly devicePath: string }[] = [];
    for (const [id, need] of needs) {
      this.#idleSince.delete(id);
      const attachment = present.get(id);
      if (attachment === undefined) {
        if (node !== undefined) await this.#attach(id, name, need, client);
      } else if (attachment.status?.attached === true) ready.push({ name: uniqueName(need.volume), devicePath: '' });
      else if (attachment.status?.attachError?.message !== undefined)
        this.#tell(
          need,
          'FailedAttachVolume',
          `AttachVolume.Attach failed for volume "${need.volume.metadata?.name}" : ${attachment.status.attachError.message}`,
        );
    }
    const leaving: Leaving[] = [];
    let waitMs = Number.POSITIVE_INFINITY;
    for (const [id, attachment] of present) {
      const volume = this.#parts.volumes.get(attachment.spec.source.persistentVolumeName ?? '');
      if (needs.has(id) || attachment.metadata?.deletionTimestamp !== undefined) continue;
      if (volume === undefined ? !ours.test(id) : id !== attachmentName(volume, name)) continue; // somebody else's
      const since = this.#idleSince.get(id) ?? clock.monotonic();
      this.#idleSince.set(id, since);
      const left = since + forceDetachMs - clock.monotonic();
      const forced = node === undefined || isOutOfService(node) || (left <= 0 && !isHealthy(node));
      if (volume !== undefined && !forced && inUse(node).includes(uniqueName(volume))) {
        // a node that is well is waited for as long as it takes
        if (left > 0) waitMs = Math.min(waitMs, left);
        if (attachment.status?.attached === true) ready.push({ name: uniqueName(volume), devicePath: '' });
      } else leaving.push({ attachment, forced, ...(volume && { unique: uniqueName(volume) }) });
    }
    let after = node;
    if (node !== undefined) {
      // what is taken away is taken from what the node is told now, and not from what a cache remembers
      const now = leaving.length === 0 ? node : await client.get(nodeResource, nameOf(node)).catch(ignoreGone);
      after = now && (await this.#report(now, ready, needs, client));
    }
    for (const { attachment, forced, unique } of leaving) {
      // the node began to use it just before it was told not to: its word brings us here again
      if (!forced && unique !== undefined && after !== undefined && inUse(after).includes(unique)) continue;
      await client
        .delete(volumeAttachments, nameOf(attachment), { preconditions: { uid: attachment.metadata?.uid ?? '' } })
        .catch(ignoreGone);
      this.#idleSince.delete(attachment.metadata?.name ?? '');
    }
    return Number.isFinite(waitMs) ? { requeueAfterMs: waitMs } : undefined;
  }

  /** The volumes that pods of a node need attached, by the names of their attachments. */
  #needs(name: string): ReadonlyMap<string, Need> {
    const { pods, claims, volumes, drivers } = this.#parts;
    const needs = new Map<string, Need>();
    for (const pod of pods.byIndex(byNode, name)) {
      if (isTerminal(pod)) continue;
      for (const key of claimsOfPod(pod)) {
        const claim = claims.get(key);
        const volume = claim?.status?.phase === 'Bound' ? volumes.get(claim.spec?.volumeName ?? '') : undefined;
        const driver = volume?.spec?.csi?.driver;
        if (volume === undefined || driver === undefined || drivers.get(driver)?.spec.attachRequired === false) continue;
        const id = attachmentName(volume, name);
        needs.set(id, { volume, pods: [...(needs.get(id)?.pods ?? []), pod] });
      }
    }
    return needs;
  }

  async #attach(id: string, nodeName: string, need: Need, client: Client): Promise<void> {
    const { spec, metadata } = need.volume;
    const shared = spec?.accessModes?.some((mode) => mode === 'ReadWriteMany' || mode === 'ReadOnlyMany') ?? false;
    const others = this.#parts.attachments.byIndex(byVolume, metadata?.name ?? '').some((each) => each.spec.nodeName !== nodeName);
    if (!shared && others) {
      this.#tellMultiAttach(need, nodeName);
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

  /** Each pod is told of the others by their names, as far as they are in its own namespace. */
  #tellMultiAttach({ volume, pods }: Need, nodeName: string): void {
    const ref = volume.spec?.claimRef;
    const others = this.#parts.pods
      .byIndex(byClaim, `${ref?.namespace}/${ref?.name}`)
      .filter(({ metadata, spec }) => spec?.nodeName !== undefined && spec.nodeName !== nodeName && metadata !== undefined);
    for (const pod of pods) {
      const near = others
        .filter(({ metadata }) => metadata?.namespace === pod.metadata?.namespace)
        .map(({ metadata }) => metadata?.name ?? '');
      const far = others.length - near.length;
      const why =
        others.length === 0
          ? "Volume is already exclusively attached to one node and can't be attached to another"
          : near.length === 0
            ? `Volume is already used by ${far} pod(s) in different namespaces`
            : `Volume is already used by pod(s) ${near.sort().join(', ')}${far > 0 ? ` and ${far} pod(s) in different namespaces` : ''}`;
      this.#tell({ volume, pods: [pod] }, 'FailedAttachVolume', `Multi-Attach error for volume "${volume.metadata?.name}" ${why}`);
    }
  }

  /** Tells the node what it may mount, before anything that it may not is taken away. Gives the node as it is then; undefined: it is gone. */
  async #report(
    node: Node,
    ready: readonly { readonly name: string; readonly devicePath: string }[],
    needs: ReadonlyMap<string, Need>,
    client: Client,
  ): Promise<Node | undefined> {
    const before = node.status?.volumesAttached ?? [];
    const names = (list: readonly { readonly name: string }[]) =>
      list
        .map(({ name }) => name)
        .sort()
        .join();
    if (names(before) === names(ready)) return node;
    const after = await client
      .patch(
        nodeResource,
        nameOf(node),
        'merge',
        { metadata: { uid: node.metadata?.uid }, status: { volumesAttached: ready.length > 0 ? ready : null } },
        { subresource: 'status' },
      )
      .catch(ignoreGone);
    const known = new Set(before.map(({ name }) => name));
    for (const need of needs.values())
      if (!known.has(uniqueName(need.volume)) && ready.some(({ name }) => name === uniqueName(need.volume)))
        this.#tell(need, 'SuccessfulAttachVolume', `AttachVolume.Attach succeeded for volume "${need.volume.metadata?.name}" `);
    return after;
  }

  #tell({ pods }: Need, reason: string, message: string): void {
    for (const pod of pods)
      this.#parts.recorder.event(typed(podResource, pod), reason.startsWith('Failed') ? 'Warning' : 'Normal', reason, message);
  }
}

const inUse = ({ status }: Node): readonly string[] => status?.volumesInUse ?? [];
const isHealthy = ({ status }: Node) => status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
/** Somebody vouches that the node does nothing any more. */
const isOutOfService = ({ spec }: Node) => spec?.taints?.some(({ key }) => key === 'node.kubernetes.io/out-of-service') === true;
/** Whatever about a node decides whether a volume is taken from it. */
const told = (node: Node) => [...inUse(node), isHealthy(node), isOutOfService(node)].join();
function ignoreGone(error: unknown): undefined {
  if (isStatus(error, 'NotFound')) return undefined;
  throw error;
}

export default Controllers.plugin({
  id: 'controller-attach-detach',
  declares: { loop: 'persistentvolume-attach-detach' },
  config: z.strictObject({
    /** A node that is not ready, and does not say that a volume is free, is believed to be dead after this time. */
    forceDetachSeconds: z.number().int().min(0).default(360),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new AttachDetachController({
      pods: informers.of(podResource),
      nodes: informers.of(nodeResource),
      claims: informers.of(persistentVolumeClaims),
      volumes: informers.of(persistentVolumes),
      attachments: informers.of(volumeAttachments),
      drivers: informers.of(csiDrivers),
      recorder: events.recorder('attachdetach-controller'),
      clock,
      forceDetachMs: config.forceDetachSeconds * 1000,
    }),
});
