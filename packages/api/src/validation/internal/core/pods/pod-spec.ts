import { duplicate, fieldForbidden, invalid, required } from '../../../../field/field-error.ts';
import type { PodDNSConfig, PodSpec, PodTemplateSpec } from '../../../../generated/types/core-v1.ts';
import { inclusiveRangeError, isDns1123Subdomain } from '../../../../values/names.ts';
import type { ObjectMeta } from '../../../../object.ts';
import { validateAffinity, validateTolerations, validateTopologySpread } from '../affinity.ts';
import {
  validateDNSLabel,
  validateDNSSubdomain,
  addInvalid,
  validateIP,
  validateEnumInOrder,
  validateQualifiedName,
  type Errors,
  repeatedIndexes,
} from '../../checks.ts';
import { validateContainers, validateEphemeralContainers, validateInitContainers, type PodContext } from '../containers.ts';
import { validateAnnotations, validateLabels } from '../../../meta.ts';
import { validateContainerRequirements, validatePodRequirements } from '../../../resources.ts';
import { validatePodAnnotations } from './pod-annotations.ts';
import { validateOperatingSystem, validatePodSecurity } from '../security-context.ts';
import { validateVolumes } from '../volumes.ts';
import { validateHostProcess } from '../windows-options.ts';

const maxInt32 = 2 ** 31 - 1;

/** Validates a pod spec. `meta` is the metadata of the pod; undefined for a pod template, to which fewer rules apply. */
export function validatePodSpec(errors: Errors, path: string, spec: PodSpec, meta?: ObjectMeta): void {
  const isPod = meta !== undefined;
  const grace = spec.terminationGracePeriodSeconds;
  if (grace === undefined) errors.push(required(`${path}.terminationGracePeriodSeconds`));
  const context: PodContext = {
    spec,
    grace,
    isPod,
    hostUsers: spec.hostUsers !== false,
    volumes: validateVolumes(errors, `${path}.volumes`, { list: spec.volumes ?? [], meta, isPod }),
    claims: new Set((spec.resourceClaims ?? []).map(({ name }) => name)),
  };
  validateResourceClaims(errors, `${path}.resourceClaims`, spec);
  validateContainers(errors, `${path}.containers`, spec.containers ?? [], context);
  validateInitContainers(errors, `${path}.initContainers`, spec.initContainers ?? [], context);
  validateEphemeralContainers(errors, `${path}.ephemeralContainers`, spec.ephemeralContainers ?? [], context);
  validatePodRequirements(errors, `${path}.resources`, spec);
  validateHostNetwork(errors, path, spec, isPod);
  validateEnumInOrder(errors, `${path}.restartPolicy`, { value: spec.restartPolicy, supported: ['Always', 'OnFailure', 'Never'] });
  validateEnumInOrder(errors, `${path}.dnsPolicy`, {
    value: spec.dnsPolicy,
    supported: ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None'],
  });
  validateLabels(errors, `${path}.nodeSelector`, spec.nodeSelector);
  validatePodSecurity(errors, `${path}.securityContext`, spec.securityContext, spec);
  validateAffinity(errors, `${path}.affinity`, spec.affinity);
  validateDnsConfig(errors, `${path}.dnsConfig`, spec.dnsConfig, spec.dnsPolicy);
  for (const [i, gate] of (spec.readinessGates ?? []).entries())
    validateQualifiedName(errors, `${path}.readinessGates[${i}].conditionType`, gate.conditionType ?? '');
  validateSchedulingGates(errors, `${path}.schedulingGates`, spec);
  validateTopologySpread(errors, `${path}.topologySpreadConstraints`, spec.topologySpreadConstraints ?? []);
  validateHostProcess(errors, path, spec);
  validateHostUsers(errors, path, spec);
  validateNames(errors, path, spec);
  validateTolerations(errors, `${path}.tolerations`, spec.tolerations ?? []);
  for (const [i, alias] of (spec.hostAliases ?? []).entries()) {
    validateIP(errors, `${path}.hostAliases[${i}].ip`, alias.ip ?? '');
    for (const [j, name] of (alias.hostnames ?? []).entries())
      validateDNSSubdomain(errors, `${path}.hostAliases[${i}].hostnames[${j}]`, name);
  }
  if (spec.overhead !== undefined) validateContainerRequirements(errors, `${path}.overhead`, { limits: spec.overhead }, new Set());
  validateOperatingSystem(errors, path, spec);
}

function validateNames(errors: Errors, path: string, spec: PodSpec): void {
  const deadline = spec.activeDeadlineSeconds;
  if (spec.serviceAccountName) validateDNSSubdomain(errors, `${path}.serviceAccountName`, spec.serviceAccountName);
  if (spec.nodeName) validateDNSSubdomain(errors, `${path}.nodeName`, spec.nodeName);
  if (deadline !== undefined && (deadline < 1 || deadline > maxInt32))
    errors.push(invalid(`${path}.activeDeadlineSeconds`, deadline, inclusiveRangeError(1, maxInt32)));
  if (spec.hostname) validateDNSLabel(errors, `${path}.hostname`, spec.hostname);
  if (spec.subdomain) validateDNSLabel(errors, `${path}.subdomain`, spec.subdomain);
  if (spec.priorityClassName) validateDNSSubdomain(errors, `${path}.priorityClassName`, spec.priorityClassName);
  if (spec.runtimeClassName !== undefined) validateDNSSubdomain(errors, `${path}.runtimeClassName`, spec.runtimeClassName);
  if (spec.preemptionPolicy !== undefined)
    validateEnumInOrder(errors, `${path}.preemptionPolicy`, { value: spec.preemptionPolicy, supported: ['PreemptLowerPriority', 'Never'] });
  if (spec.hostnameOverride !== undefined) {
    addInvalid(errors, `${path}.hostnameOverride`, spec.hostnameOverride, isDns1123Subdomain(spec.hostnameOverride));
    if (spec.hostnameOverride.length > 64)
      errors.push({ type: 'FieldValueTooLong', field: `${path}.hostnameOverride`, message: 'Too long: may not be more than 64 bytes' });
    if (spec.hostNetwork === true) errors.push(fieldForbidden(`${path}.hostnameOverride`, 'may not be specified when hostNetwork is true'));
    if (spec.setHostnameAsFQDN === true)
      errors.push(fieldForbidden(`${path}.hostnameOverride`, 'may not be specified when setHostnameAsFQDN is true'));
  }
}

function validateResourceClaims(errors: Errors, path: string, { resourceClaims: claims = [] }: PodSpec): void {
  const seen = new Set<string>();
  for (const [i, claim] of claims.entries()) {
    const at = `${path}[${i}]`;
    if (!claim.name) errors.push(required(`${at}.name`));
    else if (seen.has(claim.name)) errors.push(duplicate(`${at}.name`, claim.name));
    else validateDNSLabel(errors, `${at}.name`, claim.name);
    seen.add(claim.name);
    const { resourceClaimName: name, resourceClaimTemplateName: template } = claim;
    if (name !== undefined && template !== undefined)
      errors.push(invalid(at, claim, 'at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified'));
    if (name === undefined && template === undefined)
      errors.push(invalid(at, claim, 'must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'));
    if (name !== undefined) validateDNSSubdomain(errors, `${at}.resourceClaimName`, name);
    if (template !== undefined) validateDNSSubdomain(errors, `${at}.resourceClaimTemplateName`, template);
  }
}

function validateHostNetwork(errors: Errors, path: string, spec: PodSpec, isPod: boolean): void {
  if (spec.hostNetwork !== true) return;
  for (const [i, container] of (spec.containers ?? []).entries()) {
    for (const [j, { hostPort = 0, containerPort = 0 }] of (container.ports ?? []).entries()) {
      // A template may omit the host port; defaulting sets it in pods.
      if ((isPod || hostPort !== 0) && hostPort !== containerPort)
        errors.push(
          invalid(`${path}.containers[${i}].ports[${j}].hostPort`, hostPort, 'must match `containerPort` when `hostNetwork` is true'),
        );
    }
  }
}

function validateHostUsers(errors: Errors, path: string, spec: PodSpec): void {
  if (spec.hostUsers !== false) return;
  const fields = [
    ['hostNetwork', 'hostNetwork'],
    ['hostPID', 'HostPID'],
    ['hostIPC', 'HostIPC'],
  ] as const;
  for (const [key, reportedName] of fields)
    if (spec[key] === true) errors.push(fieldForbidden(`${path}.${reportedName}`, 'when `hostUsers` is false'));
}

function validateSchedulingGates(errors: Errors, path: string, { schedulingGates: gates = [] }: PodSpec): void {
  const repeated = new Set(repeatedIndexes(gates, ({ name }) => name));
  for (const [i, { name = '' }] of gates.entries()) {
    validateQualifiedName(errors, `${path}[${i}]`, name);
    if (repeated.has(i)) errors.push(duplicate(`${path}[${i}]`, name));
  }
}

const search = /^(?:_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)(?:\._?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*$/;
function validateDnsConfig(errors: Errors, path: string, config: PodDNSConfig | undefined, policy: string | undefined): void {
  if (policy === 'None') {
    if (config === undefined) {
      errors.push(required(path, 'must provide `dnsConfig` when `dnsPolicy` is None'));
      return;
    }
    if ((config.nameservers ?? []).length === 0) {
      errors.push(required(`${path}.nameservers`, 'must provide at least one DNS nameserver when `dnsPolicy` is None'));
      return;
    }
  }
  const { nameservers = [], searches = [], options = [] } = config ?? {};
  if (nameservers.length > 3) errors.push(invalid(`${path}.nameservers`, nameservers, 'must not have more than 3 nameservers'));
  for (const [i, server] of nameservers.entries()) validateIP(errors, `${path}.nameservers[${i}]`, server);
  if (searches.length > 32) errors.push(invalid(`${path}.searches`, searches, 'must not have more than 32 search paths'));
  if (searches.join(' ').length > 2048)
    errors.push(invalid(`${path}.searches`, searches, 'must not have more than 2048 characters (including spaces) in the search list'));
  for (const [i, domain] of searches.entries()) {
    const name = domain.endsWith('.') && domain !== '.' ? domain.slice(0, -1) : domain;
    if (name !== '.' && (name.length > 253 || !search.test(name))) {
      errors.push(
        invalid(
          `${path}.searches[${i}]`,
          name,
          "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        ),
      );
    }
  }
  for (const [i, option] of options.entries()) if (!option.name) errors.push(required(`${path}.options[${i}]`, 'must not be empty'));
}

/** Validates the pod template of a workload. */
export function validatePodTemplate(errors: Errors, path: string, template: PodTemplateSpec): void {
  validateLabels(errors, `${path}.labels`, template.metadata?.labels);
  validateAnnotations(errors, `${path}.annotations`, template.metadata?.annotations);
  const spec = template.spec ?? { containers: [] };
  validatePodAnnotations(errors, `${path}.annotations`, { annotations: template.metadata?.annotations, spec });
  validatePodSpec(errors, `${path}.spec`, spec);
  if ((template.spec?.ephemeralContainers ?? []).length > 0)
    errors.push(fieldForbidden(`${path}.spec.ephemeralContainers`, 'ephemeral containers not allowed in pod template'));
}
