import { storageVersionOf } from './definition/storage-version.ts';
import { jsonEqual } from '@oarlock/api/json/json';
import { apiVersionOf, resource } from '@oarlock/api/resource';
import type { Kind } from '@oarlock/api/kinds';
import type { CustomResourceDefinition, CustomResourceDefinitionVersion } from '@oarlock/api/types/apiextensions-v1';
import type { ServedKind, StoredKind } from '../registry/served-kind.ts';
import type { Item } from '../watch-cache/item.ts';
import type { WatchCacheEvent } from '../watch-cache/watch-cache-event.ts';
import { registerPrinter } from '../endpoints/negotiation/table/printers.ts';
import { storageRoot } from '../storage/storage-root.ts';
import type { WatchCache } from '../watch-cache/watch-cache.ts';
import { CustomCodec } from './internal/custom-codec.ts';
import { printerFromColumns } from './internal/printer-columns.ts';
import type { ConversionWebhooks } from './conversion/conversion-webhook.ts';
import { newConverter, type Converter } from './conversion/converter.ts';
import { newCustomKind } from './internal/custom-kind.ts';
import { isEstablished, isTerminating } from './definition/naming.ts';
import type { PublishedSchema, PublishedKind } from './published-kind.ts';
import type { RuleMetrics } from './cel/rule-metrics.ts';
import { SchemaNode } from './schema/schema-node.ts';
import { strictSchema } from './schema/strict-schema.ts';
import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';

export const definitionsName = 'customresourcedefinitions.apiextensions.k8s.io';
export const definitionsPrefix = `${storageRoot}${definitionsName}/`;

const verbs = ['delete', 'deletecollection', 'get', 'list', 'patch', 'create', 'update', 'watch'];
const terminatingVerbs = ['delete', 'deletecollection', 'get', 'list', 'watch'];
const subresourceVerbs = ['get', 'patch', 'update'];

/** An established CustomResourceDefinition whose objects are served. */
interface ServedDefinition {
  readonly definition: CustomResourceDefinition;
  /** A value that is equal for two versions of the definition if they are served in the same way. */
  readonly publicationMark: string;
  readonly store: StoredKind;
  readonly converter: Converter;
  readonly kinds: readonly PublishedKind[];
}

export interface CustomResourcesOptions {
  readonly cache: WatchCache;
  readonly webhooks: ConversionWebhooks;
  /** The built-in resources, which a definition cannot replace. */
  readonly builtin: ReadonlySet<string>;
  /** Called when the served kinds have changed. */
  readonly onChange: () => void;
  readonly metrics?: RuleMetrics | undefined;
}

/**
 * Serves the kinds of CustomResourceDefinitions, from the condition Established until deletion. Follows the cached definitions; a schema is
 * parsed when its kind is first used.
 */
export class CustomResources {
  readonly #webhooks: ConversionWebhooks;
  readonly #cache: WatchCache;
  /** The served definitions, by `plural.group`. */
  readonly #served = new Map<string, ServedDefinition>();
  /** The served kinds, by `group/version/plural`. A function creates the kind on first use. */
  readonly #kinds = new Map<string, ServedKind | (() => ServedKind)>();
  readonly #builtin: ReadonlySet<string>;
  readonly #onChange: () => void;
  readonly #metrics: RuleMetrics | undefined;

  constructor({ cache, webhooks, builtin, onChange, metrics }: CustomResourcesOptions) {
    this.#metrics = metrics;
    this.#cache = cache;
    this.#builtin = builtin;
    this.#webhooks = webhooks;
    this.#onChange = onChange;
  }

  /** Returns the served kinds sorted by group and name, newest versions first. The result is a new array after each change. */
  kinds(): readonly Kind[] {
    return [...this.#served.values()]
      .flatMap(({ kinds }) => kinds)
      .sort(
        (a, b) =>
          compareText(a.group, b.group) ||
          (a.version === b.version ? compareText(a.resource, b.resource) : compareKubeAwareVersions(a.version, b.version)),
      );
  }

  find(group: string, version: string, name: string): ServedKind | undefined {
    const key = `${group}/${version}/${name}`;
    const kind = this.#kinds.get(key);
    if (typeof kind !== 'function') return kind;
    const servedKind = kind();
    this.#kinds.set(key, servedKind);
    return servedKind;
  }

  /** Returns a served kind of the definition in any version, for callers that do not depend on the form of objects; undefined if not served. */
  servedKindOf({ metadata }: CustomResourceDefinition): ServedKind | undefined {
    const served = this.#served.get(metadata?.name ?? '');
    const kind = served?.kinds[0];
    return kind && this.find(kind.group, kind.version, kind.resource);
  }

  /** Replaces all definitions. Called before their objects are loaded. */
  reset(items: readonly Item[]): void {
    const names = new Set(items.map(({ key }) => key));
    for (const name of this.#served.keys()) if (!names.has(name)) this.#remove(name);
    for (const { object } of items) this.#put(object as CustomResourceDefinition);
    this.#onChange();
  }

  onEvent({ key, current }: WatchCacheEvent): void {
    const changed = current === undefined ? this.#remove(key) : this.#put(current.object as CustomResourceDefinition);
    if (changed) this.#onChange();
  }

  #put(definition: CustomResourceDefinition): boolean {
    const name = definition.metadata?.name ?? '';
    const before = this.#served.get(name);
    if (!isEstablished(definition) || this.#builtin.has(name)) return before !== undefined && this.#remove(name);
    const { acceptedNames } = definition.status ?? {};
    const { uid = '', generation = 0 } = definition.metadata ?? {};
    const mark = JSON.stringify([uid, generation, isTerminating(definition), acceptedNames]);
    if (before?.publicationMark === mark) return false;
    if (before !== undefined && before.definition.metadata?.uid !== uid) this.#remove(name);
    const { spec } = definition;
    const storage = storageVersionOf(definition);
    if (storage === undefined) return this.#remove(name);
    const codec = new CustomCodec(apiVersionOf({ group: spec.group, version: storage.name }), spec.names.kind);
    const cache = this.#cache.add({ name, namespaced: spec.scope === 'Namespaced', codec });
    const schemas = new Map<string, SchemaNode>();
    const schemaOf = (version: CustomResourceDefinitionVersion) => {
      let schema = schemas.get(version.name);
      if (schema === undefined) {
        schema = new SchemaNode(version.schema?.openAPIV3Schema ?? {}, true);
        schemas.set(version.name, schema);
      }
      return schema;
    };
    const converter = newConverter(definition, this.#webhooks);
    const kinds = spec.versions
      .filter(({ served }) => served)
      .sort((a, b) => compareKubeAwareVersions(a.name, b.name))
      .map((version, i) => newPublishedKind({ definition, version, preferred: i === 0, mark, schema: () => schemaOf(version) }));
    const store: StoredKind = {
      name,
      namespaced: spec.scope === 'Namespaced',
      codec,
      resource: resource(spec.group, storage.name, spec.names.plural, spec.names.kind, spec.scope === 'Namespaced'),
      storagePrefix: `${storageRoot}${name}/`,
      cache,
    };
    for (const kind of before?.kinds ?? []) this.#kinds.delete(keyOf(kind));
    // watchers have seen objects of the old schema: their watches end
    if (before !== undefined && !jsonEqual(before.definition.spec, spec)) cache.endWatchers();
    for (const kind of kinds) {
      const version = spec.versions.find((candidate) => candidate.name === kind.version) as CustomResourceDefinitionVersion;
      this.#kinds.set(keyOf(kind), () =>
        newCustomKind({ definition, version, kind, schema: schemaOf(version), store, converter, metrics: this.#metrics }),
      );
    }
    this.#served.set(name, { definition, publicationMark: mark, store, converter, kinds });
    return true;
  }

  #remove(name: string): boolean {
    const served = this.#served.get(name);
    if (served === undefined) return false;
    this.#served.delete(name);
    for (const kind of served.kinds) this.#kinds.delete(keyOf(kind));
    this.#cache.remove(name);
    return true;
  }
}

const keyOf = ({ group, version, resource: name }: Kind) => `${group}/${version}/${name}`;
const compareText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

interface PublishedVersion {
  readonly definition: CustomResourceDefinition;
  readonly version: CustomResourceDefinitionVersion;
  /** True for the version of the group that discovery prefers. */
  readonly preferred: boolean;
  readonly mark: string;
  readonly schema: () => SchemaNode;
}

function newPublishedKind(published: PublishedVersion): PublishedKind {
  const { definition, version, preferred } = published;
  const { spec, status } = definition;
  // acceptedNames is empty until the names are accepted
  const names = (status?.acceptedNames?.plural ?? '') === '' ? spec.names : (status?.acceptedNames ?? spec.names);
  const namespaced = spec.scope === 'Namespaced';
  const { group } = spec;
  const self = { group, version: version.name, kind: names.kind };
  const { status: hasStatus, scale } = version.subresources ?? {};
  return {
    group,
    version: version.name,
    resource: names.plural,
    singular: names.singular ?? names.kind.toLowerCase(),
    kind: names.kind,
    listKind: names.listKind ?? `${names.kind}List`,
    namespaced,
    verbs: isTerminating(definition) ? terminatingVerbs : verbs,
    shortNames: names.shortNames ?? [],
    categories: names.categories ?? [],
    servedByDefault: true,
    preferred,
    subresources: [
      ...(hasStatus === undefined ? [] : [{ name: 'status', ...self, verbs: subresourceVerbs }]),
      ...(scale === undefined ? [] : [{ name: 'scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs: subresourceVerbs }]),
    ],
    publishedSchema: new Publication(resource(group, version.name, names.plural, names.kind, namespaced), published),
  };
}

class Publication implements PublishedSchema {
  readonly resource: PublishedSchema['resource'];
  readonly storageVersion: string;
  readonly #version: CustomResourceDefinitionVersion;
  readonly #mark: string;
  readonly #schema: () => SchemaNode;
  #printer: PublishedSchema['printer'] | undefined;

  constructor(resource: PublishedSchema['resource'], { definition, version, mark, schema }: PublishedVersion) {
    this.resource = resource;
    this.storageVersion = storageVersionOf(definition)?.name ?? version.name;
    this.#version = version;
    this.#mark = `${mark}${version.name}`;
    this.#schema = schema;
    registerPrinter(resource, () => this.printer);
  }

  get schema(): PublishedSchema['schema'] {
    return this.#version.schema?.openAPIV3Schema;
  }
  get fields(): PublishedSchema['fields'] {
    return strictSchema(this.#schema());
  }
  get printer(): PublishedSchema['printer'] {
    return (this.#printer ??= printerFromColumns(this.#version.additionalPrinterColumns));
  }
  toJSON(): string {
    return this.#mark;
  }
}
