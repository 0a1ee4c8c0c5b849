import { isObject } from '@oarlock/api/json';
import { kinds } from '@oarlock/api/kinds';
import { apiServices } from '@oarlock/api/resources';
import { groupResource, resource } from '@oarlock/api/resource';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import { compareVersions } from '@oarlock/api/version-order';
import { Backoff } from '@oarlock/client/backoff';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { DiscoveredKind } from './discovered-kinds.ts';

/** An extension API server tells nobody that it has other kinds than before: it is asked as often as upstream's controllers ask. Milliseconds. */
const askAgainMs = 30_000;
const own: ReadonlySet<string> = new Set(
  kinds.filter(({ servedByDefault }) => servedByDefault).map(({ group, version }) => `${group}/${version}`),
);

interface Group {
  service: APIService;
  kinds: readonly DiscoveredKind[];
  failing: boolean;
  /** Counts what has been begun, so that an answer that was overtaken is not used. */
  turn: number;
  timer: Timer | undefined;
  readonly backoff: Backoff;
}

export interface ApiServiceKindsOptions {
  readonly informers: Informers;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** In [0, 1). */
  readonly random: () => number;
}

/**
 * The kinds of groups and versions that are not of this API: those of extension API servers, and what a server has on request or is newer for. An
 * APIService says that there is such a group, and whether it can be reached; what is in it is read from its discovery document. A group that does not
 * answer keeps the kinds that it had.
 */
export class ApiServiceKinds {
  readonly informer: Informer<APIService>;
  readonly #options: ApiServiceKindsOptions;
  readonly #groups = new Map<string, Group>();
  readonly #reading = new Set<Promise<void>>();

  constructor(options: ApiServiceKindsOptions) {
    this.#options = options;
    this.informer = options.informers.of(apiServices);
  }

  /** Calls back whenever the kinds have changed, or who answers. Returns what ends that. */
  on(changed: () => void): () => void {
    const end = new AbortController();
    const put = (service: APIService) => this.#put(service, changed, end.signal);
    const off = this.informer.on({
      added: put,
      updated: put,
      deleted: (service) => {
        this.#drop(service);
        changed();
      },
    });
    return () => {
      off();
      end.abort();
      for (const { service } of this.#groups.values()) this.#drop(service);
    };
  }

  /** Each resource of a group once, in the version that the server prefers. */
  list(): ReadonlyMap<string, DiscoveredKind> {
    const found = new Map<string, DiscoveredKind>();
    for (const group of [...this.#groups.values()].sort(byPreference))
      for (const kind of group.kinds) {
        const name = groupResource(kind.resource);
        if (!found.has(name)) found.set(name, kind);
      }
    return found;
  }

  /** Groups and versions that do not say what they have, in order. */
  get failing(): readonly string[] {
    return [...this.#groups.values()].flatMap(({ service, failing }) => (failing ? [groupVersion(service)] : [])).sort();
  }

  /** Resolves when nothing is being read any more. */
  async settled(): Promise<void> {
    while (this.#reading.size > 0) await Promise.all(this.#reading);
  }

  #put(service: APIService, changed: () => void, signal: AbortSignal): void {
    const name = service.metadata?.name ?? '';
    const known = this.#groups.get(name);
    if (!isForeign(service)) {
      if (known === undefined) return;
      this.#drop(service);
      changed();
      return;
    }
    const same = known !== undefined && isAvailable(known.service) === isAvailable(service) && sameSpec(known.service, service);
    const group = known ?? this.#made(service);
    group.service = service;
    if (same) return;
    this.#groups.set(name, group);
    if (isAvailable(service)) {
      this.#read(group, changed, signal);
      return;
    }
    group.timer?.cancel();
    group.turn += 1;
    group.failing = true;
    changed();
  }

  #made(service: APIService): Group {
    const backoff = new Backoff({ firstMs: 500, longestMs: askAgainMs, jitter: 0.5, random: this.#options.random });
    return { service, kinds: [], failing: false, turn: 0, timer: undefined, backoff };
  }

  #drop({ metadata }: APIService): void {
    const group = this.#groups.get(metadata?.name ?? '');
    if (group === undefined) return;
    group.timer?.cancel();
    group.turn += 1;
    this.#groups.delete(metadata?.name ?? '');
  }

  #read(group: Group, changed: () => void, signal: AbortSignal): void {
    group.timer?.cancel();
    const turn = ++group.turn;
    const reading = this.#answer(group, signal).then((answer) => {
      this.#reading.delete(reading);
      if (turn !== group.turn) return;
      group.failing = answer === undefined;
      if (answer !== undefined) {
        group.kinds = answer;
        group.backoff.reset();
      }
      const wait = answer === undefined ? group.backoff.next() : askAgainMs;
      group.timer = this.#options.clock.after(wait, () => this.#read(group, changed, signal));
      changed();
    });
    this.#reading.add(reading);
  }

  /** Undefined: it did not answer. */
  async #answer({ service }: Group, signal: AbortSignal): Promise<readonly DiscoveredKind[] | undefined> {
    const path = `/apis/${groupVersion(service)}`;
    try {
      return kindsOf(service, await this.#options.client.raw('GET', path, undefined, { signal }));
    } catch (error) {
      if (!signal.aborted) this.#options.log.info({ err: error, path }, 'a group does not say what it has; its kinds stay as they were');
      return undefined;
    }
  }
}

const groupVersion = ({ spec }: APIService): string => `${spec?.group ?? ''}/${spec?.version ?? ''}`;
const isAvailable = ({ status }: APIService): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Available' && is === 'True') === true;
const sameSpec = (a: APIService, b: APIService): boolean => a.spec === b.spec || JSON.stringify(a.spec) === JSON.stringify(b.spec);

/** Custom resources are known by their definitions. */
function isForeign(service: APIService): boolean {
  const { metadata, spec } = service;
  if (spec?.service !== undefined) return true;
  return (
    metadata?.labels?.['kube-aggregator.kubernetes.io/automanaged'] === 'onstart' &&
    spec?.group !== undefined &&
    !own.has(groupVersion(service))
  );
}

function byPreference({ service: { spec: a } }: Group, { service: { spec: b } }: Group): number {
  return (b?.versionPriority ?? 0) - (a?.versionPriority ?? 0) || compareVersions(a?.version ?? '', b?.version ?? '');
}

/** The members of an `APIResourceList` that are no subresources. @throws Error for what is none */
function kindsOf({ spec }: APIService, list: unknown): readonly DiscoveredKind[] {
  const resources = isObject(list) ? list['resources'] : undefined;
  if (!Array.isArray(resources)) throw new Error('the answer is no APIResourceList');
  return (resources as unknown[]).flatMap((each) => {
    if (!isObject(each)) return [];
    const { name, kind, namespaced, verbs } = each;
    if (typeof name !== 'string' || typeof kind !== 'string' || name === '' || name.includes('/')) return [];
    const known = Array.isArray(verbs) ? (verbs as unknown[]).filter((verb) => typeof verb === 'string') : [];
    return [{ resource: resource(spec?.group ?? '', spec?.version ?? '', name, kind, namespaced === true), verbs: new Set(known) }];
  });
}
