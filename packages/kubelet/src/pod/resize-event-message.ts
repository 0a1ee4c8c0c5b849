import type { Container, Pod } from '@oarlock/api/types/core-v1';

/** Returns the JSON that the events of a resize contain: the resources of the pod and of its containers. */
export function resizeEventMessage(pod: Pod, error?: string): string {
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const list = (all: readonly Container[]) => all.map(({ name, resources }) => ({ name, ...(resources && { resources }) }));
  return JSON.stringify({
    ...(pod.spec?.resources && { resources: pod.spec.resources }),
    ...(initContainers.length > 0 && { initContainers: list(initContainers) }),
    containers: list(containers),
    generation: pod.metadata?.generation ?? 0,
    ...(error !== undefined && { error }),
  });
}
