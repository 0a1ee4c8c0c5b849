import { resolveService, type ServicePortRef } from '../../endpoints/handlers/subresources/proxy.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';

/**
 * Returns the address of a webhook's Service: its externalName, or a ready endpoint. Endpoints are called directly, because the machine of
 * the API server may not route cluster IPs.
 * @throws Error if the Service has no endpoint
 */
export function resolveWebhookService(
  registry: RegistryDependencies,
  service: ServicePortRef,
): { readonly host: string; readonly port: number } {
  const resolution = resolveService(registry, service);
  const { name, port } = service;
  switch (resolution.outcome) {
    case 'found':
      return { host: resolution.host, port: resolution.port };
    case 'no service':
      throw new Error(`service "${name}" not found`);
    case 'no port':
      throw new Error(`no service port ${port} found for service "${name}"`);
    case 'no endpoints':
    case 'not ready':
      throw new Error(`no endpoints available for service "${name}"`);
  }
}
