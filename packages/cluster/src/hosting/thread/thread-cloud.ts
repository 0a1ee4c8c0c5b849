import type { CloudProvider } from '@oarlock/spi/cloud';

/** The methods of a cloud provider's parts, with the number of their arguments before the signal. */
export const cloudMethods: Readonly<Record<CloudPart, Readonly<Record<string, number>>>> = {
  nodes: { instance: 1 },
  routes: { list: 0, create: 1, remove: 1 },
  loadBalancers: { ensure: 2, remove: 1 },
};
export type CloudPart = 'nodes' | 'routes' | 'loadBalancers';
export const cloudParts = Object.keys(cloudMethods) as readonly CloudPart[];

type Method = (...args: readonly unknown[]) => unknown;

/**
 * Returns the methods of a provider's parts by names such as `routes.list`, without the signal, which cannot be sent between threads.
 * @throws Error if the provider has other parts than its plugin declares: consumers know the declared ones only
 */
export function flatCloud(
  provider: CloudProvider,
  declares: Readonly<Record<string, string | boolean>> = {},
  signal: AbortSignal,
): Readonly<Record<string, Method>> {
  const wrong = cloudParts.filter((part) => (provider[part] !== undefined) !== (declares[part] === true));
  if (wrong.length > 0) {
    const found = cloudParts.filter((part) => provider[part] !== undefined).map((part) => `${part}: true`);
    throw new Error(`the plugin declares other parts than its provider has: declares: { ${found.join(', ')} }`);
  }
  const entries = cloudParts.flatMap((part) => {
    const methods = provider[part] as unknown as Readonly<Record<string, Method>> | undefined;
    if (methods === undefined) return [];
    return Object.keys(cloudMethods[part]).map((name): [string, Method] => [
      `${part}.${name}`,
      (...args) => methods[name]?.(...args, signal),
    ]);
  });
  return Object.fromEntries(entries);
}
