import type { PodAffinityTerm, PodSpec, PodTemplateSpec, Volume } from '../../../generated/types/core-v1.ts';
import type { ObjectMeta } from '../../../object.ts';
import { addressWarnings } from './address-warnings.ts';
import { claimSpecWarnings } from './storage-warnings.ts';
import { byteResourceWarnings, containersOf, envWarnings, portWarnings, type VisitedContainer } from './container-warnings.ts';
import { nodeLabelDeprecation, nodeLabelMapWarnings, nodeSelectorTermWarnings } from './node-label-warnings.ts';
import { volumePathWarnings } from './volume-path-warnings.ts';

const deprecatedAnnotations: readonly (readonly [key: string, message: string])[] = [
  ['scheduler.alpha.kubernetes.io/critical-pod', 'non-functional in v1.16+; use the "priorityClassName" field instead'],
  ['security.alpha.kubernetes.io/sysctls', 'non-functional in v1.11+; use the "sysctls" field instead'],
  ['security.alpha.kubernetes.io/unsafe-sysctls', 'non-functional in v1.11+; use the "sysctls" field instead'],
];
const podSeccompAnnotation = 'seccomp.security.alpha.kubernetes.io/pod';
const containerSeccompPrefix = 'container.seccomp.security.alpha.kubernetes.io/';
const appArmorPrefix = 'container.apparmor.security.beta.kubernetes.io/';
const seccompMessage = 'non-functional in v1.27+; use the "seccompProfile" field instead';
const appArmorMessage = 'deprecated since v1.30; use the "appArmorProfile" field instead';
const nullSelector = 'a null labelSelector results in matching no pod';

/** The deprecated volume sources by the member of the volume: the name in the path of the warning, and the message. */
const deprecatedVolumes: ReadonlyMap<string, readonly [name: string, message: string]> = new Map([
  ['photonPersistentDisk', ['photonPersistentDisk', 'deprecated in v1.11, non-functional in v1.16+']],
  ['gitRepo', ['gitRepo', 'deprecated in v1.11, and disabled by default in v1.33+']],
  ['scaleIO', ['scaleIO', 'deprecated in v1.16, non-functional in v1.22+']],
  ['flocker', ['flocker', 'deprecated in v1.22, non-functional in v1.25+']],
  ['storageos', ['storageOS', 'deprecated in v1.22, non-functional in v1.25+']],
  ['quobyte', ['quobyte', 'deprecated in v1.22, non-functional in v1.25+']],
  ['glusterfs', ['glusterfs', 'deprecated in v1.25, non-functional in v1.26+']],
  ['cephfs', ['cephfs', 'deprecated in v1.28, non-functional in v1.31+']],
  ['rbd', ['rbd', 'deprecated in v1.28, non-functional in v1.31+']],
]);

/** The pod or pod template that is checked. `prefix` is '' for a pod, and `spec.template.` for a template. */
interface Checked {
  readonly prefix: string;
  readonly meta: ObjectMeta;
  readonly spec: PodSpec;
}

/** Returns the warnings about a pod (GetWarningsForPod). */
export const podWarnings = (meta: ObjectMeta | undefined, spec: PodSpec | undefined): readonly string[] =>
  warningsOf({ prefix: '', meta: meta ?? {}, spec: spec ?? { containers: [] } });

/** Returns the warnings about a pod template; `path` is the path of the template, such as `spec.template` (GetWarningsForPodTemplate). */
export const podTemplateWarnings = (path: string, template: PodTemplateSpec | undefined): readonly string[] =>
  template === undefined
    ? []
    : warningsOf({ prefix: `${path}.`, meta: template.metadata ?? {}, spec: template.spec ?? { containers: [] } });

function warningsOf(checked: Checked): readonly string[] {
  const { prefix, meta, spec } = checked;
  const path = `${prefix}spec`;
  const containers = containersOf(path, spec);
  const annotations = meta.annotations;
  const hasPlacement = spec.nodeSelector !== undefined || spec.affinity !== undefined || spec.topologySpreadConstraints !== undefined;
  return [
    ...(hasPlacement ? nodeSelectionWarnings(path, spec) : []),
    ...(annotations === undefined ? [] : annotationWarnings(checked, containers)),
    ...(spec.volumes === undefined ? [] : volumeWarnings(path, spec.volumes)),
    ...(spec.hostAliases === undefined && spec.imagePullSecrets === undefined ? [] : duplicateWarnings(path, spec)),
    ...byteResourceWarnings(`${path}.overhead`, spec.overhead),
    ...containers.flatMap(containerWarnings),
    ...portWarnings(containers),
    ...((spec.terminationGracePeriodSeconds ?? 0) < 0
      ? [`${path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`]
      : []),
    ...(spec.affinity === undefined ? [] : podAffinityWarnings(path, spec)),
    ...(spec.dnsConfig?.nameservers ?? []).flatMap((text, i) => addressWarnings(`${path}.dnsConfig.nameservers[${i}]`, text)),
    ...(spec.hostAliases ?? []).flatMap(({ ip = '' }, i) => addressWarnings(`${path}.hostAliases[${i}].ip`, ip)),
  ];
}

function nodeSelectionWarnings(path: string, { nodeSelector, affinity, topologySpreadConstraints = [] }: PodSpec): readonly string[] {
  const warnings = [...nodeLabelMapWarnings(nodeSelector, (key) => `${path}.nodeSelector[${key}]`)];
  const node = affinity?.nodeAffinity;
  const at = `${path}.affinity.nodeAffinity`;
  for (const [i, term] of (node?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []).entries())
    warnings.push(...nodeSelectorTermWarnings(`${at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[${i}]`, term));
  for (const [i, { preference }] of (node?.preferredDuringSchedulingIgnoredDuringExecution ?? []).entries())
    warnings.push(
      ...nodeSelectorTermWarnings(`${at}.preferredDuringSchedulingIgnoredDuringExecution[${i}].preference`, preference ?? {}, true),
    );
  for (const [i, { topologyKey, labelSelector }] of topologySpreadConstraints.entries()) {
    const constraint = `${path}.topologySpreadConstraints[${i}]`;
    const message = nodeLabelDeprecation(topologyKey);
    if (message !== undefined) warnings.push(`${constraint}.topologyKey: ${topologyKey} is ${message}`);
    if (labelSelector === undefined) warnings.push(`${constraint}.labelSelector: ${nullSelector}`);
  }
  return warnings;
}

function annotationWarnings({ prefix, meta, spec }: Checked, containers: readonly VisitedContainer[]): readonly string[] {
  const annotations = meta.annotations ?? {};
  const warnings: string[] = [];
  const warn = (key: string, message: string) => {
    if (Object.hasOwn(annotations, key)) warnings.push(`${prefix}metadata.annotations[${key}]: ${message}`);
  };
  const { seccompProfile, appArmorProfile } = spec.securityContext ?? {};
  for (const [key, message] of deprecatedAnnotations) warn(key, message);
  if (seccompProfile === undefined) warn(podSeccompAnnotation, seccompMessage);
  for (const { container } of containers) {
    const context = container.securityContext;
    if (context?.seccompProfile === undefined) warn(`${containerSeccompPrefix}${container.name}`, seccompMessage);
    // the strategy of pods warns when it sets the fields of the annotations
    if (prefix !== '' && appArmorProfile === undefined && context?.appArmorProfile === undefined)
      warn(`${appArmorPrefix}${container.name}`, appArmorMessage);
  }
  return warnings;
}

function volumeWarnings(path: string, volumes: readonly Volume[]): readonly string[] {
  const warnings: string[] = [];
  for (const [i, volume] of volumes.entries()) {
    const at = `${path}.volumes[${i}]`;
    // a valid volume has one source
    for (const member in volume) {
      const deprecation = deprecatedVolumes.get(member);
      if (deprecation !== undefined && volume[member as keyof Volume] !== undefined)
        warnings.push(`${at}.${deprecation[0]}: ${deprecation[1]}`);
    }
    const template = volume.ephemeral?.volumeClaimTemplate;
    if (template !== undefined) warnings.push(...claimSpecWarnings(`${at}.ephemeral.volumeClaimTemplate.spec`, template.spec));
  }
  return [...warnings, ...volumePathWarnings(volumes)];
}

/** Returns the warnings about list entries that server-side apply would merge into one. */
function duplicateWarnings(path: string, { hostAliases = [], imagePullSecrets = [] }: PodSpec): readonly string[] {
  const warnings: string[] = [];
  const duplicates = (values: readonly string[], at: (i: number) => string) => {
    const seen = new Set<string>();
    for (const [i, value] of values.entries()) {
      if (seen.has(value)) warnings.push(`${at(i)} ${JSON.stringify(value)}`);
      seen.add(value);
    }
  };
  const names = imagePullSecrets.map(({ name = '' }) => name);
  duplicates(
    hostAliases.map(({ ip = '' }) => ip),
    (i) => `${path}.hostAliases[${i}].ip: duplicate ip`,
  );
  duplicates(names, (i) => `${path}.imagePullSecrets[${i}].name: duplicate name`);
  for (const [i, name] of names.entries())
    if (name === '') warnings.push(`${path}.imagePullSecrets[${i}].name: invalid empty name ${JSON.stringify(name)}`);
  return warnings;
}

function containerWarnings({ path, container }: VisitedContainer): readonly string[] {
  const { resources, env = [] } = container;
  if (resources === undefined && env.length < 2) return [];
  return [
    ...byteResourceWarnings(`${path}.resources.limits`, resources?.limits),
    ...byteResourceWarnings(`${path}.resources.requests`, resources?.requests),
    ...envWarnings(`${path}.env`, env),
  ];
}

function podAffinityWarnings(path: string, { affinity }: PodSpec): readonly string[] {
  const warnings: string[] = [];
  const check = (at: string, term: PodAffinityTerm | undefined) => {
    if (term?.labelSelector === undefined) warnings.push(`${at}.labelSelector: ${nullSelector}`);
  };
  for (const kind of ['podAffinity', 'podAntiAffinity'] as const) {
    const at = `${path}.affinity.${kind}`;
    for (const [i, term] of (affinity?.[kind]?.requiredDuringSchedulingIgnoredDuringExecution ?? []).entries())
      check(`${at}.requiredDuringSchedulingIgnoredDuringExecution[${i}]`, term);
    for (const [i, term] of (affinity?.[kind]?.preferredDuringSchedulingIgnoredDuringExecution ?? []).entries())
      check(`${at}.preferredDuringSchedulingIgnoredDuringExecution[${i}].podAffinityTerm`, term.podAffinityTerm);
  }
  return warnings;
}
