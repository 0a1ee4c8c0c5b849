import type { Container, ContainerStatus, EphemeralContainer, Pod, PodStatus } from '@oarlock/api/types/core-v1';

/** Regular, init or ephemeral: which list of the spec a container stands in. */
export type ContainerKind = 'init' | 'regular' | 'ephemeral';

export const podUid = (pod: Pod): string => pod.metadata?.uid ?? '';
/** `name_namespace(uid)`: how the kubelet names a pod in messages. */
export const describePod = ({ metadata }: Pod): string => `${metadata?.name}_${metadata?.namespace}(${metadata?.uid})`;

/** An init container with restartPolicy Always: a sidecar (KEP-753). */
export const isSidecar = (container: Pick<Container, 'restartPolicy'>): boolean => container.restartPolicy === 'Always';

export const isTerminalPhase = (phase: string | undefined): boolean => phase === 'Succeeded' || phase === 'Failed';
export const isDeleted = (pod: Pod): boolean => pod.metadata?.deletionTimestamp !== undefined;
export const isHostNetwork = (pod: Pod): boolean => pod.spec?.hostNetwork === true;

export interface PlacedContainer {
  readonly kind: ContainerKind;
  readonly index: number;
  readonly container: Container | EphemeralContainer;
}

/** Every container of a spec, init containers first. */
export function* allContainers(pod: Pod): Generator<PlacedContainer> {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  for (const [index, container] of initContainers.entries()) yield { kind: 'init', index, container };
  for (const [index, container] of containers.entries()) yield { kind: 'regular', index, container };
  for (const [index, container] of ephemeralContainers.entries()) yield { kind: 'ephemeral', index, container };
}

export function findContainer(pod: Pod, name: string): PlacedContainer | undefined {
  for (const placed of allContainers(pod)) if (placed.container.name === name) return placed;
  return undefined;
}

/** `spec.containers{web}`: what an event about one container points at. */
export function fieldPath({ kind, container }: Pick<PlacedContainer, 'kind' | 'container'>): string {
  const list = kind === 'init' ? 'spec.initContainers' : kind === 'regular' ? 'spec.containers' : 'spec.ephemeralContainers';
  return `${list}{${container.name}}`;
}

export const statusOf = (statuses: readonly ContainerStatus[] | undefined, name: string): ContainerStatus | undefined =>
  statuses?.find((status) => status.name === name);

export function statusesOf(status: PodStatus | undefined, kind: ContainerKind): readonly ContainerStatus[] {
  if (kind === 'init') return status?.initContainerStatuses ?? [];
  return (kind === 'regular' ? status?.containerStatuses : status?.ephemeralContainerStatuses) ?? [];
}

/** The policy that holds for one container: its own (KEP-5307) or the pod's. */
export function restartPolicyOf(pod: Pod, container: Pick<Container, 'restartPolicy'>): string {
  return container.restartPolicy ?? pod.spec?.restartPolicy ?? 'Always';
}

/** What the first rule that matches says of a container that ended like this (KEP-5307, KEP-5532); undefined: none does. */
export function restartRuleOf({ restartPolicyRules = [] }: Pick<Container, 'restartPolicyRules'>, exitCode: number): string | undefined {
  return restartPolicyRules.find(
    ({ exitCodes }) => exitCodes !== undefined && (exitCodes.values?.includes(exitCode) === true) === (exitCodes.operator === 'In'),
  )?.action;
}
/** Whether some container may ask for all of them to be started anew. */
export function couldRestartAll({ spec }: Pod): boolean {
  const asks = ({ restartPolicyRules }: Container) => restartPolicyRules?.some(({ action }) => action === 'RestartAllContainers') === true;
  return spec?.containers.some(asks) === true || spec?.initContainers?.some(asks) === true;
}

/** Whether a container that ended like this is started again. */
export function restartsAfter(pod: Pod, container: Pick<Container, 'restartPolicy' | 'restartPolicyRules'>, exitCode: number): boolean {
  if (restartRuleOf(container, exitCode) !== undefined) return true;
  const policy = restartPolicyOf(pod, container);
  return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
}

/** A number, or the name of one of the container's ports. @throws Error when there is no such port */
export function resolvePort(container: Container | EphemeralContainer, port: number | string): number {
  const found =
    typeof port === 'number'
      ? port
      : (container.ports?.find((one) => one.name === port)?.containerPort ?? (/^\d{1,5}$/.test(port) ? Number(port) : Number.NaN));
  if (Number.isNaN(found)) throw new Error(`couldn't find port: ${String(port)}`);
  if (found <= 0 || found > 65_535) throw new Error(`invalid port number: ${found}`);
  return found;
}
