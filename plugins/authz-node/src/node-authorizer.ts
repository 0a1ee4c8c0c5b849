import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { resourceSlices, volumeAttachments } from '@oarlock/api/resources';
import type { Identity } from '@oarlock/spi/authn';
import { noOpinion, type Attributes, type Authorizer, type Decision, type ResourceAttributes } from '@oarlock/spi/authz';
import type { NodeObjects } from './node-objects.ts';
import { nodeRulesAllow } from './node-rules.ts';
import type { ReferencedResource } from './pod-references.ts';

/** Decides a node's request for one resource. */
type ResourceRule = (node: string, attributes: ResourceAttributes) => Decision | Promise<Decision>;

const userPrefix = 'system:node:';
const leaseNamespace = 'kube-node-lease';
const readVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const objectVerbs: ReadonlySet<string> = new Set(['get', 'create', 'update', 'patch', 'delete']);

const allow = (reason: string): Decision => ({ decision: 'allow', reason });
const none = (reason: string): Decision => ({ decision: 'no-opinion', reason });
const noRelationship = (node: string) => none(`no relationship found between node '${node}' and this object`);
const ownObject = allow('it is the object of the node itself');
const individualOnly = none('can only get individual resources of this type');
const namespacedOnly = none('can only read namespaced object of this type');
/** The decision on a list request, for which upstream also requires an object name. */
const nameRequired = none('No Object name found');

/** Authorizes nodes as upstream's Node authorizer does: by the node's name and by the pods that are bound to the node. */
export class NodeAuthorizer implements Authorizer {
  readonly #objects: NodeObjects;
  /** The rules of resources, keyed by `resource[/subresource][.group]`. Other resources have the rules that all nodes share. */
  readonly #rules: ReadonlyMap<string, ResourceRule>;

  constructor(objects: NodeObjects) {
    this.#objects = objects;
    this.#rules = this.#resourceRules();
  }

  authorize(attributes: Attributes): Decision | Promise<Decision> {
    if (attributes.kind === 'path') return noOpinion;
    const node = nodeNameOf(attributes.identity);
    if (node === undefined) return noOpinion;
    const { group } = attributes;
    const resource = resourceOf(attributes);
    const rule = this.#rules.get(group === '' ? resource : `${resource}.${group}`) ?? sharedRule;
    return rule(node, attributes);
  }

  #resourceRules(): ReadonlyMap<string, ResourceRule> {
    const readReferenced = this.#referenced(readVerbs, none('can only get, list and watch objects of this type'));
    const getReferenced = this.#referenced(new Set(['get']), individualOnly);
    const tokens = this.#referenced(new Set(['create']), none('can only create tokens for individual service accounts'));
    return new Map<string, ResourceRule>([
      ['secrets', readReferenced],
      ['configmaps', readReferenced],
      ['persistentvolumeclaims', getReferenced],
      ['persistentvolumeclaims/status', this.#referenced(new Set(['get', 'update', 'patch']), noOpinion)],
      ['persistentvolumes', (node, attributes) => this.#persistentVolume(node, attributes)],
      ['serviceaccounts', getReferenced],
      ['serviceaccounts/token', tokens],
      ['resourceclaims.resource.k8s.io', getReferenced],
      ['volumeattachments.storage.k8s.io', (node, attributes) => this.#volumeAttachment(node, attributes)],
      ['leases.coordination.k8s.io', lease],
      ['csinodes.storage.k8s.io', csiNode],
      ['resourceslices.resource.k8s.io', (node, attributes) => this.#resourceSlice(node, attributes)],
      ['nodes', ownNode],
      ['pods', (node, attributes) => this.#pod(node, attributes)],
    ]);
  }

  /** Returns a rule that allows `verbs` for objects that the node's pods reference, and returns `otherwise` for all other verbs. */
  #referenced(verbs: ReadonlySet<string>, otherwise: Decision): ResourceRule {
    return async (node, { verb, resource, namespace, name }) => {
      if (!verbs.has(verb)) return otherwise;
      if (namespace === '') return namespacedOnly;
      if (name === '') return nameRequired;
      const related = await this.#objects.reaches(node, namespace, `${resource as ReferencedResource} ${namespace}/${name}`);
      return related ? allow('a pod of the node refers to it') : noRelationship(node);
    };
  }

  async #persistentVolume(node: string, { verb, name }: ResourceAttributes): Promise<Decision> {
    if (verb !== 'get' || name === '') return individualOnly;
    return (await this.#objects.reachesVolume(node, name)) ? allow('a pod of the node uses it') : noRelationship(node);
  }

  async #volumeAttachment(node: string, { verb, name }: ResourceAttributes): Promise<Decision> {
    if (verb !== 'get' || name === '') return individualOnly;
    return (await this.#objects.isNodeNameOf(node, volumeAttachments, name)) ? ownObject : noRelationship(node);
  }

  async #resourceSlice(node: string, attributes: ResourceAttributes): Promise<Decision> {
    const { verb, name } = attributes;
    if (verb === 'create') return allow('admission checks the node name of the object');
    if (verb === 'list' || verb === 'watch' || verb === 'deletecollection')
      return selectsNodeName(attributes, node)
        ? ownObject
        : none('can only list/watch/deletecollection resourceslices with spec.nodeName field selector');
    if (name === '' || !objectVerbs.has(verb)) return noOpinion;
    return (await this.#objects.isNodeNameOf(node, resourceSlices, name)) ? ownObject : noRelationship(node);
  }

  async #pod(node: string, attributes: ResourceAttributes): Promise<Decision> {
    const { verb, namespace, name } = attributes;
    if (!readVerbs.has(verb)) return sharedRule(node, attributes);
    if (verb !== 'get') {
      if (selectsNodeName(attributes, node)) return allow('pods of the node');
      if (name === '') return none('can only list/watch pods with spec.nodeName field selector');
    }
    if (namespace === '') return namespacedOnly;
    if (name === '') return nameRequired;
    const binding = await this.#objects.podBinding(node, namespace, name);
    if (binding === 'unrelated') return noRelationship(node);
    // the kubelet learns by a 404 that a pod was deleted
    return allow(binding === 'bound' ? 'the pod is bound to the node' : 'the pod does not exist');
  }
}

/** Returns the node name of a node's identity; undefined for identities of other users. */
function nodeNameOf({ name, groups }: Identity): string | undefined {
  const isNode = name.startsWith(userPrefix) && name.length > userPrefix.length && groups.includes('system:nodes');
  return isNode ? name.slice(userPrefix.length) : undefined;
}

const resourceOf = ({ resource, subresource }: ResourceAttributes): string =>
  subresource === '' ? resource : `${resource}/${subresource}`;

/** Allows the requests that every node may make. */
function sharedRule(_node: string, attributes: ResourceAttributes): Decision {
  return nodeRulesAllow(attributes.verb, attributes.group, resourceOf(attributes)) ? allow('allowed for every node') : noOpinion;
}

function lease(node: string, { verb, namespace, name }: ResourceAttributes): Decision {
  if (!objectVerbs.has(verb)) return none('can only get, create, update, patch, or delete a node lease');
  if (namespace !== leaseNamespace) return none(`can only access leases in the "${leaseNamespace}" system namespace`);
  // a create request has no name when it is authorized; admission-node-restriction checks the name
  const isOwn = verb === 'create' || name === node;
  return isOwn ? ownObject : none('can only access node lease with the same name as the requesting node');
}

function csiNode(node: string, { verb, name }: ResourceAttributes): Decision {
  const isOwn = objectVerbs.has(verb) && (name === node || (verb === 'create' && name === ''));
  return isOwn ? ownObject : none('can only access CSINode with the same name as the requesting node');
}

function ownNode(node: string, attributes: ResourceAttributes): Decision {
  const { verb, name } = attributes;
  if (!readVerbs.has(verb)) return sharedRule(node, attributes);
  return name === node ? ownObject : none(`node '${node}' cannot read '${name}', only its own Node object`);
}

function selectsNodeName({ fieldSelector }: ResourceAttributes, node: string): boolean {
  if (fieldSelector === undefined) return false;
  try {
    return parseFieldSelector(fieldSelector).requiresExactMatch('spec.nodeName') === node;
  } catch {
    return false; // the request fails with 400 after authorization
  }
}
