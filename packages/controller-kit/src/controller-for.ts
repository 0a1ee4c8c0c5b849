import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Plugin, PluginContext } from '@oarlock/kernel/plugin';
import { Client, Events, Informers, type EventRecorderFactory, type Informer, type Lister } from '@oarlock/spi/client';
import { Cluster, Keys, type ClusterFacts, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { z } from 'zod';
import { conversionOf } from './conversion.ts';
import { CustomResourceKind, type CustomObject } from './custom-resource.ts';
import { Applier } from './internal/applier.ts';
import { DefinitionInstaller } from './internal/definition-installer.ts';
import { KitController, type ControllerPlan, type MappedWatch, type Ownership } from './internal/kit-controller.ts';
import { controllerIndex, controllerUids } from './internal/kit-reconciliation.ts';
import type { FinalizeFunction, ReconcileFunction } from './reconciliation.ts';

/** A resource, or a custom resource. */
export type KindOf<T extends KubeObject> = Resource<T> | CustomResourceKind<T & CustomObject>;

const resourceOf = <T extends KubeObject>(kind: KindOf<T>): Resource<T> =>
  kind instanceof CustomResourceKind ? (kind.resource as Resource<KubeObject> as Resource<T>) : kind;

export interface ControllerOptions<C extends z.ZodType> {
  /** The id of the plugin, `controller-<name>`. Without its prefix it is the name of the controller in metrics, spans and settings. */
  readonly id: string;
  /** A strict schema of the config. Default: no config. */
  readonly config?: C;
}

interface Parts<T extends KubeObject, C extends z.ZodType> extends Omit<ControllerPlan<T, z.output<C>>, 'reconcile'> {
  readonly id: string;
  readonly config: C;
  readonly custom: CustomResourceKind<CustomObject> | undefined;
  readonly installs: boolean;
  readonly rules: readonly string[];
}

/**
 * Builds a controller plugin (builder.ControllerManagedBy of controller-runtime). Methods return a new builder; `reconcile` returns the plugin, for
 * the default export.
 *
 * The plugin declares the permissions that the helpers of a reconcile need: status and finalizers of the reconciled resource, and all writes of owned
 * resources. `allow` adds others.
 */
export class ControllerBuilder<T extends KubeObject, C extends z.ZodType> {
  readonly #parts: Parts<T, C>;

  constructor(parts: Parts<T, C>) {
    this.#parts = parts;
  }

  /** Reconciles the controlling object when an object of this resource changes, and lets the reconcile apply such objects. */
  owns<O extends KubeObject>(
    kind: KindOf<O>,
    { matchEveryOwner = false }: Partial<Pick<Ownership, 'matchEveryOwner'>> = {},
  ): ControllerBuilder<T, C> {
    const ownership = { resource: resourceOf(kind) as Resource<KubeObject> as Resource, matchEveryOwner };
    return this.#with({ ownerships: [...this.#parts.ownerships, ownership] });
  }

  /**
   * Reconciles the objects whose keys `keys` returns when an object of this resource changes: it is called with the present object and with the one
   * before the change. `reconciled` is the cache of the reconciled resource.
   */
  watches<O extends KubeObject>(kind: KindOf<O>, keys: (object: O, reconciled: Lister<T>) => Iterable<ObjectKey>): ControllerBuilder<T, C> {
    const mapped = { resource: resourceOf(kind), keys } as unknown as MappedWatch;
    return this.#with({ mapped: [...this.#parts.mapped, mapped] });
  }

  /** Adds a finalizer to every object before its first reconcile, and calls `finalize` when the object is deleted. */
  finalizer(name: string, finalize: FinalizeFunction<T, z.output<C>>): ControllerBuilder<T, C> {
    if (!/^[^/]+\/[^/]+$/.test(name))
      throw new Error(`the finalizer ${JSON.stringify(name)} must be a qualified name such as example.com/cleanup`);
    return this.#with({ finalizer: { name, finalize } });
  }

  /** Sets the maximum number of concurrent reconciles (MaxConcurrentReconciles of controller-runtime). Default 5. */
  concurrency(workers: number): ControllerBuilder<T, C> {
    if (!Number.isInteger(workers) || workers < 1) throw new Error(`concurrency must be a positive integer, not ${workers}`);
    return this.#with({ concurrency: workers });
  }

  /** Declares further permissions, such as `get | core | secrets`. */
  allow(...rules: readonly string[]): ControllerBuilder<T, C> {
    return this.#with({ rules: [...this.#parts.rules, ...rules] });
  }

  /** Applies the CustomResourceDefinition of the reconciled kind when the plugin starts. */
  installDefinition(): ControllerBuilder<T, C> {
    if (this.#parts.custom === undefined) throw new Error(`${groupResource(this.#parts.resource)} is not a custom resource`);
    return this.#with({ installs: true });
  }

  /** Returns the plugin, for the default export. */
  reconcile(reconcile: ReconcileFunction<T, z.output<C>>): Plugin {
    const parts = this.#parts;
    const needs = { client: Client, informers: Informers, events: Events };
    const declares = { loop: nameOf(parts.id), rules: rulesOf(parts).join('; ') };
    const { id, config } = parts;
    // the keys of the cluster are not available to plugins with a placement: only a conversion needs them
    if (parts.installs && parts.custom?.hasConversion === true)
      return Controllers.plugin({
        id,
        config,
        declares,
        needs: { ...needs, keys: Keys, facts: Cluster },
        create: (dependencies, context) => create({ ...parts, reconcile }, dependencies, context),
      });
    return Controllers.plugin({
      id,
      config,
      declares,
      needs,
      create: (dependencies, context) => create({ ...parts, reconcile }, dependencies, context),
    });
  }

  #with(changes: Partial<Parts<T, C>>): ControllerBuilder<T, C> {
    return new ControllerBuilder({ ...this.#parts, ...changes });
  }
}

/**
 * Starts a controller of one resource.
 *
 * ```ts
 * export default controllerFor(Website, { id: 'controller-website' })
 *   .owns(deployments)
 *   .installDefinition()
 *   .reconcile(async (website, { apply, setStatus }) => { ... });
 * ```
 */
export function controllerFor<T extends KubeObject, C extends z.ZodType = z.ZodObject<{}, z.core.$strict>>(
  kind: KindOf<T>,
  { id, config }: ControllerOptions<C>,
): ControllerBuilder<T, C> {
  if (!id.startsWith('controller-')) throw new Error(`the id ${JSON.stringify(id)} must have the form controller-<name>`);
  const isCustom = kind instanceof CustomResourceKind;
  return new ControllerBuilder<T, C>({
    id,
    config: config ?? (z.strictObject({}) as unknown as C),
    resource: resourceOf(kind),
    custom: isCustom ? (kind as unknown as CustomResourceKind<CustomObject>) : undefined,
    ownerships: [],
    mapped: [],
    rules: [],
    installs: false,
  });
}

const nameOf = (id: string): string => id.slice('controller-'.length);

/** Returns the permissions that the plugin needs, in the form of `declares.rules`. */
function rulesOf<T extends KubeObject, C extends z.ZodType>({
  resource,
  ownerships,
  custom,
  installs,
  rules,
}: Parts<T, C>): readonly string[] {
  const inGroup = (group: string) => (group === '' ? 'core' : group);
  const own = inGroup(resource.group);
  const definition = groupResource(resource);
  return [
    `get,patch | ${own} | ${resource.resource},${resource.resource}/status`,
    // a controller reference blocks the deletion of its owner
    `update | ${own} | ${resource.resource}/finalizers`,
    ...ownerships.map(({ resource: owned }) => `get,create,patch,delete | ${inGroup(owned.group)} | ${owned.resource}`),
    ...(installs && custom !== undefined
      ? [
          `create | apiextensions.k8s.io | customresourcedefinitions`,
          `get,patch | apiextensions.k8s.io | customresourcedefinitions | ${definition}`,
        ]
      : []),
    ...rules,
  ];
}

interface CreateDependencies<C> {
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventRecorderFactory;
  readonly keys?: ClusterKeys;
  readonly facts?: ClusterFacts;
  readonly config: C;
}

function create<T extends KubeObject, C extends z.ZodType>(
  parts: Parts<T, C> & Pick<ControllerPlan<T, z.output<C>>, 'reconcile'>,
  { client, informers, events, keys, facts, config }: CreateDependencies<z.output<C>>,
  { name, clock, log }: PluginContext,
): Controller {
  const { id, resource, ownerships, mapped, custom, installs } = parts;
  const fieldManager = name === '' ? id : name;
  const byName = new Map<string, Informer>();
  for (const each of [
    resource as Resource<KubeObject> as Resource,
    ...ownerships.map((each) => each.resource),
    ...mapped.map((each) => each.resource),
  ])
    byName.set(groupResource(each), informers.forResource(each));
  for (const owned of ownerships) byName.get(groupResource(owned.resource))?.addIndexer(controllerIndex, controllerUids);
  const applier = new Applier(fieldManager);
  const dependencies = {
    config,
    clock,
    applier,
    recorder: events.recorder(fieldManager),
    informers: byName,
    owned: new Set(ownerships.map((each) => groupResource(each.resource))),
  };
  const installer =
    installs && custom !== undefined
      ? new DefinitionInstaller({
          client,
          clock,
          log,
          applier,
          definition: () =>
            keys === undefined || facts === undefined
              ? custom.definition
              : custom.definitionWith(conversionOf(custom, { caBundle: keys.caBundle, serverUrl: facts.serverUrl })),
        })
      : undefined;
  return new KitController(nameOf(id), parts, { dependencies, installer });
}
