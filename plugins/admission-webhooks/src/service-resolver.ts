import { endpointSlices, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ServiceReference } from '@oarlock/api/types/admissionregistration-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Client } from '@oarlock/spi/client';
import { WebhookError } from './webhook-error.ts';

export interface ServiceEndpoint {
  readonly host: string;
  readonly port: number;
}

/**
 * Returns the address of a ready endpoint of a Service, because the host may not reach cluster IPs (webhook.ServiceResolver).
 * @throws WebhookError `call` if the Service, its port or a ready endpoint does not exist
 */
export async function resolveService(
  client: Client,
  { namespace, name, port = 443 }: ServiceReference,
  random: () => number,
): Promise<ServiceEndpoint> {
  const service = await client.get(services, { namespace, name }).catch((error: unknown) => {
    throw isStatus(error, 'NotFound') ? new WebhookError('call', `service ${JSON.stringify(name)} not found`) : error;
  });
  if (service.spec?.type === 'ExternalName') return { host: service.spec.externalName ?? '', port };
  const found = service.spec?.ports?.find((each) => each.port === port);
  if (found === undefined) throw new WebhookError('call', `no service port ${port} found for service ${JSON.stringify(name)}`);
  const { items } = await client.list(endpointSlices, { namespace, labelSelector: `kubernetes.io/service-name=${name}` });
  const addresses = items.flatMap((slice) => addressesOf(slice, found.name ?? ''));
  const picked = addresses[Math.min(addresses.length - 1, Math.floor(random() * addresses.length))];
  if (picked === undefined) throw new WebhookError('call', `no endpoints available for service ${JSON.stringify(name)}`);
  return picked;
}

function addressesOf({ endpoints, ports, addressType }: EndpointSlice, name: string): ServiceEndpoint[] {
  const port = ports?.find((each) => (each.name ?? '') === name)?.port;
  if (port === undefined || addressType === 'FQDN') return [];
  return (endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .flatMap(({ addresses }) => addresses.slice(0, 1).map((host) => ({ host, port })));
}
