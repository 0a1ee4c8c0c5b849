import { anonymous, type Identity } from '@oarlock/spi/authn';

/**
 * How a connection is treated when the server has no capacity for a new one:
 *
 * - `unauthenticated`: no request and no client certificate on it has been authenticated. Closed first.
 * - `authenticated`: closed only to keep the reserve free.
 * - `system`: an administrator, a node or a component of the control plane. Never closed for capacity.
 */
export type ClientClass = 'unauthenticated' | 'authenticated' | 'system';

const order: readonly ClientClass[] = ['unauthenticated', 'authenticated', 'system'];

/** The subjects of upstream's FlowSchemas `exempt`, `system-nodes`, `kube-controller-manager` and `kube-scheduler`. */
const systemGroups: ReadonlySet<string> = new Set(['system:masters', 'system:nodes']);
const systemUsers: ReadonlySet<string> = new Set(['system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler']);

/** Returns the class of a connection that carries authenticated requests of this user. */
export function clientClassOf({ name, groups }: Identity): ClientClass {
  if (name === anonymous.name) return 'unauthenticated';
  return systemUsers.has(name) || groups.some((group) => systemGroups.has(group)) ? 'system' : 'authenticated';
}

/** Reports whether the first class is kept longer than the second. */
export const isHigherClass = (one: ClientClass, other: ClientClass): boolean => order.indexOf(one) > order.indexOf(other);
