import { restartsAfterExit } from '@oarlock/api/component-helpers/container-restart';
import type { ContainerStatus as RuntimeContainerStatus } from '@oarlock/spi/runtime';
import { configHashAnnotation } from './config-source.ts';
import type { Container, ContainerStatus, EphemeralContainer, Pod, PodStatus } from '@oarlock/api/types/core-v1';

/** The container list of the pod spec that a container belongs to. */
export type ContainerType = 'init' | 'regular' | 'ephemeral';

export const podUid = (pod: Pod): string => pod.metadata?.uid ?? '';
/** Returns `name_namespace(uid)`, the format of pods in kubelet messages. */
export const formatPod = ({ metadata }: Pod): string => `${metadata?.name}_${metadata?.namespace}(${metadata?.uid})`;

/** Returns true if the phase is Succeeded or Failed. */

export const isTerminalPhase = (phase: string | undefined): boolean => phase === 'Succeeded' || phase === 'Failed';
/** The uid of a static pod, a hash of its manifest. The API server assigns UUIDs, which have hyphens. */
const staticPodUid = /^[0-9a-f]{32}$/;
/** The lowest priority of the system priority classes. */
const systemCriticalPriority = 2_000_000_000;

/** Returns true if the pod must not be evicted: static pods and pods with a system priority (IsCriticalPod upstream). */
export function isCriticalPod({ metadata, spec }: Pod): boolean {
  // users can copy the uid of a pod into its annotation, but a uid of the API server is never such a hash
  const { uid = '', annotations } = metadata ?? {};
  const isStatic = staticPodUid.test(uid) && annotations?.[configHashAnnotation] === uid;
  return isStatic || (spec?.priority ?? 0) >= systemCriticalPriority;
}

export const isDeleted = (pod: Pod): boolean => pod.metadata?.deletionTimestamp !== undefined;
export const isHostNetwork = (pod: Pod): boolean => pod.spec?.hostNetwork === true;

export interface SpecContainer {
  readonly kind: ContainerType;
  readonly index: number;
  readonly container: Container | EphemeralContainer;
}

/** Yields every container of a pod, init containers first. */
export function* allContainers(pod: Pod): Generator<SpecContainer> {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  for (const [index, container] of initContainers.entries()) yield { kind: 'init', index, container };
  for (const [index, container] of containers.entries()) yield { kind: 'regular', index, container };
  for (const [index, container] of ephemeralContainers.entries()) yield { kind: 'ephemeral', index, container };
}

export function findContainer(pod: Pod, name: string): SpecContainer | undefined {
  for (const specContainer of allContainers(pod)) if (specContainer.container.name === name) return specContainer;
  return undefined;
}

/** Returns the fieldPath of events about one container, for example `spec.containers{web}`. */
export function fieldPath({ kind, container }: Pick<SpecContainer, 'kind' | 'container'>): string {
  const list = kind === 'init' ? 'spec.initContainers' : kind === 'regular' ? 'spec.containers' : 'spec.ephemeralContainers';
  return `${list}{${container.name}}`;
}

export const findContainerStatus = (statuses: readonly ContainerStatus[] | undefined, name: string): ContainerStatus | undefined =>
  statuses?.find((status) => status.name === name);

/** Returns a function as `findContainerStatus` for many names: a pod may have thousands of containers. */
export function containerStatusFinder(statuses: readonly ContainerStatus[] = []): (name: string) => ContainerStatus | undefined {
  if (statuses.length < 16) return (name) => findContainerStatus(statuses, name);
  const byName = new Map<string, ContainerStatus>();
  for (const status of statuses) if (!byName.has(status.name)) byName.set(status.name, status);
  return (name) => byName.get(name);
}

export function containerStatusesOf(status: PodStatus | undefined, kind: ContainerType): readonly ContainerStatus[] {
  if (kind === 'init') return status?.initContainerStatuses ?? [];
  return (kind === 'regular' ? status?.containerStatuses : status?.ephemeralContainerStatuses) ?? [];
}

/** Returns the container's own restartPolicy (KEP-5307), or else the pod's restartPolicy. */
export function restartPolicyOf(pod: Pod, container: Pick<Container, 'restartPolicy'>): string {
  return container.restartPolicy ?? pod.spec?.restartPolicy ?? 'Always';
}

/** Returns true if the kubelet should start a container that is missing, not finished or exited (ShouldContainerBeRestarted upstream). */
export function shouldContainerBeStarted(
  pod: Pod,
  container: Container | EphemeralContainer,
  status: RuntimeContainerStatus | undefined,
): boolean {
  if (isDeleted(pod)) return false;
  if (status === undefined) return true;
  if (status.state === 'RUNNING') return false;
  if (status.state !== 'EXITED') return true;
  return restartsAfterExit(pod.spec?.restartPolicy, container, status.exitCode ?? 0);
}

/** Returns a port number, resolving the name of one of the container's ports. @throws Error if the container has no port of that name */
export function resolvePort(container: Container | EphemeralContainer, port: number | string): number {
  const found =
    typeof port === 'number'
      ? port
      : (container.ports?.find((one) => one.name === port)?.containerPort ?? (/^\d{1,5}$/.test(port) ? Number(port) : Number.NaN));
  if (Number.isNaN(found)) throw new Error(`couldn't find port: ${String(port)}`);
  if (found <= 0 || found > 65_535) throw new Error(`invalid port number: ${found}`);
  return found;
}
