import { anonymous, type Identity } from '@oarlock/spi/authn';

/**
 * The class of a connection, which determines how it is treated when the server has no capacity for a new connection:
 * - `unauthenticated`: no request and no client certificate on the connection has been authenticated. Closed first.
 * - `authenticated`: closed only to keep the reserve free.
 * - `system`: used by an administrator, a node or a control plane component. Never closed for capacity.
 */
export type ClientClass = 'unauthenticated' | 'authenticated' | 'system';

const order: readonly ClientClass[] = ['unauthenticated', 'authenticated', 'system'];

/**
 * The groups of class `system`. Together with `systemUsers`, these are the subjects of upstream's FlowSchemas `exempt`, `system-nodes`,
 * `kube-controller-manager` and `kube-scheduler`.
 */
const systemGroups: ReadonlySet<string> = new Set(['system:masters', 'system:nodes']);
const systemUsers: ReadonlySet<string> = new Set(['system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler']);

/** Returns the class of a connection on which a request of this user has been authenticated. */
export function clientClassOf({ name, groups }: Identity): ClientClass {
  if (name === anonymous.name) return 'unauthenticated';
  return systemUsers.has(name) || groups.some((group) => systemGroups.has(group)) ? 'system' : 'authenticated';
}

/** Returns true if connections of class `one` are kept longer than connections of class `other`. */
export const isHigherClass = (one: ClientClass, other: ClientClass): boolean => order.indexOf(one) > order.indexOf(other);
