import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';

export const foreground = 'foregroundDeletion';
export const orphan = 'orphan';

/** What the collector knows of one object. */
export interface GraphNode {
  readonly uid: string;
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly owners: readonly OwnerReference[];
  readonly dependents: Set<GraphNode>;
  readonly deleting: boolean;
  readonly foreground: boolean;
  readonly orphaning: boolean;
}

const none: readonly OwnerReference[] = [];

const sameOwners = (a: readonly OwnerReference[], b: readonly OwnerReference[]) =>
  a === b || (a.length === b.length && a.every((owner, i) => jsonEqual(owner, b[i])));

/** Objects by uid with who owns whom. Owners that no informer has shown are known by the references to them only. */
export class OwnerGraph {
  readonly #nodes = new Map<string, GraphNode>();
  /** Dependents of owners that are not in the graph. */
  readonly #waiting = new Map<string, Set<GraphNode>>();

  get(uid: string): GraphNode | undefined {
    return this.#nodes.get(uid);
  }
  dependentsOf(uid: string): ReadonlySet<GraphNode> {
    return this.#nodes.get(uid)?.dependents ?? this.#waiting.get(uid) ?? new Set();
  }

  /** Objects that neither own nor are owned cost one entry. */
  put(resource: Resource, object: KubeObject): GraphNode {
    const { uid = '', namespace = '', name = '', ownerReferences, finalizers, deletionTimestamp } = object.metadata ?? {};
    const old = this.#nodes.get(uid);
    const deleting = deletionTimestamp !== undefined;
    if (old !== undefined && !deleting && !old.deleting && sameOwners(old.owners, ownerReferences ?? none)) return old;
    const node: GraphNode = {
      uid,
      resource,
      namespace,
      name,
      owners: ownerReferences ?? none,
      dependents: old?.dependents ?? this.#waiting.get(uid) ?? new Set(),
      deleting,
      foreground: deleting && (finalizers?.includes(foreground) ?? false),
      orphaning: deleting && (finalizers?.includes(orphan) ?? false),
    };
    if (old !== undefined) this.#unlink(old);
    this.#waiting.delete(uid);
    this.#nodes.set(uid, node);
    for (const { uid: owner } of node.owners) this.#link(owner, node);
    return node;
  }

  /** Returns the dependents the object leaves behind and the owners it leaves. */
  remove(uid: string): { readonly dependents: ReadonlySet<GraphNode>; readonly owners: readonly string[] } {
    const node = this.#nodes.get(uid);
    if (node === undefined) return { dependents: new Set(), owners: [] };
    this.#unlink(node);
    this.#nodes.delete(uid);
    if (node.dependents.size > 0) this.#waiting.set(uid, node.dependents);
    return { dependents: node.dependents, owners: node.owners.map((owner) => owner.uid) };
  }

  #link(owner: string, node: GraphNode): void {
    const known = this.#nodes.get(owner)?.dependents ?? this.#waiting.get(owner);
    if (known !== undefined) known.add(node);
    else this.#waiting.set(owner, new Set([node]));
  }

  #unlink(node: GraphNode): void {
    for (const { uid } of node.owners) {
      this.#nodes.get(uid)?.dependents.delete(node);
      const waiting = this.#waiting.get(uid);
      waiting?.delete(node);
      if (waiting?.size === 0) this.#waiting.delete(uid);
    }
  }
}
