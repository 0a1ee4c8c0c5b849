import { hasRestartAllContainersRule, restartsAfterExit } from '../../../../component-helpers/container-restart.ts';
import { duplicate, fieldForbidden, invalid, notSupportedInOrder, required } from '../../../../field/field-error.ts';
import type { Container, ContainerStatus, Pod, PodSpec, PodStatus } from '../../../../generated/types/core-v1.ts';
import { ipFamily } from '../../../../net/ip.ts';
import { parseIPSloppy } from '../../../../net/sloppy-ip.ts';
import { inclusiveRangeError, isDns1123Label } from '../../../../values/names.ts';
import {
  addInvalid,
  repeatedIndexes,
  validateDNSSubdomain,
  validateDualStack,
  validateImmutable,
  validateIP,
  validateQualifiedName,
  type Errors,
} from '../../checks.ts';
import { validatePodAnnotations, validatePodAnnotationUpdates } from './pod-annotations.ts';
import { specOf } from './pod.ts';

const containerLists = ['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses'] as const;
/** Conditions whose types are no qualified names by tradition. */
const systemConditions = ['PodScheduled', 'Ready', 'Initialized'];

/** Validates an update through `pods/status` (ValidatePodStatusUpdate upstream). */
export function validatePodStatusUpdate(errors: Errors, pod: Pod, old: Pod): void {
  const [status, before] = [pod.status ?? {}, old.status ?? {}];
  const spec = specOf(old);
  validatePodAnnotationUpdates(errors, pod, old);
  validatePodAnnotations(errors, 'metadata.annotations', { annotations: pod.metadata?.annotations, old: old.metadata?.annotations, spec });
  validateConditions(errors, status);
  if ((pod.spec?.nodeName ?? '') !== (spec.nodeName ?? '')) errors.push(fieldForbidden('status.nodeName', 'may not be changed directly'));
  validateNominatedNode(errors, status.nominatedNodeName ?? '', { before: before.nominatedNodeName ?? '', nodeName: spec.nodeName ?? '' });
  validateGeneration(errors, 'status.observedGeneration', status.observedGeneration);
  validateImmutable(errors, 'status.qosClass', status.qosClass ?? '', before.qosClass ?? '');
  validateTransitions(errors, { status, before, spec });
  validateClaimStatuses(errors, status, spec);
  validateExtendedResourceClaim(errors, status, spec);
  validateAddresses(errors, 'status.podIPs', { list: addressesOf(status.podIPs), existing: addressesOf(before.podIPs) });
  const first = status.hostIPs?.[0]?.ip;
  if (first !== undefined && first !== (status.hostIP ?? ''))
    errors.push(invalid('status.hostIPs[0].ip', first, 'must be equal to `hostIP`'));
  validateAddresses(errors, 'status.hostIPs', { list: addressesOf(status.hostIPs), existing: addressesOf(before.hostIPs) });
  for (const list of containerLists)
    for (const [i, container] of (status[list] ?? []).entries())
      validateUser(errors, `status.${list}[${i}].user.linux`, { user: container.user, os: spec.os?.name });
  validateAllocatedResources(errors, status, spec);
}

function validateGeneration(errors: Errors, path: string, value: number | undefined): void {
  if (value !== undefined && value < 0) errors.push(invalid(path, value, 'must be a non-negative integer'));
}

function validateConditions(errors: Errors, { conditions = [] }: PodStatus): void {
  for (const [i, { type = '', observedGeneration }] of conditions.entries()) {
    validateGeneration(errors, `status.conditions[${i}].observedGeneration`, observedGeneration);
    if (!systemConditions.includes(type)) validateQualifiedName(errors, `status.conditions[${i}].Type`, type);
  }
}

function validateNominatedNode(
  errors: Errors,
  nominated: string,
  { before, nodeName }: { readonly before: string; readonly nodeName: string },
): void {
  if (nominated === '' || nominated === before) return;
  validateDNSSubdomain(errors, 'status.nominatedNodeName', nominated);
  if (nodeName !== '') errors.push(fieldForbidden('status.nominatedNodeName', 'may not be set on pods that are already bound to a node'));
}

/** Rejects the restart of a container that has terminated for good. */
function validateTransitions(
  errors: Errors,
  { status, before, spec }: { readonly status: PodStatus; readonly before: PodStatus; readonly spec: PodSpec },
): void {
  // one container's exit can restart all, whatever their policies (KEP-5532)
  const restartsAll = hasRestartAllContainersRule(spec);
  const lists: Readonly<Record<(typeof containerLists)[number], readonly Container[] | undefined>> = {
    containerStatuses: spec.containers,
    initContainerStatuses: spec.initContainers,
    ephemeralContainerStatuses: undefined,
  };
  for (const list of containerLists) {
    const running = new Set((status[list] ?? []).flatMap(({ name, state }) => (state?.terminated === undefined ? [name] : [])));
    const containers = new Map(lists[list]?.map((container) => [container.name, container]));
    for (const [i, { name, state }] of (before[list] ?? []).entries()) {
      if (state?.terminated === undefined || !running.has(name)) continue;
      const container = containers.get(name);
      const restarts =
        list !== 'ephemeralContainerStatuses' &&
        (restartsAll || (container !== undefined && restartsAfterExit(spec.restartPolicy, container, state.terminated.exitCode)));
      if (!restarts) errors.push(fieldForbidden(`status.${list}[${i}].state`, 'may not be transitioned to non-terminated state'));
    }
  }
}

function validateClaimStatuses(errors: Errors, { resourceClaimStatuses = [] }: PodStatus, spec: PodSpec): void {
  const claims = new Set((spec.resourceClaims ?? []).map(({ name }) => name));
  const repeated = new Set(repeatedIndexes(resourceClaimStatuses, ({ name }) => name));
  for (const [i, { name, resourceClaimName }] of resourceClaimStatuses.entries()) {
    const path = `status.resourceClaimStatuses[${i}].name`;
    if (!claims.has(name)) errors.push(invalid(path, name, 'must match the name of an entry in `spec.resourceClaims`'));
    if (repeated.has(i)) errors.push(duplicate(path, name));
    if (resourceClaimName !== undefined)
      validateDNSSubdomain(errors, `status.resourceClaimStatuses[${i}].resourceClaimName`, resourceClaimName);
  }
}

const mappingFields = ['containerName', 'resourceName', 'requestName'] as const;

function validateExtendedResourceClaim(errors: Errors, { extendedResourceClaimStatus: claim }: PodStatus, spec: PodSpec): void {
  if (claim === undefined) return;
  const path = 'status.extendedResourceClaimStatus';
  const mappings = claim.requestMappings ?? [];
  const containers = new Map([...(spec.initContainers ?? []), ...(spec.containers ?? [])].map((container) => [container.name, container]));
  if (mappings.length === 0) errors.push(required(`${path}.requestMappings`, 'at least one request mapping is required'));
  const repeated = new Set(repeatedIndexes(mappings, (mapping) => JSON.stringify(mappingFields.map((field) => mapping[field]))));
  for (const [i, mapping] of mappings.entries()) {
    const at = `${path}.requestMappings[${i}]`;
    const container = containers.get(mapping.containerName);
    if (container === undefined)
      errors.push(
        invalid(
          `${at}.containerName`,
          mapping.containerName,
          'must match the name of an entry in spec.initContainers.name or spec.containers.name',
        ),
      );
    else if (container.resources?.requests?.[mapping.resourceName] === undefined)
      errors.push(
        invalid(
          `${at}.resourceName`,
          mapping.resourceName,
          'must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests',
        ),
      );
    addInvalid(errors, `${path}.requestName`, mapping.requestName, isDns1123Label(mapping.requestName));
    if (repeated.has(i)) for (const field of mappingFields) errors.push(duplicate(`${at}.${field}`, mapping[field]));
  }
  if (!claim.resourceClaimName) errors.push(required(`${path}.resourceClaimName`));
  else validateDNSSubdomain(errors, `${path}.resourceClaimName`, claim.resourceClaimName);
}

const addressesOf = (list: readonly { readonly ip?: string }[] | undefined) => (list ?? []).map(({ ip = '' }) => ip);

/** Validates addresses. Invalid ones that the stored pod has are kept. */
function validateAddresses(
  errors: Errors,
  path: string,
  { list, existing }: { readonly list: readonly string[]; readonly existing: readonly string[] },
): void {
  for (const [i, value] of list.entries()) if (!existing.includes(value)) validateIP(errors, `${path}[${i}]`, value);
  if (list.every((value) => parseIPSloppy(value) !== undefined))
    validateDualStack(errors, path, { values: list, family: (value) => ipFamily(parseIPSloppy(value)?.canonical ?? ''), what: 'IP' });
}

const maxId = 2 ** 31 - 1;

function validateUser(
  errors: Errors,
  path: string,
  { user, os }: { readonly user: ContainerStatus['user']; readonly os: string | undefined },
): void {
  if (user?.linux === undefined) return;
  if (os === 'windows') errors.push(fieldForbidden(path, 'cannot be set for a windows pod'));
  if ((os ?? 'linux') !== 'linux') return;
  const validateId = (at: string, id: number) => {
    if (id < 0 || id > maxId) errors.push(invalid(at, id, inclusiveRangeError(0, maxId)));
  };
  validateId(`${path}.uid`, user.linux.uid);
  validateId(`${path}.gid`, user.linux.gid);
  for (const [i, gid] of (user.linux.supplementalGroups ?? []).entries()) validateId(`${path}.supplementalGroups[${i}]`, gid);
}

const healths = ['Healthy', 'Unhealthy', 'Unknown'];

function validateAllocatedResources(errors: Errors, status: PodStatus, spec: PodSpec): void {
  for (const [list, containers] of [
    ['containerStatuses', spec.containers ?? []],
    ['initContainerStatuses', spec.initContainers ?? []],
  ] as const)
    for (const [i, one] of (status[list] ?? []).entries())
      validateAllocated(errors, `status.${list}[${i}].allocatedResourcesStatus`, {
        status: one,
        container: containers.find(({ name }) => name === one.name),
      });
  for (const [i, { allocatedResourcesStatus = [] }] of (status.ephemeralContainerStatuses ?? []).entries())
    if (allocatedResourcesStatus.length > 0)
      errors.push(
        fieldForbidden(`status.ephemeralContainerStatuses[${i}].allocatedResourcesStatus`, 'must not be specified in container status'),
      );
}

function validateAllocated(
  errors: Errors,
  path: string,
  { status, container }: { readonly status: ContainerStatus; readonly container: Container | undefined },
): void {
  const claims = new Set((container?.resources?.claims ?? []).map(({ name, request }) => `claim:${name}${request ? `/${request}` : ''}`));
  for (const [j, { name, resources = [] }] of (status.allocatedResourcesStatus ?? []).entries()) {
    const at = `${path}[${j}]`;
    const isClaim = name.startsWith('claim:');
    // a status without a container in the spec is ignored (kubernetes/kubernetes#124915)
    if (container !== undefined && !(isClaim ? claims.has(name) : container.resources?.requests?.[name] !== undefined))
      errors.push(
        invalid(
          `${at}.name`,
          name,
          isClaim
            ? "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
            : "must match one of the container's resource requests",
        ),
      );
    const repeated = new Set(repeatedIndexes(resources, ({ resourceID }) => resourceID));
    for (const [k, { health = '', resourceID }] of resources.entries()) {
      if (!healths.includes(health)) errors.push(notSupportedInOrder(`${at}.resources[${k}].health`, health, healths));
      if (repeated.has(k)) errors.push(duplicate(`${at}.resources[${k}].resourceID`, resourceID));
    }
  }
}
