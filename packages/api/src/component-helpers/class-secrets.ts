import type { PersistentVolumeClaim, SecretReference } from '../generated/types/core-v1.ts';
import { isDns1123Label, isDns1123Subdomain } from '../values/names.ts';

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
 * The variables of a Secret's namespace: those that the user of a claim or snapshot does not choose. With a name or an annotation in it, the user could
 * choose the Secret of another namespace.
 */
const ofNamespaces: ReadonlySet<string> = new Set([
  'pv.name',
  'pvc.namespace',
  'volumesnapshot.namespace',
  'volumesnapshotcontent.name',
  'volumegroupsnapshot.namespace',
  'volumegroupsnapshotcontent.name',
]);

/**
 * Returns the Secret that a class names for a purpose; undefined if the class names none.
 * @throws Error if only the name or the namespace is set, if a `${...}` has no value or is not allowed in a namespace, or if the result is not a name
 */
export function secretReference(parameters: Strings = {}, use: SecretUse, tokens: Strings): SecretReference | undefined {
  const [nameKey, namespaceKey] = [`${parameterPrefix}${use}-secret-name`, `${parameterPrefix}${use}-secret-namespace`];
  const [name, namespace] = [parameters[nameKey], parameters[namespaceKey]];
  if (name === undefined && namespace === undefined) return undefined;
  if (!name || !namespace) throw new Error(`${name ? namespaceKey : nameKey} is missing: both are needed for the ${use} secret`);
  const fill = (key: string, template: string, allowed?: ReadonlySet<string>) =>
    template.replace(/\$\{([^}]*)\}/g, (all, token: string) => {
      const value = allowed?.has(token) === false || !Object.hasOwn(tokens, token) ? undefined : tokens[token];
      if (value === undefined) throw new Error(`${key}: ${all} stands for nothing`);
      return value;
    });
  const found = { name: fill(nameKey, name), namespace: fill(namespaceKey, namespace, ofNamespaces) };
  if (isDns1123Subdomain(found.name).length > 0) throw new Error(`${nameKey}: ${JSON.stringify(found.name)} is not the name of a Secret`);
  if (isDns1123Label(found.namespace).length > 0)
    throw new Error(`${namespaceKey}: ${JSON.stringify(found.namespace)} is not the name of a namespace`);
  return found;
}
