import { parameterPrefix } from '@oarlock/api/component-helpers/class-secrets';
import { secrets } from '@oarlock/api/resources';
import type { SecretReference } from '@oarlock/api/types/core-v1';
import type { Strings } from '@oarlock/csi/csi-types';
import type { Client } from '@oarlock/spi/client';

/** Returns the content of a Secret for a driver; empty without a reference. @throws StatusError if the Secret cannot be read */
export async function readSecrets(client: Client, ref: SecretReference | undefined, signal?: AbortSignal): Promise<Strings> {
  if (ref === undefined) return {};
  const { data = {} } = await client.get(secrets, { namespace: ref.namespace ?? '', name: ref.name ?? '' }, { ...(signal && { signal }) });
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
}

/** Returns the parameters of a class that are passed to the driver. */
export const driverParameters = (parameters: Strings = {}): Strings =>
  Object.fromEntries(Object.entries(parameters).filter(([key]) => !key.startsWith(parameterPrefix)));
