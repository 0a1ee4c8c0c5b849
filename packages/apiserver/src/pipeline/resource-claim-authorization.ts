import { fieldForbidden, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { AllocatedDeviceStatus, AllocationResult, ResourceClaim, ResourceClaimStatus } from '@oarlock/api/types/resource-v1';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import { authorizationError } from '../authorization/require-authorization.ts';
import type { RegistryDependencies } from '../registry/registry-dependencies.ts';
import { deallocatedDevices, deviceId } from '../registry/strategies/resource-claims.ts';
import { fieldOf, statusOf } from '../registry/strategy.ts';

const group = 'resource.k8s.io';
const adminNamespaceLabel = 'resource.kubernetes.io/admin-access';
const nodeNameKey = 'authentication.kubernetes.io/node-name';

type ClaimDependencies = Pick<RegistryDependencies, 'authz' | 'reader' | 'servedKind'>;

/**
 * Returns the admission plugin that authorizes the use of devices, as upstream's strategies of resource.k8s.io do. Admin access, which ignores the
 * claims of others, requires a label of the namespace. An allocation requires `resourceclaims/binding`, and the status of a device
 * `resourceclaims/driver` for its driver (KEP-4817). Runs after all other plugins, so that it checks the object that will be stored.
 */
export function resourceClaimAuthorization(registry: () => ClaimDependencies): AdmissionPlugin {
  return {
    matches: [
      { resources: [`resourceclaims.${group}`, `resourceclaimtemplates.${group}`], operations: ['CREATE'] },
      { resources: [`resourceclaims.${group}/status`], operations: ['UPDATE'] },
    ],
    async validate(request) {
      const errors = request.subresource === 'status' ? await statusErrors(registry(), request) : await specErrors(registry(), request);
      if (errors.length === 0) return allow;
      const { kind } = request.resource;
      const name = request.name === '' ? (request.object?.metadata?.generateName ?? '') : request.name;
      const { status } = invalidStatus({ group, kind, name }, errors);
      return deny(status.message ?? '', { status });
    },
  };
}

/** A request of a claim in v1, or in v1beta1, which has no `exactly`. */
interface DeviceRequestLike {
  readonly adminAccess?: boolean;
  readonly exactly?: { readonly adminAccess?: boolean };
}

/** Returns the error of a spec that requests admin access in a namespace that does not allow it. Specs are immutable. */
function specErrors(registry: ClaimDependencies, { object, namespace }: AdmissionRequest): Promise<readonly FieldError[]> {
  const spec = fieldOf(object, 'spec') as { readonly spec?: ResourceClaim['spec'] } & ResourceClaim['spec'];
  const requests: readonly DeviceRequestLike[] = (spec.spec ?? spec).devices?.requests ?? [];
  const at = requests.findIndex(({ adminAccess, exactly }) => (exactly?.adminAccess ?? adminAccess) === true);
  return at < 0 ? Promise.resolve([]) : adminAccessErrors(registry, `spec.devices.requests[${at}].adminAccess`, namespace);
}

async function adminAccessErrors(registry: ClaimDependencies, field: string, namespace: string): Promise<readonly FieldError[]> {
  const { object } = await registry.reader.getLatest(registry.servedKind('', 'v1', 'namespaces'), { namespace: '', name: namespace });
  return (object as KubeObject).metadata?.labels?.[adminNamespaceLabel] === 'true'
    ? []
    : [fieldForbidden(field, `admin access to devices requires the \`${adminNamespaceLabel}: true\` label on the containing namespace`)];
}

const adminResult = ({ allocation }: ResourceClaimStatus): number =>
  (allocation?.devices?.results ?? []).findIndex(({ adminAccess }) => adminAccess === true);

async function statusErrors(registry: ClaimDependencies, request: AdmissionRequest): Promise<readonly FieldError[]> {
  const [next, before] = [statusOf<ResourceClaimStatus>(request.object), statusOf<ResourceClaimStatus>(request.old)];
  const at = adminResult(next);
  return [
    ...(at < 0 || adminResult(before) >= 0
      ? []
      : await adminAccessErrors(registry, `status.allocation.devices.results[${at}].adminAccess`, request.namespace)),
    ...(await bindingErrors(registry, request, [next, before])),
    ...(await driverErrors(registry, request, [next, before])),
  ];
}

type Statuses = readonly [next: ResourceClaimStatus, before: ResourceClaimStatus];

/** Returns the error of a caller that may not allocate and reserve claims. */
async function bindingErrors(
  { authz }: ClaimDependencies,
  { identity, resource: { version }, options }: AdmissionRequest,
  [next, before]: Statuses,
): Promise<readonly FieldError[]> {
  if (jsonEqual(next.allocation, before.allocation) && jsonEqual(next.reservedFor ?? [], before.reservedFor ?? [])) return [];
  const verb = verbOf(options);
  const target = { group, version, resource: 'resourceclaims', subresource: 'binding', namespace: '', name: '' };
  const error = await authorizationError(authz, { kind: 'resource', identity, verb, ...target });
  return error === undefined
    ? []
    : [
        fieldForbidden(
          'status',
          `changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="${verb}" permission: ${error.message}`,
        ),
      ];
}

/** Returns the errors of a caller that may not change the status of devices of these drivers, on the node of the claim or on all nodes. */
async function driverErrors(
  { authz }: ClaimDependencies,
  { identity, resource: { version }, namespace, options }: AdmissionRequest,
  statuses: Statuses,
): Promise<readonly FieldError[]> {
  const drivers = modifiedDrivers(statuses);
  if (drivers.length === 0) return [];
  const verb = verbOf(options);
  const isOnNode = isAssociated(identity, nodeOf(statuses[0].allocation));
  const verbs = [...(isOnNode ? [`associated-node:${verb}`] : []), `arbitrary-node:${verb}`];
  const errors: FieldError[] = [];
  for (const name of drivers) {
    const target = { group, version, resource: 'resourceclaims', subresource: 'driver', namespace, name };
    const denials: string[] = [];
    for (const each of verbs) {
      const error = await authorizationError(authz, { kind: 'resource', identity, verb: each, ...target });
      if (error === undefined) break;
      denials.push(error.message);
    }
    if (denials.length === verbs.length)
      errors.push(
        fieldForbidden(
          'status.devices',
          `changing status.devices requires resource="resourceclaims/driver", verb="[${verbs.join(' ')}]" permission: ${denials[0]}`,
        ),
      );
  }
  return errors;
}

const verbOf = (options: AdmissionRequest['options']): 'patch' | 'update' => (options['kind'] === 'PatchOptions' ? 'patch' : 'update');

const keyOf = ({ driver, pool, device, shareID = '' }: AllocatedDeviceStatus): string => JSON.stringify([driver, pool, device, shareID]);

/** Returns the sorted drivers of the devices whose status was added, changed or removed. */
function modifiedDrivers([next, before]: Statuses): readonly string[] {
  const drivers = new Set<string>();
  const remaining = new Map((before.devices ?? []).map((device) => [keyOf(device), device]));
  for (const device of next.devices ?? []) {
    const key = keyOf(device);
    if (!jsonEqual(remaining.get(key), device)) drivers.add(device.driver);
    remaining.delete(key);
  }
  // the API server removes the status of devices that the same request deallocates
  const deallocated = deallocatedDevices(next, before);
  for (const device of remaining.values()) if (!deallocated.has(deviceId(device))) drivers.add(device.driver);
  return [...drivers].sort();
}

/** Returns the name of the node of an allocation; '' if the allocation is for several nodes. */
function nodeOf(allocation: AllocationResult | undefined): string {
  const [term, ...others] = allocation?.nodeSelector?.nodeSelectorTerms ?? [];
  if (term === undefined || others.length > 0 || (term.matchExpressions ?? []).length > 0) return '';
  const [field, ...more] = term.matchFields ?? [];
  if (field?.key !== 'metadata.name' || field.operator !== 'In' || more.length > 0) return '';
  return field.values?.length === 1 ? (field.values[0] ?? '') : '';
}

/** Returns true if the caller is a service account whose token is bound to the node. */
function isAssociated({ name, extra = {} }: Identity, node: string): boolean {
  const nodes = extra[nodeNameKey];
  return node !== '' && /^system:serviceaccount:[^:]+:[^:]+$/.test(name) && nodes?.length === 1 && nodes[0] === node;
}
