import type { Container, EphemeralContainer, Pod, PodSpec } from '@oarlock/api/types/core-v1';

/** The parts of a pod that the checks read. */
export interface PodView {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
  /** All init, regular and ephemeral containers, in the order in which messages list them. */
  readonly containers: readonly (Container | EphemeralContainer)[];
  readonly windows: boolean;
  /** True if `hostUsers` is false, so that the pod's users are not users of the host (KEP-127). */
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

/** The reason and the detail of a failed check: `host namespaces (hostNetwork=true)` has the reason `host namespaces`. */
export interface Violation {
  readonly reason: string;
  readonly detail: string;
}

export const quoted = (names: readonly string[]): string => names.map((name) => JSON.stringify(name)).join(', ');
export const plural = (one: string, count: number): string => (count === 1 ? one : `${one}s`);
/** Formats container names as `container "a"` or `containers "a", "b"`. */
export const containersNamed = (list: readonly { readonly name: string }[]): string =>
  `${plural('container', list.length)} ${quoted(list.map(({ name }) => name))}`;
