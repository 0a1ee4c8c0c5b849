import { isObject } from '@oarlock/api/json/json';
import { kinds } from '@oarlock/api/kinds';
import { apiServices } from '@oarlock/api/resources';
import { groupResource, resource } from '@oarlock/api/resource';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { DiscoveredKind } from './discovered-kind.ts';

/** Interval in milliseconds between discovery requests, as upstream: extension API servers do not announce new kinds. */
const rediscoveryIntervalMs = 30_000;
const builtinGroupVersions: ReadonlySet<string> = new Set(
  kinds.filter(({ servedByDefault }) => servedByDefault).map(({ group, version }) => `${group}/${version}`),
);

interface DiscoveredGroup {
  service: APIService;
  kinds: readonly DiscoveredKind[];
  failing: boolean;
  /** Incremented with each discovery request, so that the response to a superseded request is dropped. */
  readSequence: number;
  timer: Timer | undefined;
  readonly backoff: Backoff;
}

export interface ApiServiceKindsOptions {
  readonly informers: Informers;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number generator: returns a number in [0, 1). */
  readonly random: () => number;
}

/**
 * Kinds of the groups and versions that are not built in: those of extension API servers, and those that a newer or differently configured API
 * server serves. APIServices list the groups and their availability; the discovery document of each group version lists the kinds. A group
 * that does not respond keeps the kinds that were last known.
 */
export class ApiServiceKinds {
  readonly informer: Informer<APIService>;
  readonly #options: ApiServiceKindsOptions;
  readonly #groups = new Map<string, DiscoveredGroup>();
  readonly #pendingReads = new Set<Promise<void>>();

  constructor(options: ApiServiceKindsOptions) {
    this.#options = options;
    this.informer = options.informers.forResource(apiServices);
  }

  /** Registers a listener for changes of the kinds or the availability of a group. Returns a function that removes the listener. */
  on(onChange: () => void): () => void {
    const abort = new AbortController();
    const put = (service: APIService) => this.#onAPIService(service, onChange, abort.signal);
    const removeHandler = this.informer.addEventHandler({
      onAdd: put,
      onUpdate: put,
      onDelete: (service) => {
        this.#removeGroup(service);
        onChange();
      },
    });
    return () => {
      removeHandler();
      abort.abort();
      for (const { service } of this.#groups.values()) this.#removeGroup(service);
    };
  }

  /** Returns each resource of a group once, in the version that the API server prefers. */
  list(): ReadonlyMap<string, DiscoveredKind> {
    const found = new Map<string, DiscoveredKind>();
    for (const group of [...this.#groups.values()].sort(byPreference))
      for (const kind of group.kinds) {
        const name = groupResource(kind.resource);
        if (!found.has(name)) found.set(name, kind);
      }
    return found;
  }

  /** Group versions whose discovery requests fail, sorted. */
  get failingGroupVersions(): readonly string[] {
    return [...this.#groups.values()].flatMap(({ service, failing }) => (failing ? [groupVersion(service)] : [])).sort();
  }

  /** Resolves when no discovery request is in flight. */
  async whenRead(): Promise<void> {
    while (this.#pendingReads.size > 0) await Promise.all(this.#pendingReads);
  }

  #onAPIService(service: APIService, onChange: () => void, signal: AbortSignal): void {
    const name = service.metadata?.name ?? '';
    const known = this.#groups.get(name);
    if (!needsDiscovery(service)) {
      if (known === undefined) return;
      this.#removeGroup(service);
      onChange();
      return;
    }
    const same = known !== undefined && isAvailable(known.service) === isAvailable(service) && sameSpec(known.service, service);
    const group = known ?? this.#newGroup(service);
    group.service = service;
    if (same) return;
    this.#groups.set(name, group);
    if (isAvailable(service)) {
      this.#discover(group, onChange, signal);
      return;
    }
    group.timer?.cancel();
    group.readSequence += 1;
    group.failing = true;
    onChange();
  }

  #newGroup(service: APIService): DiscoveredGroup {
    const backoff = new Backoff({ firstMs: 500, longestMs: rediscoveryIntervalMs, jitter: 0.5, random: this.#options.random });
    return { service, kinds: [], failing: false, readSequence: 0, timer: undefined, backoff };
  }

  #removeGroup({ metadata }: APIService): void {
    const group = this.#groups.get(metadata?.name ?? '');
    if (group === undefined) return;
    group.timer?.cancel();
    group.readSequence += 1;
    this.#groups.delete(metadata?.name ?? '');
  }

  #discover(group: DiscoveredGroup, onChange: () => void, signal: AbortSignal): void {
    group.timer?.cancel();
    const sequence = ++group.readSequence;
    const read = this.#fetchKinds(group, signal).then((answer) => {
      this.#pendingReads.delete(read);
      if (sequence !== group.readSequence) return;
      group.failing = answer === undefined;
      if (answer !== undefined) {
        group.kinds = answer;
        group.backoff.reset();
      }
      const delayMs = answer === undefined ? group.backoff.next() : rediscoveryIntervalMs;
      group.timer = this.#options.clock.after(delayMs, () => this.#discover(group, onChange, signal));
      onChange();
    });
    this.#pendingReads.add(read);
  }

  /** Returns the kinds of a group version, or undefined if the discovery request failed. */
  async #fetchKinds({ service }: DiscoveredGroup, signal: AbortSignal): Promise<readonly DiscoveredKind[] | undefined> {
    const path = `/apis/${groupVersion(service)}`;
    try {
      return kindsOf(service, await this.#options.client.raw('GET', path, undefined, { signal }));
    } catch (error) {
      if (!signal.aborted)
        this.#options.log.info({ err: error, path }, 'API discovery of a group version failed; keeping its last known kinds');
      return undefined;
    }
  }
}

const groupVersion = ({ spec }: APIService): string => `${spec?.group ?? ''}/${spec?.version ?? ''}`;
const isAvailable = ({ status }: APIService): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Available' && is === 'True') === true;
const sameSpec = (a: APIService, b: APIService): boolean => a.spec === b.spec || JSON.stringify(a.spec) === JSON.stringify(b.spec);

/** Returns true if discovery must provide the kinds of an APIService; false for custom resources, which their definitions describe. */
function needsDiscovery(service: APIService): boolean {
  const { metadata, spec } = service;
  if (spec?.service !== undefined) return true;
  return (
    metadata?.labels?.['kube-aggregator.kubernetes.io/automanaged'] === 'onstart' &&
    spec?.group !== undefined &&
    !builtinGroupVersions.has(groupVersion(service))
  );
}

function byPreference({ service: { spec: a } }: DiscoveredGroup, { service: { spec: b } }: DiscoveredGroup): number {
  return (b?.versionPriority ?? 0) - (a?.versionPriority ?? 0) || compareKubeAwareVersions(a?.version ?? '', b?.version ?? '');
}

/** Parses an `APIResourceList` and drops subresources. @throws Error if the value is not a valid APIResourceList */
function kindsOf({ spec }: APIService, list: unknown): readonly DiscoveredKind[] {
  const resources = isObject(list) ? list['resources'] : undefined;
  if (!Array.isArray(resources)) throw new Error('the response is not an APIResourceList');
  return (resources as unknown[]).flatMap((each) => {
    if (!isObject(each)) return [];
    const { name, kind, namespaced, verbs } = each;
    if (typeof name !== 'string' || typeof kind !== 'string' || name === '' || name.includes('/')) return [];
    const known = Array.isArray(verbs) ? (verbs as unknown[]).filter((verb) => typeof verb === 'string') : [];
    return [{ resource: resource(spec?.group ?? '', spec?.version ?? '', name, kind, namespaced === true), verbs: new Set(known) }];
  });
}
