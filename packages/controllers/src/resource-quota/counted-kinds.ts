import { kinds as ownKinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { quotaSubject } from '@oarlock/api/quota';
import { groupResource, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import { watch, type Watch } from '@oarlock/spi/controller';
import type { DiscoveredKinds } from '../discovered-kinds.ts';

/** What has to be possible with a kind that is followed, as with upstream's quotas. */
const needed = ['create', 'delete', 'list', 'watch'] as const;
const own: ReadonlyMap<string, { readonly resource: Resource; readonly verbs: ReadonlySet<string> }> = new Map(
  ownKinds
    .filter(({ namespaced, servedByDefault }) => namespaced && servedByDefault)
    .map(({ group, version, resource, kind, namespaced, verbs }) => {
      const known = resourceOf<KubeObject>(group, version, resource, kind, namespaced);
      return [groupResource(known), { resource: known, verbs: new Set(verbs) }];
    }),
);

export interface CountedKindsOptions {
  readonly informers: Informers;
  readonly quotas: Informer<ResourceQuota>;
  readonly kinds: DiscoveredKinds;
  /** Kinds that are followed whether or not a quota counts them. */
  readonly always: ReadonlySet<string>;
  /** The quotas to look at for a change of an object of a kind. */
  keys(kind: string, object: KubeObject, old: KubeObject | undefined): Iterable<string>;
}

/** The kinds that quotas count, whosever they are: each is followed from when a quota counts it and the server has it. */
export class CountedKinds {
  readonly #options: CountedKindsOptions;
  readonly #followed = new Map<string, () => void>();
  readonly #wanted = new Set<string>();

  constructor(options: CountedKindsOptions) {
    this.#options = options;
  }

  /** By the name of its group resource; undefined where nobody knows of it. */
  resource(kind: string): Resource | undefined {
    return this.#kind(kind)?.resource;
  }

  /** Its changes are heard of. */
  isHeard(kind: string): boolean {
    return this.#options.always.has(kind) || this.#followed.has(kind);
  }

  /** For `Controller.follow`. */
  follow(add: (watch: Watch) => () => void): () => void {
    const { quotas, kinds, keys } = this.#options;
    const take = (name: string) => {
      const kind = this.#wanted.has(name) && !this.isHeard(name) ? this.#kind(name) : undefined;
      if (kind === undefined || !needed.every((verb) => kind.verbs.has(verb))) return;
      const watched = watch(this.#options.informers.of(kind.resource), (object, old) => keys(name, object, old));
      this.#followed.set(name, add(watched));
    };
    const want = ({ spec }: ResourceQuota) => {
      for (const subject of new Set(Object.keys(spec?.hard ?? {}).map(quotaSubject)))
        if (subject !== undefined && !this.#wanted.has(subject)) {
          this.#wanted.add(subject);
          take(subject);
        }
    };
    const ends = [
      quotas.on({ added: want, updated: want }),
      kinds.on({
        added: ({ resource }) => {
          const name = groupResource(resource);
          if (!this.#wanted.has(name)) return;
          take(name);
          // quotas that count it have counted nothing so far
          add(watch(quotas, (quota) => (counts(quota, name) ? [keyOf(quota)] : [])))();
        },
        removed: ({ resource }) => {
          this.#followed.get(groupResource(resource))?.();
          this.#followed.delete(groupResource(resource));
        },
      }),
    ];
    return () => {
      for (const end of [...ends, ...this.#followed.values()]) end();
      this.#followed.clear();
      this.#wanted.clear();
    };
  }

  #kind(name: string) {
    const found = own.get(name) ?? this.#options.kinds.get(name);
    return found?.resource.namespaced === true ? found : undefined;
  }
}

const keyOf = ({ metadata }: ResourceQuota): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
const counts = ({ spec }: ResourceQuota, kind: string): boolean =>
  Object.keys(spec?.hard ?? {}).some((name) => quotaSubject(name) === kind);
