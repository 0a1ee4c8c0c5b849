import { fieldForbidden } from '../../../../field/field-error.ts';
import type { AppArmorProfile, Container, Pod, PodSpec, SeccompProfile } from '../../../../generated/types/core-v1.ts';
import type { Errors } from '../../checks.ts';

/** The deprecated annotations of a kind of profile, which a field must not contradict. */
interface ProfileKind {
  readonly name: 'apparmor' | 'seccomp';
  readonly field: 'appArmorProfile' | 'seccompProfile';
  readonly annotationPrefix: string;
  readonly defaults: readonly string[];
}
const appArmor: ProfileKind = {
  name: 'apparmor',
  field: 'appArmorProfile',
  annotationPrefix: 'container.apparmor.security.beta.kubernetes.io/',
  defaults: ['runtime/default'],
};
const seccomp: ProfileKind = {
  name: 'seccomp',
  field: 'seccompProfile',
  annotationPrefix: 'container.seccomp.security.alpha.kubernetes.io/',
  defaults: ['runtime/default', 'docker/default'],
};
const podSeccompAnnotation = 'seccomp.security.alpha.kubernetes.io/pod';

/** Rejects a new pod whose AppArmor or seccomp annotations differ from its fields. */
export function validateProfileAnnotations(errors: Errors, { metadata, spec }: Pod): void {
  const annotations = metadata?.annotations;
  if (annotations === undefined || spec === undefined || spec.os?.name === 'windows') return;
  const podSeccomp = spec.securityContext?.seccompProfile;
  if (podSeccomp !== undefined && annotations[podSeccompAnnotation] !== undefined)
    compare(errors, 'spec.securityContext.seccompProfile', {
      kind: seccomp,
      annotation: annotations[podSeccompAnnotation],
      profile: podSeccomp,
    });
  else
    for (const [path, container] of containersOf(spec))
      compareContainer(errors, path, { kind: seccomp, container, annotations, profile: container.securityContext?.seccompProfile });
  for (const [path, container] of containersOf(spec)) {
    const profile = container.securityContext?.appArmorProfile ?? spec.securityContext?.appArmorProfile;
    compareContainer(errors, path, { kind: appArmor, container, annotations, profile });
  }
}

function* containersOf(spec: PodSpec): Generator<readonly [string, Container]> {
  for (const list of ['initContainers', 'containers'] as const)
    for (const [i, container] of (spec[list] ?? []).entries()) yield [`spec.${list}[${i}]`, container];
}

interface ContainerProfile {
  readonly kind: ProfileKind;
  readonly container: Container;
  readonly annotations: Readonly<Record<string, string>>;
  readonly profile: AppArmorProfile | SeccompProfile | undefined;
}
function compareContainer(errors: Errors, path: string, { kind, container, annotations, profile }: ContainerProfile): void {
  const key = `${kind.annotationPrefix}${container.name}`;
  if (profile === undefined || !Object.hasOwn(annotations, key)) return;
  compare(errors, `${path}.securityContext.${kind.field}`, { kind, annotation: annotations[key] ?? '', profile });
}

interface AnnotatedProfile {
  readonly kind: ProfileKind;
  readonly annotation: string;
  readonly profile: AppArmorProfile | SeccompProfile;
}
function compare(errors: Errors, path: string, { kind, annotation, profile }: AnnotatedProfile): void {
  const local = 'localhost/';
  const hasType = {
    Unconfined: annotation === 'unconfined',
    RuntimeDefault: kind.defaults.includes(annotation),
    Localhost: annotation.startsWith(local),
  }[profile.type];
  if (hasType === false) errors.push(fieldForbidden(`${path}.type`, `${kind.name} type in annotation and field must match`));
  else if (profile.type === 'Localhost' && annotation.slice(local.length) !== profile.localhostProfile)
    errors.push(fieldForbidden(`${path}.localhostProfile`, `${kind.name} profile in annotation and field must match`));
}
