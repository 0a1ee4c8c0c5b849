import { resolveService, type ServicePortRef } from '../../handlers/subresources/proxy.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';

/**
 * Resolves the Service of a webhook to its external name or to one of its ready endpoints. Endpoints are called directly, because the API
 * server may run on a machine that does not route Service addresses.
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
