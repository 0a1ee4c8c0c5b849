/** RFC 3339 in UTC with seconds, as Kubernetes writes `metav1.Time`: `2026-01-31T12:00:00Z`. */
export type Time = string;

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly apiVersion?: string;
  readonly time?: Time;
  readonly fieldsType?: string;
  readonly fieldsV1?: unknown;
  readonly subresource?: string;
}

/** `metav1.ObjectMeta`. Every field is optional because clients send partial objects; stored objects have a name. */
export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly selfLink?: string;
  readonly uid?: string;
  /** Opaque to clients: the storage revision in decimal. */
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: Time | null;
  readonly deletionTimestamp?: Time;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
}

/**
 * Any API object (runtime.Object). Objects from caches, informers and the loopback client are deeply frozen and shared: to change one, copy
 * it first (`structuredClone` or a spread of the changed path).
 */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMeta;
}

export interface ListMeta {
  readonly resourceVersion?: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

export interface ObjectList<T = KubeObject> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ListMeta;
  readonly items: readonly T[];
}

/** `namespace/name`, or `name` for a cluster-scoped object: the key of caches and workqueues. */
export type ObjectKey = string;

export function objectKey(object: KubeObject): ObjectKey {
  const { namespace, name = '' } = object.metadata ?? {};
  return namespace ? `${namespace}/${name}` : name;
}

export function splitKey(key: ObjectKey): { readonly namespace?: string; readonly name: string } {
  const at = key.indexOf('/');
  return at < 0 ? { name: key } : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** Freezes a JSON value deeply and returns it. A frozen subtree is assumed to be deeply frozen. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  // the type check here avoids most calls: most members are not objects
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) if (typeof item === 'object') deepFreeze(item);
  } else
    for (const key in value) {
      const member = value[key];
      if (typeof member === 'object') deepFreeze(member);
    }
  return value;
}

/** Returns an owner reference to `owner` as managing controller (metav1.NewControllerRef). */
export function controllerRef(owner: KubeObject): OwnerReference {
  return {
    apiVersion: owner.apiVersion ?? '',
    kind: owner.kind ?? '',
    name: owner.metadata?.name ?? '',
    uid: owner.metadata?.uid ?? '',
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Returns the reference to the managing controller of an object, or undefined if it has none (metav1.GetControllerOf). */
export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata?.ownerReferences?.find((ref) => ref.controller === true);
}

/** Returns true if `owner` is the managing controller of the object (metav1.IsControlledBy). An owner without a uid controls nothing. */
export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(object)?.uid === uid;
}
