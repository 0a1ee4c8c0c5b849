import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes, pods as podResource, storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { withTypeMeta } from '../../objects/object-identity.ts';
import { podsByClaimIndex, claimKeysOfPod } from '../../indexes/pods-by-claim.ts';
import { bind, setClaimPhase, setPhase, unbind } from './volume-binding.ts';
import { defaultStorageClass } from './default-storage-class.ts';
import { externalProvisioner, missingDeleterText, missingProvisionerText } from './in-tree-plugins.ts';
import { Recycler, recycledBy } from './recycler.ts';
import { annotations, bestVolume, classOf, isBoundTo, mismatch, modeOf } from './volume-match.ts';

const claimPrefix = 'claim:';
const volumePrefix = 'volume:';
const freeOfClass = 'free-volumes-of-class';
const preboundIndex = 'volumes-of-claim';
const unboundOfClass = 'unbound-claims-of-class';

/** The period after which a pending claim is reconciled again (upstream's --pvclaimbinder-sync-period). */
const resyncPeriodMs = 15_000;

const freeClass = (volume: PersistentVolume) => (volume.spec?.claimRef === undefined ? [classOf(volume)] : []);
const claimKeyOf = ({ spec }: PersistentVolume) =>
  spec?.claimRef === undefined ? [] : [`${spec.claimRef.namespace}/${spec.claimRef.name}`];
const unboundClass = (claim: PersistentVolumeClaim) => (claim.spec?.volumeName ? [] : [classOf(claim)]);
const isCompleted = (claim: PersistentVolumeClaim) => claim.metadata?.annotations?.[annotations.bindCompleted] !== undefined;

interface PersistentVolumeControllerOptions {
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
  readonly classes: Informer<StorageClass>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  /** Image of the pods that recycle volumes. */
  readonly recyclerImage: string;
}

/** Binds PersistentVolumeClaims to PersistentVolumes, triggers provisioning for claims without a matching volume, and reclaims released volumes. */
export class PersistentVolumeController implements Controller {
  readonly name = 'persistentvolume-binder';
  readonly watches;
  readonly #options: PersistentVolumeControllerOptions;
  readonly #recycler: Recycler;

  constructor(options: PersistentVolumeControllerOptions) {
    this.#options = options;
    const { claims, volumes, classes, pods, recorder, recyclerImage } = options;
    this.#recycler = new Recycler({ pods, recorder, image: recyclerImage });
    volumes.addIndexer(freeOfClass, freeClass);
    volumes.addIndexer(preboundIndex, claimKeyOf);
    claims.addIndexer(unboundOfClass, unboundClass);
    pods.addIndexer(podsByClaimIndex, claimKeysOfPod);
    const unboundClaims = (name: string) => claims.byIndex(unboundOfClass, name).map((claim) => `${claimPrefix}${objectKey(claim)}`);
    this.watches = [
      watch(claims, (claim) => {
        const volume = claim.spec?.volumeName;
        const prebound = volumes.byIndex(preboundIndex, objectKey(claim)).map(({ metadata }) => `${volumePrefix}${metadata?.name}`);
        return [`${claimPrefix}${objectKey(claim)}`, ...(volume ? [`${volumePrefix}${volume}`] : []), ...prebound];
      }),
      watch(volumes, (volume, old) => [
        `${volumePrefix}${volume.metadata?.name}`,
        ...claimKeyOf(volume).map((key) => `${claimPrefix}${key}`),
        ...(old === undefined ? [] : claimKeyOf(old).map((key) => `${claimPrefix}${key}`)),
        ...(volume.spec?.claimRef === undefined && volume.status?.phase === 'Available' ? unboundClaims(classOf(volume)) : []),
      ]),
      watch(pods, (pod) => {
        const recycled = recycledBy(pod);
        if (recycled !== undefined) return [`${volumePrefix}${recycled}`];
        // a released volume may wait for its last pod to terminate
        return claimKeysOfPod(pod).flatMap((key) =>
          volumes
            .byIndex(preboundIndex, key)
            .filter(({ status }) => status?.phase === 'Released')
            .map(({ metadata }) => `${volumePrefix}${metadata?.name}`),
        );
      }),
      watch(classes, ({ metadata }) => [...unboundClaims(metadata?.name ?? ''), ...unboundClaims('')]),
    ];
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(volumePrefix)) {
      const volume = this.#options.volumes.get(key.slice(volumePrefix.length));
      if (volume !== undefined) await this.#syncVolume(volume, client);
      return undefined;
    }
    const claim = this.#options.claims.get(key.slice(claimPrefix.length));
    if (claim === undefined) return undefined;
    if (isCompleted(claim)) {
      await this.#syncBound(claim, client);
      return undefined;
    }
    await this.#syncUnbound(claim, client);
    // as upstream, the events of a claim that waits are repeated, and change with its pods
    return { requeueAfterMs: resyncPeriodMs };
  }

  async #syncUnbound(claim: PersistentVolumeClaim, client: Client): Promise<void> {
    const { volumes, classes, recorder } = this.#options;
    const volumeName = claim.spec?.volumeName;
    if (volumeName) {
      const volume = volumes.get(volumeName);
      if (volume !== undefined && volume.spec?.claimRef === undefined) {
        const reason = mismatch(volume, claim);
        if (reason === undefined) return bind(volume, claim, client);
        recorder.event(claim, 'Warning', 'VolumeMismatch', `Cannot bind to requested volume "${volumeName}": ${reason}`);
      } else if (volume !== undefined && isBoundTo(volume, claim)) return bind(volume, claim, client);
      else if (volume !== undefined)
        recorder.event(claim, 'Warning', 'FailedBinding', `volume "${volumeName}" already bound to a different claim.`);
      await setClaimPhase(claim, { phase: 'Pending', volume: undefined, client });
      return undefined;
    }
    const name = classOf(claim);
    const delayed =
      classes.get(name)?.volumeBindingMode === 'WaitForFirstConsumer' && !claim.metadata?.annotations?.[annotations.selectedNode];
    const volume = bestVolume(claim, {
      prebound: volumes.byIndex(preboundIndex, objectKey(claim)),
      free: volumes.byIndex(freeOfClass, name),
      delayed,
    });
    if (volume !== undefined) return bind(volume, claim, client);
    if (claim.spec?.storageClassName === undefined && claim.metadata?.annotations?.[annotations.betaClass] === undefined) {
      const defaultClassName = defaultStorageClass(classes.list());
      if (defaultClassName !== undefined) {
        await client.update(persistentVolumeClaims, {
          ...withTypeMeta(persistentVolumeClaims, claim),
          spec: { ...claim.spec, storageClassName: defaultClassName },
        });
        return undefined;
      }
    }
    if (delayed) this.#recordWaitForFirstConsumer(claim);
    else if (name !== '') await this.#provision(claim, name, client);
    else recorder.event(claim, 'Normal', 'FailedBinding', 'no persistent volumes available for this claim and no storage class is set');
    await setClaimPhase(claim, { phase: 'Pending', volume: undefined, client });
    return undefined;
  }

  #recordWaitForFirstConsumer(claim: PersistentVolumeClaim): void {
    const unscheduled = this.#options.pods.byIndex(podsByClaimIndex, objectKey(claim)).filter(({ spec }) => !spec?.nodeName);
    const [reason, message] =
      unscheduled.length === 0
        ? ['WaitForFirstConsumer', 'waiting for first consumer to be created before binding']
        : [
            'WaitForPodScheduled',
            `waiting for pod${unscheduled.length > 1 ? 's' : ''} ${unscheduled.map(({ metadata }) => metadata?.name).join(',')} to be scheduled`,
          ];
    this.#options.recorder.event(claim, 'Normal', reason, message);
  }

  /** Annotates the claim with the provisioner of its StorageClass. External provisioners act on claims that are annotated with their name. */
  async #provision(claim: PersistentVolumeClaim, name: string, client: Client): Promise<PersistentVolumeClaim> {
    const { classes, recorder } = this.#options;
    const provisionerOfClass = classes.get(name)?.provisioner;
    if (provisionerOfClass === undefined) {
      recorder.event(claim, 'Warning', 'ProvisioningFailed', `storageclass.storage.k8s.io "${name}" not found`);
      return claim;
    }
    const missing = missingProvisionerText(provisionerOfClass);
    if (missing !== undefined) {
      recorder.event(claim, 'Warning', 'ProvisioningFailed', missing);
      return claim;
    }
    const provisioner = externalProvisioner(provisionerOfClass);
    const provisionerAnnotations = { [annotations.betaProvisioner]: provisioner, [annotations.provisioner]: provisioner };
    const isAnnotated = Object.entries(provisionerAnnotations).every(([key, value]) => claim.metadata?.annotations?.[key] === value);
    const annotated = isAnnotated
      ? claim
      : await client.update(persistentVolumeClaims, {
          ...withTypeMeta(persistentVolumeClaims, claim),
          metadata: { ...claim.metadata, annotations: { ...claim.metadata?.annotations, ...provisionerAnnotations } },
        });
    recorder.event(
      claim,
      'Normal',
      'ExternalProvisioning',
      `Waiting for a volume to be created either by the external provisioner '${provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.`,
    );
    return annotated;
  }

  async #syncBound(claim: PersistentVolumeClaim, client: Client): Promise<void> {
    const name = claim.spec?.volumeName;
    const markLost = async (reason: string, message: string) => {
      if (await setClaimPhase(claim, { phase: 'Lost', volume: undefined, client }))
        this.#options.recorder.event(claim, 'Warning', reason, message);
    };
    if (!name) return markLost('ClaimLost', 'Bound claim has lost reference to PersistentVolume. Data on the volume is lost!');
    const volume = this.#options.volumes.get(name);
    if (volume === undefined) {
      if (await isMissing(() => client.get(persistentVolumes, { name })))
        await markLost('ClaimLost', 'Bound claim has lost its PersistentVolume. Data on the volume is lost!');
      return undefined;
    }
    if (volume.spec?.claimRef === undefined || volume.spec.claimRef.uid === claim.metadata?.uid) return bind(volume, claim, client);
    return markLost('ClaimMisbound', 'Two claims are bound to the same volume, this one is bound incorrectly');
  }

  async #syncVolume(volume: PersistentVolume, client: Client): Promise<void> {
    const { claims, recorder } = this.#options;
    const ref = volume.spec?.claimRef;
    if (ref === undefined || !ref.uid) {
      await setPhase(volume, { phase: 'Available', client });
      return;
    }
    let claim = claims.get(`${ref.namespace}/${ref.name}`);
    if (claim?.metadata?.uid !== ref.uid) {
      // the volume may be newer than the claim cache
      claim = await client.get(persistentVolumeClaims, { namespace: ref.namespace ?? '', name: ref.name ?? '' }).catch((error: unknown) => {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      });
      if (claim?.metadata?.uid !== ref.uid) claim = undefined;
    }
    if (claim === undefined) {
      const failed = volume.status?.phase === 'Failed' || volume.status?.phase === 'Released';
      const released = failed ? volume : await setPhase(volume, { phase: 'Released', client });
      if (released !== undefined) await this.#reclaim(released, client);
    } else if (!claim.spec?.volumeName) {
      if (modeOf(volume) !== modeOf(claim)) {
        const message = `Cannot bind PersistentVolume "${volume.metadata?.name}" to requested PersistentVolumeClaim "${claim.metadata?.name}" due to incompatible volumeMode.`;
        recorder.event(volume, 'Warning', 'VolumeMismatch', message);
        recorder.event(claim, 'Warning', 'VolumeMismatch', message);
      }
    } else if (claim.spec.volumeName === volume.metadata?.name) await setPhase(volume, { phase: 'Bound', client });
    else if (
      volume.metadata?.annotations?.[annotations.provisionedBy] !== undefined &&
      volume.spec?.persistentVolumeReclaimPolicy === 'Delete'
    ) {
      // provisioned for this claim, which is bound to another volume
      const released = await setPhase(volume, { phase: 'Released', client });
      if (released !== undefined) await this.#reclaim(released, client);
    } else await unbind(volume, client);
  }

  async #reclaim(volume: PersistentVolume, client: Client): Promise<void> {
    const { metadata, spec } = volume;
    if (spec?.persistentVolumeReclaimPolicy === 'Recycle') return this.#recycler.step(volume, client);
    if (spec?.persistentVolumeReclaimPolicy !== 'Delete') return;
    // the external provisioner deletes the volume when it is released
    if (
      metadata?.annotations?.[annotations.provisionedBy] !== undefined ||
      spec.csi !== undefined ||
      metadata?.deletionTimestamp !== undefined
    )
      return;
    const message = missingDeleterText(volume);
    // recorded after the write, as by the recycler
    const failed = await setPhase(volume, { phase: 'Failed', client, message });
    if (failed !== undefined && volume.status?.phase !== 'Failed')
      this.#options.recorder.event(failed, 'Warning', 'VolumeFailedDelete', message);
  }
}

async function isMissing(read: () => Promise<unknown>): Promise<boolean> {
  try {
    await read();
    return false;
  } catch (error) {
    if (isStatus(error, 'NotFound')) return true;
    throw error;
  }
}

export default Controllers.plugin({
  id: 'controller-persistent-volume',
  declares: { loop: 'persistentvolume-binder' },
  config: z.strictObject({
    /** Image of the pods that recycle volumes. The image must contain a shell, find and ls. */
    recyclerImage: z.string().min(1).default('registry.k8s.io/e2e-test-images/busybox:1.36.1-1'),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events, config: { recyclerImage } }) =>
    new PersistentVolumeController({
      claims: informers.forResource(persistentVolumeClaims),
      volumes: informers.forResource(persistentVolumes),
      classes: informers.forResource(storageClasses),
      pods: informers.forResource(podResource),
      recorder: events.recorder('persistentvolume-controller'),
      recyclerImage,
    }),
});
