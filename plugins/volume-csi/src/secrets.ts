import { secrets } from '@oarlock/api/resources';
import type { PersistentVolumeClaim, SecretReference } from '@oarlock/api/types/core-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import type { Client } from '@oarlock/spi/client';

/** What a driver is given of a Secret. @throws StatusError */
export async function readSecrets(client: Client, ref: SecretReference | undefined, signal?: AbortSignal): Promise<Strings> {
  if (ref === undefined) return {};
  const { data = {} } = await client.get(secrets, { namespace: ref.namespace ?? '', name: ref.name ?? '' }, { ...(signal && { signal }) });
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
}

/** The parameters of classes that name a Secret: `csi.storage.k8s.io/<use>-secret-name` and `-namespace`. */
export type SecretUse =
  | 'provisioner'
  | 'controller-publish'
  | 'controller-expand'
  | 'node-stage'
  | 'node-publish'
  | 'node-expand'
  | 'snapshotter'
  | 'snapshotter-list';
const prefix = 'csi.storage.k8s.io/';

/** What the parameters of a class leave to the driver. */
export const driverParameters = (parameters: Strings = {}): Strings =>
  Object.fromEntries(Object.entries(parameters).filter(([key]) => !key.startsWith(prefix)));

/** Values for `${...}` in the name and the namespace of a Secret. */
export function claimTokens(volumeName: string, claim: PersistentVolumeClaim | undefined): Strings {
  const { namespace = '', name = '', annotations = {} } = claim?.metadata ?? {};
  return {
    'pv.name': volumeName,
    ...(claim && { 'pvc.namespace': namespace, 'pvc.name': name }),
    ...(claim && Object.fromEntries(Object.entries(annotations).map(([key, value]) => [`pvc.annotations['${key}']`, value]))),
  };
}

/** The Secret that a class names for a use; undefined: none. @throws Error for half a name, and for a `${...}` that stands for nothing */
export function secretReference(parameters: Strings = {}, use: SecretUse, tokens: Strings): SecretReference | undefined {
  const [nameKey, namespaceKey] = [`${prefix}${use}-secret-name`, `${prefix}${use}-secret-namespace`];
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
