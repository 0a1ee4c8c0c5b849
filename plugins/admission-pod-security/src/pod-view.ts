import type { Container, EphemeralContainer, Pod, PodSpec } from '@oarlock/api/types/core-v1';

/** The parts of a pod that checks use. */
export interface PodView {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
  /** All containers: init, regular and ephemeral, in the order of messages. */
  readonly containers: readonly (Container | EphemeralContainer)[];
  readonly windows: boolean;
  /** True for hostUsers=false: users of the pod are not users of the host (KEP-127). */
  readonly hasUserNamespace: boolean;
}

export function viewOf({ metadata, spec = { containers: [] } }: Pick<Pod, 'metadata' | 'spec'>): PodView {
  return {
    annotations: metadata?.annotations ?? {},
    spec,
    containers: [...(spec.initContainers ?? []), ...(spec.containers ?? []), ...(spec.ephemeralContainers ?? [])],
    windows: spec.os?.name === 'windows',
    hasUserNamespace: spec.hostUsers === false,
  };
}

/** The result of a failed check: `host namespaces (hostNetwork=true)` is a reason and a detail. */
export interface Violation {
  readonly reason: string;
  readonly detail: string;
}

export const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ');
export const plural = (one: string, count: number): string => (count === 1 ? one : `${one}s`);
/** Formats `container "a"` or `containers "a", "b"`. */
export const containersNamed = (list: readonly { readonly name: string }[]): string =>
  `${plural('container', list.length)} ${quoted(list.map(({ name }) => name))}`;
