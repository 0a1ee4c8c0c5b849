import type { Container, EphemeralContainer, Pod, PodSpec } from '@oarlock/api/types/core-v1';

/** What rules look at. */
export interface PodView {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
  /** Of every sort, in the order in which they are listed in messages. */
  readonly containers: readonly (Container | EphemeralContainer)[];
  readonly windows: boolean;
  /** The users of the pod are not those of the host (KEP-127). */
  readonly ownUsers: boolean;
}

export function viewOf({ metadata, spec = { containers: [] } }: Pick<Pod, 'metadata' | 'spec'>): PodView {
  return {
    annotations: metadata?.annotations ?? {},
    spec,
    containers: [...(spec.initContainers ?? []), ...(spec.containers ?? []), ...(spec.ephemeralContainers ?? [])],
    windows: spec.os?.name === 'windows',
    ownUsers: spec.hostUsers === false,
  };
}

/** What a rule found: `host namespaces (hostNetwork=true)` is a reason and a detail. */
export interface Violation {
  readonly reason: string;
  readonly detail: string;
}

export const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ');
export const plural = (one: string, count: number): string => (count === 1 ? one : `${one}s`);
/** `container "a"`, `containers "a", "b"`. */
export const containersNamed = (list: readonly { readonly name: string }[]): string =>
  `${plural('container', list.length)} ${quoted(list.map(({ name }) => name))}`;
