import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ResourceAttributes } from '@oarlock/spi/authz';
import type { Client } from '@oarlock/spi/client';
import { refersTo, type Referred } from './pod-references.ts';

const prefix = 'system:node:';
const leaseNamespace = 'kube-node-lease';

/** The node that an identity is, or undefined. */
export function nodeOf({ name, groups }: ResourceAttributes['identity']): string | undefined {
  return groups.includes('system:nodes') && name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : undefined;
}

/** What a node may do because of which node it is, and which pods are bound to it: the node authorizer of Kubernetes. Returns the ground, or undefined. */
export async function nodeGrant(
  client: Client,
  node: string,
  { verb, group, resource, subresource, namespace, name }: ResourceAttributes,
): Promise<string | undefined> {
  const own = (yes: boolean) => (yes ? 'it is the node itself' : undefined);
  const what = `${resource}${group === '' ? '' : `.${group}`}${subresource === '' ? '' : `/${subresource}`}`;
  switch (what) {
    case 'nodes':
      return own((verb === 'update' || verb === 'patch') && name === node);
    case 'nodes/status':
      return own((verb === 'update' || verb === 'patch') && name === node);
    case 'leases.coordination.k8s.io':
      // what is created has no name yet when it is asked for
      return own(
        namespace === leaseNamespace && (verb === 'create' ? name === '' || name === node : leaseVerbs.has(verb) && name === node),
      );
    case 'pods':
      return verb === 'delete' && name !== '' && (await isBound(client, node, namespace, name))
        ? 'the pod is bound to the node'
        : undefined;
    case 'pods/status':
      return (verb === 'update' || verb === 'patch') && (await isBound(client, node, namespace, name))
        ? 'the pod is bound to the node'
        : undefined;
    case 'secrets':
    case 'configmaps':
    case 'persistentvolumeclaims':
      return readVerbs.has(verb) && (await isReferred(client, node, resource as Referred, namespace, name))
        ? 'a pod of the node refers to it'
        : undefined;
    case 'serviceaccounts':
      return verb === 'get' && (await isReferred(client, node, resource as Referred, namespace, name))
        ? 'a pod of the node runs as it'
        : undefined;
    case 'serviceaccounts/token':
      return verb === 'create' && (await isReferred(client, node, 'serviceaccounts', namespace, name))
        ? 'a pod of the node runs as it'
        : undefined;
    default:
      return undefined;
  }
}

const readVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const leaseVerbs: ReadonlySet<string> = new Set(['get', 'update', 'patch', 'delete']);

async function isBound(client: Client, node: string, namespace: string, name: string): Promise<boolean> {
  if (namespace === '' || name === '') return false;
  try {
    return (await client.get(pods, { namespace, name })).spec?.nodeName === node;
  } catch (error) {
    // one that is gone is nobody's: the sender is to learn that, and there is nothing to be had
    if (isStatus(error, 'NotFound')) return true;
    throw error;
  }
}

// asked when a node begins to watch an object, not while it does
async function isReferred(client: Client, node: string, kind: Referred, namespace: string, name: string): Promise<boolean> {
  if (namespace === '' || name === '') return false;
  const { items } = await client.list(pods, { namespace, fieldSelector: `spec.nodeName=${node}` });
  return items.some((pod) => refersTo(pod, kind, name));
}
