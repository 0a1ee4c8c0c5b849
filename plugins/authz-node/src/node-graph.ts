import type { PersistentVolume, Pod } from '@oarlock/api/types/core-v1';
import { referencesOf, type Reference } from './pod-references.ts';

interface BoundPod {
  readonly node: string;
  readonly references: ReadonlySet<Reference>;
}
interface Volume {
  readonly claim: Reference;
  readonly secrets: readonly Reference[];
}

/**
 * The graph of references from nodes through their pods to the objects that the pods reference, and from PersistentVolumeClaims through their
 * volumes to the volumes' Secrets. References are counted: a reference is removed with the last pod that has it.
 */
export class NodeGraph {
  readonly #pods = new Map<string, BoundPod>();
  /** The number of pods that reference an object, keyed by node. */
  readonly #reach = new Map<string, Map<Reference, number>>();
  readonly #volumes = new Map<string, Volume>();
  /** The names of the volumes that reference a Secret. */
  readonly #bySecret = new Map<Reference, Set<string>>();

  putPod(pod: Pod): void {
    const key = keyOf(pod);
    this.#drop(key);
    const node = pod.spec?.nodeName ?? '';
    if (node === '') return;
    const references = referencesOf(pod);
    this.#pods.set(key, { node, references });
    let reach = this.#reach.get(node);
    if (reach === undefined) this.#reach.set(node, (reach = new Map()));
    for (const reference of references) reach.set(reference, (reach.get(reference) ?? 0) + 1);
  }
  removePod(pod: Pod): void {
    this.#drop(keyOf(pod));
  }

  putVolume(volume: PersistentVolume): void {
    this.removeVolume(volume);
    const { claimRef } = volume.spec ?? {};
    const name = volume.metadata?.name ?? '';
    if (claimRef?.name === undefined) return;
    const namespace = claimRef.namespace ?? '';
    const secrets = secretsOf(volume, namespace);
    this.#volumes.set(name, { claim: `persistentvolumeclaims ${namespace}/${claimRef.name}`, secrets });
    for (const secret of secrets) {
      let volumes = this.#bySecret.get(secret);
      if (volumes === undefined) this.#bySecret.set(secret, (volumes = new Set()));
      volumes.add(name);
    }
  }
  removeVolume({ metadata }: PersistentVolume): void {
    const name = metadata?.name ?? '';
    for (const secret of this.#volumes.get(name)?.secrets ?? []) {
      const volumes = this.#bySecret.get(secret);
      volumes?.delete(name);
      if (volumes?.size === 0) this.#bySecret.delete(secret);
    }
    this.#volumes.delete(name);
  }

  /** Returns true if the pod is bound to the node. */
  isBound(node: string, namespace: string, name: string): boolean {
    return this.#pods.get(`${namespace}/${name}`)?.node === node;
  }
  /** Returns true if a pod of the node references the object, or references the claim of a volume that references the object. */
  reaches(node: string, reference: Reference): boolean {
    const reach = this.#reach.get(node);
    if (reach === undefined) return false;
    if (reach.has(reference)) return true;
    for (const volume of this.#bySecret.get(reference) ?? []) if (this.reachesVolume(node, volume)) return true;
    return false;
  }
  /** Returns true if a pod of the node uses the PersistentVolumeClaim that the volume is bound to. */
  reachesVolume(node: string, volume: string): boolean {
    const claim = this.#volumes.get(volume)?.claim;
    return claim !== undefined && this.#reach.get(node)?.has(claim) === true;
  }

  #drop(key: string): void {
    const pod = this.#pods.get(key);
    if (pod === undefined) return;
    this.#pods.delete(key);
    const reach = this.#reach.get(pod.node);
    if (reach === undefined) return;
    for (const reference of pod.references) {
      const left = (reach.get(reference) ?? 0) - 1;
      if (left > 0) reach.set(reference, left);
      else reach.delete(reference);
    }
    if (reach.size === 0) this.#reach.delete(pod.node);
  }
}

const keyOf = ({ metadata }: Pod) => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

/** Returns the Secrets that a node needs to mount a volume. A reference without a namespace uses the namespace of the PersistentVolumeClaim. */
function secretsOf({ spec }: PersistentVolume, namespace: string): readonly Reference[] {
  const references = [
    spec?.csi?.nodePublishSecretRef,
    spec?.csi?.nodeStageSecretRef,
    spec?.csi?.nodeExpandSecretRef,
    spec?.cephfs?.secretRef,
    spec?.flexVolume?.secretRef,
    spec?.iscsi?.secretRef,
    spec?.rbd?.secretRef,
    spec?.scaleIO?.secretRef,
    spec?.storageos?.secretRef,
    spec?.azureFile === undefined
      ? undefined
      : { name: spec.azureFile.secretName, ...(spec.azureFile.secretNamespace != null && { namespace: spec.azureFile.secretNamespace }) },
  ];
  return references.flatMap((reference): Reference[] =>
    reference?.name === undefined ? [] : [`secrets ${reference.namespace || namespace}/${reference.name}`],
  );
}
