import type { PersistentVolumeClaim, SecretReference } from '../generated/types/core-v1.ts';

type Strings = Readonly<Record<string, string>>;

/**
 * The purposes for which parameters of a StorageClass, VolumeSnapshotClass or VolumeGroupSnapshotClass name a Secret: `csi.storage.k8s.io/<use>-secret-name` and `-namespace`.
 */
export type SecretUse =
  | 'provisioner'
  | 'controller-publish'
  | 'controller-expand'
  | 'node-stage'
  | 'node-publish'
  | 'node-expand'
  | 'snapshotter'
  | 'snapshotter-list'
  | 'group-snapshotter';
/** The prefix of class parameters that are meant for CSI sidecars and are not passed to the driver. */
export const parameterPrefix = 'csi.storage.k8s.io/';

/** Returns the values that replace `${...}` in the name and the namespace of a Secret. */
export function claimTokens(volumeName: string, claim: PersistentVolumeClaim | undefined): Strings {
  const { namespace = '', name = '', annotations = {} } = claim?.metadata ?? {};
  return {
    'pv.name': volumeName,
    ...(claim && { 'pvc.namespace': namespace, 'pvc.name': name }),
    ...(claim && Object.fromEntries(Object.entries(annotations).map(([key, value]) => [`pvc.annotations['${key}']`, value]))),
  };
}

/**
 * Returns the Secret that a class names for a purpose; undefined if the class names none.
 * @throws Error if only the name or the namespace is set, or if a `${...}` has no value
 */
export function secretReference(parameters: Strings = {}, use: SecretUse, tokens: Strings): SecretReference | undefined {
  const [nameKey, namespaceKey] = [`${parameterPrefix}${use}-secret-name`, `${parameterPrefix}${use}-secret-namespace`];
  const [name, namespace] = [parameters[nameKey], parameters[namespaceKey]];
  if (name === undefined && namespace === undefined) return undefined;
  if (!name || !namespace) throw new Error(`${name ? namespaceKey : nameKey} is missing: both are needed for the ${use} secret`);
  const fill = (key: string, template: string) =>
    template.replace(/\$\{([^}]*)\}/g, (all, token: string) => {
      const value = tokens[token];
      if (value === undefined) throw new Error(`${key}: ${all} stands for nothing`);
      return value;
    });
  return { name: fill(nameKey, name), namespace: fill(namespaceKey, namespace) };
}
