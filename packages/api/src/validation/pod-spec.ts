import { duplicate, fieldForbidden, invalid, required } from '../field-error.ts';
import type { PodDNSConfig, PodSpec, PodTemplateSpec } from '../generated/types/core-v1.ts';
import { inclusiveRangeError, isDns1123Subdomain } from '../names.ts';
import type { ObjectMeta } from '../object.ts';
import { affinity, tolerations, topologySpread } from './affinity.ts';
import { dnsLabel, dnsSubdomain, invalidEach, ip, oneOf, qualifiedName, type Errors } from './checks.ts';
import { containers, ephemeralContainers, initContainers, type PodContext } from './containers.ts';
import { annotations, labels } from './meta.ts';
import { containerRequirements, podRequirements } from './resources.ts';
import { operatingSystem, podSecurity } from './security.ts';
import { volumes } from './volumes.ts';

const maxInt32 = 2 ** 31 - 1;

/** `meta` is that of the pod; absent for templates, which are held to less. */
export function podSpec(errors: Errors, path: string, spec: PodSpec, meta?: ObjectMeta): void {
  const isPod = meta !== undefined;
  const grace = spec.terminationGracePeriodSeconds;
  if (grace === undefined) errors.push(required(`${path}.terminationGracePeriodSeconds`));
  const context: PodContext = {
    spec,
    grace,
    isPod,
    hostUsers: spec.hostUsers !== false,
    volumes: volumes(errors, `${path}.volumes`, spec.volumes ?? [], meta, isPod),
    claims: new Set((spec.resourceClaims ?? []).map(({ name }) => name)),
  };
  resourceClaims(errors, `${path}.resourceClaims`, spec);
  containers(errors, `${path}.containers`, spec.containers ?? [], context);
  initContainers(errors, `${path}.initContainers`, spec.initContainers ?? [], context);
  ephemeralContainers(errors, `${path}.ephemeralContainers`, spec.ephemeralContainers ?? [], context);
  podRequirements(errors, `${path}.resources`, spec);
  hostNetwork(errors, path, spec, isPod);
  oneOf(errors, `${path}.restartPolicy`, spec.restartPolicy, ['Always', 'Never', 'OnFailure']);
  oneOf(errors, `${path}.dnsPolicy`, spec.dnsPolicy, ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None']);
  labels(errors, `${path}.nodeSelector`, spec.nodeSelector);
  podSecurity(errors, `${path}.securityContext`, spec.securityContext, spec);
  affinity(errors, `${path}.affinity`, spec.affinity);
  dnsConfig(errors, `${path}.dnsConfig`, spec.dnsConfig, spec.dnsPolicy);
  for (const [i, gate] of (spec.readinessGates ?? []).entries())
    qualifiedName(errors, `${path}.readinessGates[${i}].conditionType`, gate.conditionType ?? '');
  schedulingGates(errors, `${path}.schedulingGates`, spec);
  topologySpread(errors, `${path}.topologySpreadConstraints`, spec.topologySpreadConstraints ?? []);
  hostUsers(errors, path, spec);
  names(errors, path, spec);
  tolerations(errors, `${path}.tolerations`, spec.tolerations ?? []);
  for (const [i, alias] of (spec.hostAliases ?? []).entries()) {
    ip(errors, `${path}.hostAliases[${i}].ip`, alias.ip ?? '');
    for (const [j, name] of (alias.hostnames ?? []).entries()) dnsSubdomain(errors, `${path}.hostAliases[${i}].hostnames[${j}]`, name);
  }
  if (spec.overhead !== undefined) containerRequirements(errors, `${path}.overhead`, { limits: spec.overhead }, new Set());
  operatingSystem(errors, path, spec);
}

function names(errors: Errors, path: string, spec: PodSpec): void {
  const deadline = spec.activeDeadlineSeconds;
  if (spec.serviceAccountName) dnsSubdomain(errors, `${path}.serviceAccountName`, spec.serviceAccountName);
  if (spec.nodeName) dnsSubdomain(errors, `${path}.nodeName`, spec.nodeName);
  if (deadline !== undefined && (deadline < 1 || deadline > maxInt32))
    errors.push(invalid(`${path}.activeDeadlineSeconds`, deadline, inclusiveRangeError(1, maxInt32)));
  if (spec.hostname) dnsLabel(errors, `${path}.hostname`, spec.hostname);
  if (spec.subdomain) dnsLabel(errors, `${path}.subdomain`, spec.subdomain);
  if (spec.priorityClassName) dnsSubdomain(errors, `${path}.priorityClassName`, spec.priorityClassName);
  if (spec.runtimeClassName !== undefined) dnsSubdomain(errors, `${path}.runtimeClassName`, spec.runtimeClassName);
  if (spec.preemptionPolicy !== undefined)
    oneOf(errors, `${path}.preemptionPolicy`, spec.preemptionPolicy, ['Never', 'PreemptLowerPriority']);
  if (spec.hostnameOverride !== undefined) {
    invalidEach(errors, `${path}.hostnameOverride`, spec.hostnameOverride, isDns1123Subdomain(spec.hostnameOverride));
    if (spec.hostnameOverride.length > 64)
      errors.push({ type: 'FieldValueTooLong', field: `${path}.hostnameOverride`, message: 'Too long: may not be more than 64 bytes' });
    if (spec.hostNetwork === true) errors.push(fieldForbidden(`${path}.hostnameOverride`, 'may not be specified when hostNetwork is true'));
    if (spec.setHostnameAsFQDN === true)
      errors.push(fieldForbidden(`${path}.hostnameOverride`, 'may not be specified when setHostnameAsFQDN is true'));
  }
}

function resourceClaims(errors: Errors, path: string, { resourceClaims: claims = [] }: PodSpec): void {
  const seen = new Set<string>();
  for (const [i, claim] of claims.entries()) {
    const at = `${path}[${i}]`;
    if (!claim.name) errors.push(required(`${at}.name`));
    else if (seen.has(claim.name)) errors.push(duplicate(`${at}.name`, claim.name));
    else dnsLabel(errors, `${at}.name`, claim.name);
    seen.add(claim.name);
    const { resourceClaimName: name, resourceClaimTemplateName: template } = claim;
    if (name !== undefined && template !== undefined)
      errors.push(invalid(at, claim, 'at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified'));
    if (name === undefined && template === undefined)
      errors.push(invalid(at, claim, 'must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'));
    if (name !== undefined) dnsSubdomain(errors, `${at}.resourceClaimName`, name);
    if (template !== undefined) dnsSubdomain(errors, `${at}.resourceClaimTemplateName`, template);
  }
}

function hostNetwork(errors: Errors, path: string, spec: PodSpec, isPod: boolean): void {
  if (spec.hostNetwork !== true) return;
  for (const [i, container] of (spec.containers ?? []).entries()) {
    for (const [j, { hostPort = 0, containerPort = 0 }] of (container.ports ?? []).entries()) {
      // A template may leave the host port to the pod's defaults.
      if ((isPod || hostPort !== 0) && hostPort !== containerPort)
        errors.push(
          invalid(`${path}.containers[${i}].ports[${j}].hostPort`, hostPort, 'must match `containerPort` when `hostNetwork` is true'),
        );
    }
  }
}

function hostUsers(errors: Errors, path: string, spec: PodSpec): void {
  if (spec.hostUsers !== false) return;
  const fields = [
    ['hostNetwork', 'hostNetwork'],
    ['hostPID', 'HostPID'],
    ['hostIPC', 'HostIPC'],
  ] as const;
  for (const [key, shown] of fields)
    if (spec[key] === true) errors.push(fieldForbidden(`${path}.${shown}`, 'when `pod.Spec.HostUsers` is false'));
}

function schedulingGates(errors: Errors, path: string, { schedulingGates: gates = [] }: PodSpec): void {
  for (const [i, { name = '' }] of gates.entries()) {
    qualifiedName(errors, `${path}[${i}]`, name);
    if (gates.findIndex((gate) => gate.name === name) < i) errors.push(duplicate(`${path}[${i}]`, name));
  }
}

const search = /^(?:_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)(?:\._?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*$/;
function dnsConfig(errors: Errors, path: string, config: PodDNSConfig | undefined, policy: string | undefined): void {
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
  for (const [i, server] of nameservers.entries()) ip(errors, `${path}.nameservers[${i}]`, server);
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

/** The template of a controller. */
export function podTemplate(errors: Errors, path: string, template: PodTemplateSpec): void {
  labels(errors, `${path}.labels`, template.metadata?.labels);
  annotations(errors, `${path}.annotations`, template.metadata?.annotations);
  podSpec(errors, `${path}.spec`, template.spec ?? { containers: [] });
  if ((template.spec?.ephemeralContainers ?? []).length > 0)
    errors.push(fieldForbidden(`${path}.spec.ephemeralContainers`, 'ephemeral containers not allowed in pod template'));
}
