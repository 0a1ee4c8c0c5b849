import { parameterPrefix } from '@oarlock/api/component-helpers/class-secrets';
import { secrets } from '@oarlock/api/resources';
import type { SecretReference } from '@oarlock/api/types/core-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';
import { VolumeError } from '@oarlock/spi/volume';

type Failure = (secret: { readonly name: string; readonly namespace: string; readonly why: string }) => string;
const kubelet =
  (field: string): Failure =>
  ({ name, namespace, why }) =>
    `fetching ${field} ${namespace}/${name} failed: kubernetes.io/csi: failed to find the secret ${name} in the namespace ${namespace} with error: ${why}`;

/** The texts about a Secret that cannot be read, by the component that reads the Secret upstream: the sidecars, or the kubelet for a field of the volume. */
const failures = {
  sidecar: ({ name, namespace, why }) => `error getting secret ${name} in namespace ${namespace}: ${why}`,
  attacher: ({ name, namespace, why }) => `failed to load secret "${namespace}/${name}": ${why}`,
  nodeStageSecretRef: kubelet('NodeStageSecretRef'),
  nodePublishSecretRef: kubelet('NodePublishSecretRef'),
  nodeExpandSecretRef: kubelet('NodeExpandSecretRef'),
} satisfies Readonly<Record<string, Failure>>;

export interface SecretRead {
  /** Absent if the volume has no Secret for the call. */
  readonly ref: SecretReference | undefined;
  readonly reader: keyof typeof failures;
  readonly signal?: AbortSignal | undefined;
}

/** Returns the content of a Secret for a driver; empty without a reference. @throws VolumeError `NotReady` if the Secret cannot be read */
export async function readSecrets(client: Client, { ref, reader, signal }: SecretRead): Promise<Strings> {
  if (ref === undefined) return {};
  const { name = '', namespace = '' } = ref;
  try {
    const { data = {} } = await client.get(secrets, { namespace, name }, { ...(signal && { signal }) });
    return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
  } catch (error) {
    signal?.throwIfAborted();
    throw new VolumeError('NotReady', failures[reader]({ name, namespace, why: errorText(error) }), {
      cause: error,
      ...(reader === 'nodeStageSecretRef' && { operation: 'MountDevice' }),
    });
  }
}

/** Returns the parameters of a class that are passed to the driver. */
export const driverParameters = (parameters: Strings = {}): Strings =>
  Object.fromEntries(Object.entries(parameters).filter(([key]) => !key.startsWith(parameterPrefix)));
