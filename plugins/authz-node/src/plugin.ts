import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { persistentVolumes, pods, resourceSlices, volumeAttachments } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import { Authz, noOpinion, type Decision, type ResourceAttributes } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { NodeGraph } from './node-graph.ts';
import { nodeRulesAllow } from './node-rules.ts';
import { referencesOf, type Reference } from './pod-references.ts';

const prefix = 'system:node:';
const leaseNamespace = 'kube-node-lease';
const read: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const ownStatusSubjects: ReadonlySet<string> = new Set(['get', 'create', 'update', 'patch', 'delete']);

/** The node that an identity is, or undefined. */
function nodeOf({ name, groups }: Identity): string | undefined {
  return name.startsWith(prefix) && name.length > prefix.length && groups.includes('system:nodes') ? name.slice(prefix.length) : undefined;
}

const allow = (because: string): Decision => ({ decision: 'allow', reason: because });
/** Of a list: upstream asks for the name of each. */
const nameless = 'No Object name found';
const none = (because: string): Decision => ({ decision: 'no-opinion', reason: because });
const unrelated = (node: string) => none(`no relationship found between node '${node}' and this object`);
const itself = allow('it is the node itself');

/** Nodes: what they may do depends on which node it is, and which pods are bound to it. */
export default Authz.plugin({
  id: 'authz-node',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const graph = new NodeGraph();
    const bound = informers.forResource(pods);
    bound.addEventHandler({
      onAdd: (pod) => graph.putPod(pod),
      onUpdate: (pod) => graph.putPod(pod),
      onDelete: (pod) => graph.removePod(pod),
    });
    const volumes = informers.forResource(persistentVolumes);
    volumes.addEventHandler({
      onAdd: (volume) => graph.putVolume(volume),
      onUpdate: (volume) => graph.putVolume(volume),
      onDelete: (volume) => graph.removeVolume(volume),
    });

    /** Asked when the graph knows no way: an informer may be behind. */
    const reachesNow = async (node: string, namespace: string, reference: Reference): Promise<boolean> => {
      const { items } = await client.list(pods, { namespace, fieldSelector: `spec.nodeName=${node}` });
      return items.some((pod) => referencesOf(pod).has(reference));
    };
    const throughPod = async (
      node: string,
      kind: 'secrets' | 'configmaps' | 'persistentvolumeclaims' | 'serviceaccounts' | 'resourceclaims',
      { namespace, name }: ResourceAttributes,
    ): Promise<Decision> => {
      if (namespace === '') return none('can only read namespaced object of this type');
      if (name === '') return none(nameless);
      const reference: Reference = `${kind} ${namespace}/${name}`;
      return graph.reaches(node, reference) || (await reachesNow(node, namespace, reference))
        ? allow('a pod of the node refers to it')
        : unrelated(node);
    };
    const throughClaim = async (node: string, name: string): Promise<Decision> => {
      if (graph.reachesVolume(node, name)) return allow('a pod of the node uses it');
      try {
        const { claimRef } = (await client.get(persistentVolumes, { name })).spec ?? {};
        if (claimRef?.name === undefined || claimRef.namespace === undefined) return unrelated(node);
        const { namespace } = claimRef;
        return (await reachesNow(node, namespace, `persistentvolumeclaims ${namespace}/${claimRef.name}`))
          ? allow('a pod of the node uses it')
          : unrelated(node);
      } catch (error) {
        if (isStatus(error, 'NotFound')) return unrelated(node);
        throw error;
      }
    };
    const selects = ({ fieldSelector }: ResourceAttributes, field: string, value: string): boolean => {
      if (fieldSelector === undefined) return false;
      try {
        return parseFieldSelector(fieldSelector).requiresExactMatch(field) === value;
      } catch {
        return false; // refused as malformed once it is known that the sender may ask at all
      }
    };
    const pod = async (node: string, asked: ResourceAttributes): Promise<Decision> => {
      const { verb, namespace, name } = asked;
      if (verb === 'list' || verb === 'watch') {
        if (selects(asked, 'spec.nodeName', node)) return allow('pods of the node');
        if (name === '') return none('can only list/watch pods with spec.nodeName field selector');
      }
      if (namespace === '') return none('can only read namespaced object of this type');
      if (name === '') return none(nameless);
      if (graph.isBound(node, namespace, name)) return allow('the pod is bound to the node');
      try {
        return (await client.get(pods, { namespace, name })).spec?.nodeName === node
          ? allow('the pod is bound to the node')
          : unrelated(node);
      } catch (error) {
        // one that is gone is nobody's: the sender is to learn that, and there is nothing to be had
        if (isStatus(error, 'NotFound')) return allow('there is no such pod');
        throw error;
      }
    };
    const namedByNode = async (resource: Resource, node: string, name: string): Promise<Decision> => {
      try {
        const object = await client.get(resource, { name });
        return (object as { spec?: { nodeName?: string } }).spec?.nodeName === node ? itself : unrelated(node);
      } catch (error) {
        if (isStatus(error, 'NotFound')) return unrelated(node);
        throw error;
      }
    };
    const slice = (node: string, asked: ResourceAttributes): Decision | Promise<Decision> => {
      const { verb, name } = asked;
      if (verb === 'create') return allow('admission looks at the node that it names');
      if (verb === 'list' || verb === 'watch' || verb === 'deletecollection')
        return selects(asked, 'spec.nodeName', node)
          ? itself
          : none('can only list/watch/deletecollection resourceslices with spec.nodeName field selector');
      return name !== '' && ownStatusSubjects.has(verb) ? namedByNode(resourceSlices, node, name) : noOpinion;
    };

    return {
      authorize(asked): Decision | Promise<Decision> {
        if (asked.kind === 'path') return noOpinion;
        const node = nodeOf(asked.identity);
        if (node === undefined) return noOpinion;
        const { verb, group, resource, subresource, namespace, name } = asked;
        const what = subresource === '' ? resource : `${resource}/${subresource}`;
        const general = () => (nodeRulesAllow(verb, group, what) ? allow('nodes may') : noOpinion);
        switch (group === '' ? what : `${what}.${group}`) {
          case 'secrets':
          case 'configmaps':
            return read.has(verb)
              ? throughPod(node, resource as 'secrets', asked)
              : none('can only get, list and watch objects of this type');
          case 'persistentvolumeclaims':
            return verb === 'get'
              ? throughPod(node, 'persistentvolumeclaims', asked)
              : none('can only get individual resources of this type');
          case 'persistentvolumeclaims/status':
            return verb === 'get' || verb === 'update' || verb === 'patch' ? throughPod(node, 'persistentvolumeclaims', asked) : noOpinion;
          case 'persistentvolumes':
            return verb === 'get' && name !== '' ? throughClaim(node, name) : none('can only get individual resources of this type');
          case 'serviceaccounts':
            return verb === 'get' ? throughPod(node, 'serviceaccounts', asked) : none('can only get individual resources of this type');
          case 'serviceaccounts/token':
            return verb === 'create'
              ? throughPod(node, 'serviceaccounts', asked)
              : none('can only create tokens for individual service accounts');
          case 'resourceclaims.resource.k8s.io':
            return verb === 'get' ? throughPod(node, 'resourceclaims', asked) : none('can only get individual resources of this type');
          case 'volumeattachments.storage.k8s.io':
            return verb === 'get' && name !== ''
              ? namedByNode(volumeAttachments, node, name)
              : none('can only get individual resources of this type');
          case 'leases.coordination.k8s.io':
            if (!ownStatusSubjects.has(verb)) return none('can only get, create, update, patch, or delete a node lease');
            if (namespace !== leaseNamespace) return none(`can only access leases in the "${leaseNamespace}" system namespace`);
            // what is created has no name yet when it is asked for
            return verb === 'create' || name === node
              ? itself
              : none('can only access node lease with the same name as the requesting node');
          case 'csinodes.storage.k8s.io':
            return ownStatusSubjects.has(verb) && (name === node || (verb === 'create' && name === ''))
              ? itself
              : none('can only access CSINode with the same name as the requesting node');
          case 'resourceslices.resource.k8s.io':
            return slice(node, asked);
          case 'nodes':
            if (!read.has(verb)) return general();
            return name === node ? itself : none(`node '${node}' cannot read '${name}', only its own Node object`);
          case 'pods':
            return read.has(verb) ? pod(node, asked) : general();
          default:
            return general();
        }
      },
    };
  },
});
