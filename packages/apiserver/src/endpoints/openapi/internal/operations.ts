import type { GroupVersionKind, Kind, Subresource } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import { schemaOf } from '@oarlock/api/schema/schema';
import { capitalize } from './capitalize.ts';
import { article, scopeOf, type OperationScope } from './operation-names.ts';
import {
  deleteCollectionParameters,
  deleteParameters,
  listParameters,
  nameParameter,
  namespaceParameter,
  optionParameters,
  patchParameters,
  pretty,
  proxyPathParameter,
  writeParameters,
  type Parameter,
} from './parameters.ts';
import type { Method, Operation } from './path-item.ts';
import { definitionId, type Json } from './definition-names.ts';
import type { SchemaDefinitions } from './schema-definitions.ts';

/** The definitions of a kind, to which its operations refer. */
export interface KindReferences {
  readonly object: Json;
  /** Returns a reference to the list definition, which is added on first use. */
  list(): Json;
  /** True for the kind of a CustomResourceDefinition. */
  readonly isCustom: boolean;
}

const protobuf = 'application/vnd.kubernetes.protobuf';
const textTypes = ['application/json', 'application/yaml'];
const mediaTypes = ['application/json', 'application/yaml', protobuf];
const listTypes = [...mediaTypes, 'application/json;stream=watch', `${protobuf};stream=watch`];
const anyType = ['*/*'];
const patchTypes = [
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
];
/** The media types of PATCH for custom resources, which have no strategic merge patch because they have no Go types. */
const customPatchTypes = patchTypes.filter((type) => !type.includes('strategic'));
const connectMethods: readonly Method[] = ['get', 'post'];
const proxyMethods: readonly Method[] = ['delete', 'get', 'head', 'options', 'patch', 'post', 'put'];
const text: Json = { type: 'string' };

/** The resources whose deletion returns the deleted object instead of a Status. */
export const returnDeletedObjects: ReadonlySet<string> = new Set([
  ...['persistentvolumeclaims', 'persistentvolumes', 'pods', 'podtemplates', 'resourcequotas', 'serviceaccounts', 'services'],
  ...['csidrivers', 'csinodes', 'storageclasses', 'volumeattachments', 'volumeattributesclasses'].map((name) => `${name}.storage.k8s.io`),
  ...['deviceclasses', 'devicetaintrules', 'resourceclaims', 'resourceclaimtemplates', 'resourceslices'].map(
    (name) => `${name}.resource.k8s.io`,
  ),
]);

/** What differs between the collections, objects and subresources of a kind. */
interface Target {
  /** The end of the operation ID: `NamespacedPodStatus`. */
  readonly suffix: string;
  /** The subject of the description: `status of the specified`; empty for the object itself. */
  readonly subresource: string;
  readonly kind: GroupVersionKind;
  readonly pathParameters: readonly Parameter[];
}

/** Builds the operations of one kind, in the names and words of Kubernetes. */
export class KindOperations {
  readonly #kind: Kind;
  readonly #references: KindReferences;
  readonly #definitions: SchemaDefinitions;
  readonly #scope: OperationScope;

  constructor(kind: Kind, references: KindReferences, definitions: SchemaDefinitions) {
    this.#kind = kind;
    this.#references = references;
    this.#definitions = definitions;
    this.#scope = scopeOf(kind.group, kind.version);
  }

  get #namespaced(): string {
    return this.#kind.namespaced ? 'Namespaced' : '';
  }
  get #gvk(): GroupVersionKind {
    return { group: this.#kind.group, version: this.#kind.version, kind: this.#kind.kind };
  }
  #has(verb: string): boolean {
    return this.#kind.verbs.includes(verb);
  }
  #target(suffix: string, { isNamed, inNamespace = this.#kind.namespaced }: { isNamed: boolean; inNamespace?: boolean }): Target {
    return {
      suffix,
      subresource: '',
      kind: this.#gvk,
      pathParameters: [...(isNamed ? [nameParameter(this.#kind.kind)] : []), ...(inNamespace ? [namespaceParameter] : []), pretty],
    };
  }

  /** Returns the operations on the collection of a namespace, or on the collection of a cluster-scoped kind. */
  collection(): readonly Operation[] {
    const { kind } = this.#kind;
    const target = this.#target(`${this.#namespaced}${kind}`, { isNamed: false });
    const operations: Operation[] = [];
    if (this.#has('list')) operations.push(this.#list(target));
    if (this.#has('create')) operations.push(this.#create(target, this.#references.object, `create ${article(kind)} ${kind}`));
    if (this.#has('deletecollection'))
      operations.push({
        ...this.#delete(target),
        id: `delete${this.#scope.title}Collection${target.suffix}`,
        action: 'deletecollection',
        description: `delete collection of ${kind}`,
        parameters: [...target.pathParameters, ...deleteCollectionParameters],
        response: this.#response(this.#status()),
        codes: [200],
      });
    return operations;
  }

  /** Returns the operations on the collection of all namespaces. */
  allNamespaces(): readonly Operation[] {
    if (!this.#kind.namespaced || !this.#has('list')) return [];
    return [this.#list(this.#target(`${this.#kind.kind}ForAllNamespaces`, { isNamed: false, inNamespace: false }))];
  }

  object(): readonly Operation[] {
    const { kind } = this.#kind;
    const target = this.#target(`${this.#namespaced}${kind}`, { isNamed: true });
    return this.#objectOperations(target, this.#kind.verbs, this.#references.object);
  }

  /** Returns the deprecated watch of one collection or object, under the path prefix `watch`. */
  watch(path: 'allNamespaces' | 'collection' | 'object'): readonly Operation[] {
    if (!this.#has('watch') || this.#references.isCustom || (path === 'allNamespaces' && !this.#kind.namespaced)) return [];
    const { kind } = this.#kind;
    const isObject = path === 'object';
    const suffix = path === 'allNamespaces' ? `${kind}ListForAllNamespaces` : `${this.#namespaced}${kind}${isObject ? '' : 'List'}`;
    const inNamespace = this.#kind.namespaced && path !== 'allNamespaces';
    const target = this.#target(suffix, { isNamed: isObject, inNamespace });
    const deprecated = "deprecated: use the 'watch' parameter with a list operation instead";
    return [
      {
        ...this.#base(target, 'get', 'watch'),
        action: isObject ? 'watch' : 'watchlist',
        description: isObject
          ? `watch changes to an object of kind ${kind}. ${deprecated}, filtered to a single item with the 'fieldSelector' parameter.`
          : `watch individual changes to a list of ${kind}. ${deprecated}.`,
        parameters: [...target.pathParameters, ...listParameters],
        response: { schema: this.#definitions.refTo('meta/v1.WatchEvent'), types: listTypes },
        codes: [200],
      },
    ];
  }

  /** Returns the operations of a subresource. The path of a proxy is a parameter if `withPath` is true. */
  subresource(subresource: Subresource, withPath = false): readonly Operation[] {
    const { name, group, version, kind, verbs } = subresource;
    const { kind: parent } = this.#kind;
    const own = { group, version, kind };
    const target: Target = {
      suffix: `${this.#namespaced}${parent}${capitalize(name)}${withPath ? 'WithPath' : ''}`,
      subresource: name,
      kind: own,
      pathParameters: [
        nameParameter(kind),
        ...(this.#kind.namespaced ? [namespaceParameter] : []),
        ...(withPath ? [proxyPathParameter] : []),
        ...(verbs.includes('connect') ? [] : [pretty]),
      ],
    };
    if (verbs.includes('connect')) return this.#connections(target);
    if (name === 'log') return [this.#log(target)];
    const isOwn = kind === parent && group === this.#kind.group;
    const object = isOwn ? this.#references.object : this.#definitions.refToKind(definitionId(subresource), own);
    const created = verbs.includes('create') ? [this.#create(target, object, `create ${name} of ${article(parent)} ${parent}`)] : [];
    return [...created, ...this.#objectOperations(target, verbs, object)];
  }

  #base({ suffix, kind }: Target, method: Method, verb: string): Pick<Operation, 'method' | 'id' | 'tag' | 'kind' | 'consumes'> {
    const consumes = this.#references.isCustom ? textTypes : anyType;
    return { method, id: `${verb}${this.#scope.title}${suffix}`, tag: this.#scope.tag, kind, consumes };
  }
  #response(schema: Json): Operation['response'] {
    return { schema, types: this.#references.isCustom ? textTypes : mediaTypes };
  }
  #body(schema: Json): NonNullable<Operation['body']> {
    return { schema, types: this.#references.isCustom ? textTypes : anyType, required: true };
  }
  #status(): Json {
    return this.#definitions.refToKind('meta/v1.Status', { group: '', version: 'v1', kind: 'Status' });
  }

  #list(target: Target): Operation {
    const { isCustom, list } = this.#references;
    return {
      ...this.#base(target, 'get', 'list'),
      action: 'list',
      description: `${isCustom ? 'list' : 'list or watch'} objects of kind ${this.#kind.kind}`,
      parameters: [...target.pathParameters, ...listParameters],
      response: { schema: list(), types: isCustom ? textTypes : listTypes },
      codes: [200],
    };
  }

  #create(target: Target, object: Json, description: string): Operation {
    return {
      ...this.#base(target, 'post', 'create'),
      action: 'post',
      description,
      parameters: [...target.pathParameters, ...writeParameters],
      body: this.#body(object),
      response: this.#response(object),
      codes: [200, 201, 202],
    };
  }

  #delete(target: Target): Operation {
    const { kind } = this.#kind;
    const schema = returnDeletedObjects.has(groupResource(this.#kind)) ? this.#references.object : this.#status();
    return {
      ...this.#base(target, 'delete', 'delete'),
      action: 'delete',
      description: `delete ${article(kind)} ${kind}`,
      parameters: [...target.pathParameters, ...deleteParameters],
      body: { ...this.#body(this.#definitions.refTo('meta/v1.DeleteOptions')), required: false },
      response: this.#response(schema),
      codes: [200, 202],
    };
  }

  #objectOperations(target: Target, verbs: readonly string[], object: Json): readonly Operation[] {
    const subject = `${target.subresource === '' ? '' : `${target.subresource} of `}the specified ${this.#kind.kind}`;
    const response = this.#response(object);
    const operations: Operation[] = [];
    if (verbs.includes('get'))
      operations.push({
        ...this.#base(target, 'get', 'read'),
        action: 'get',
        description: `read ${subject}`,
        parameters: target.pathParameters,
        response,
        codes: [200],
      });
    if (verbs.includes('update'))
      operations.push({
        ...this.#base(target, 'put', 'replace'),
        action: 'put',
        description: `replace ${subject}`,
        parameters: [...target.pathParameters, ...writeParameters],
        body: this.#body(object),
        response,
        codes: [200, 201],
      });
    if (verbs.includes('delete') && target.subresource === '') operations.push(this.#delete(target));
    if (verbs.includes('patch'))
      operations.push({
        ...this.#base(target, 'patch', 'patch'),
        action: 'patch',
        description: `partially update ${subject}`,
        parameters: [...target.pathParameters, ...patchParameters],
        body: {
          schema: this.#definitions.refTo('meta/v1.Patch'),
          types: this.#references.isCustom ? customPatchTypes : patchTypes,
          required: true,
        },
        response,
        codes: [200, 201],
      });
    return operations;
  }

  #connections({ suffix, subresource, kind, pathParameters }: Target): readonly Operation[] {
    const parameters = [...pathParameters, ...optionParameters(schemaOf(kind))];
    return (subresource === 'proxy' ? proxyMethods : connectMethods).map((method) => ({
      method,
      id: `connect${this.#scope.title}${capitalize(method)}${suffix}`,
      tag: this.#scope.tag,
      consumes: anyType,
      description: `connect ${method.toUpperCase()} requests to ${subresource} of ${this.#kind.kind}`,
      action: 'connect',
      kind,
      parameters,
      response: { schema: text, types: anyType },
      codes: [200],
    }));
  }

  #log(target: Target): Operation {
    const options = optionParameters(schemaOf({ group: '', version: 'v1', kind: 'PodLogOptions' }));
    return {
      ...this.#base(target, 'get', 'read'),
      action: 'get',
      description: `read log of the specified ${this.#kind.kind}`,
      parameters: [...target.pathParameters, ...options],
      response: { schema: text, types: ['text/plain', ...mediaTypes] },
      codes: [200],
    };
  }
}
