import { jsonEqual } from '@oarlock/api/json/json';
import { parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';

export const foregroundFinalizer = 'foregroundDeletion';
export const orphanFinalizer = 'orphan';

/** One object in the dependency graph (`node` upstream). */
export interface GraphNode {
  readonly uid: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly owners: readonly OwnerReference[];
  readonly dependents: Set<GraphNode>;
  readonly isDeleting: boolean;
  readonly isDeletingDependents: boolean;
  readonly isOrphaningDependents: boolean;
}

/** Returns true if an owner reference names the group, the kind and the name of the object. The caller compares the uid. */
export function isReferenceTo({ resource, name }: GraphNode, reference: OwnerReference): boolean {
  return reference.name === name && reference.kind === resource.kind && parseApiVersion(reference.apiVersion).group === resource.group;
}

/**
 * The key of an owner reference of an object. It has more than the uid, because the answer to one reference does not hold for others with its uid: anyone can
 * write a reference with the uid of an owner of others and another name.
 */
export const referenceKey = ({ namespace }: GraphNode, { apiVersion, kind, name, uid }: OwnerReference): string =>
  [namespace, apiVersion, kind, name, uid].join(' ');

const noOwners: readonly OwnerReference[] = [];

const sameOwners = (a: readonly OwnerReference[], b: readonly OwnerReference[]) =>
  a === b || (a.length === b.length && a.every((owner, i) => jsonEqual(owner, b[i])));

/**
 * A graph of objects by uid with their owners and dependents. An owner that no informer has delivered is represented only by the owner
 * references of its dependents.
 */
export class DependencyGraph {
  readonly #nodes = new Map<string, GraphNode>();
  /** Dependents of owners that are not in the graph, by the uid of the owner. */
  readonly #dependentsOfUnknown = new Map<string, Set<GraphNode>>();

  get(uid: string): GraphNode | undefined {
    return this.#nodes.get(uid);
  }
  dependentsOf(uid: string): ReadonlySet<GraphNode> {
    return this.#nodes.get(uid)?.dependents ?? this.#dependentsOfUnknown.get(uid) ?? new Set();
  }

  /**
   * Adds or updates an object and returns its node. If nothing relevant changed, returns the existing node, so that updates of objects without
   * owners cost little.
   */
  put(resource: Resource, object: KubeObject): GraphNode {
    const { uid = '', namespace = '', name = '', ownerReferences, finalizers, deletionTimestamp } = object.metadata ?? {};
    const old = this.#nodes.get(uid);
    const deleting = deletionTimestamp !== undefined;
    if (old !== undefined && !deleting && !old.isDeleting && sameOwners(old.owners, ownerReferences ?? noOwners)) return old;
    const node: GraphNode = {
      uid,
      resource,
      namespace,
      name,
      owners: ownerReferences ?? noOwners,
      dependents: old?.dependents ?? this.#dependentsOfUnknown.get(uid) ?? new Set(),
      isDeleting: deleting,
      isDeletingDependents: deleting && (finalizers?.includes(foregroundFinalizer) ?? false),
      isOrphaningDependents: deleting && (finalizers?.includes(orphanFinalizer) ?? false),
    };
    if (old !== undefined) this.#unlink(old);
    this.#dependentsOfUnknown.delete(uid);
    this.#nodes.set(uid, node);
    for (const { uid: owner } of node.owners) this.#link(owner, node);
    return node;
  }

  /** Removes an object. Returns the dependents of the object and the uids of its owners. */
  remove(uid: string): { readonly dependents: ReadonlySet<GraphNode>; readonly owners: readonly string[] } {
    const node = this.#nodes.get(uid);
    if (node === undefined) return { dependents: new Set(), owners: [] };
    this.#unlink(node);
    this.#nodes.delete(uid);
    if (node.dependents.size > 0) this.#dependentsOfUnknown.set(uid, node.dependents);
    return { dependents: node.dependents, owners: node.owners.map((owner) => owner.uid) };
  }

  #link(owner: string, node: GraphNode): void {
    const dependents = this.#nodes.get(owner)?.dependents ?? this.#dependentsOfUnknown.get(owner);
    if (dependents !== undefined) dependents.add(node);
    else this.#dependentsOfUnknown.set(owner, new Set([node]));
  }

  #unlink(node: GraphNode): void {
    for (const { uid } of node.owners) {
      this.#nodes.get(uid)?.dependents.delete(node);
      const dependents = this.#dependentsOfUnknown.get(uid);
      dependents?.delete(node);
      if (dependents?.size === 0) this.#dependentsOfUnknown.delete(uid);
    }
  }
}
