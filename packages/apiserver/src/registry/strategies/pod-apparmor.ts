import { jsonEqual } from '@oarlock/api/json/json';
import type { AppArmorProfile, Container, EphemeralContainer, PodSpec } from '@oarlock/api/types/core-v1';

const annotationPrefix = 'container.apparmor.security.beta.kubernetes.io/';
const localhostPrefix = 'localhost/';
const maxProfileLength = 4095;

/** Returns the profile that a deprecated annotation stands for; undefined if the annotation is invalid. */
function profileOf(annotation: string): AppArmorProfile | undefined {
  if (annotation === 'unconfined') return { type: 'Unconfined' };
  if (annotation === 'runtime/default') return { type: 'RuntimeDefault' };
  const localhostProfile = annotation.slice(localhostPrefix.length);
  const isValid =
    annotation.startsWith(localhostPrefix) &&
    localhostProfile !== '' &&
    localhostProfile.trim() === localhostProfile &&
    Buffer.byteLength(localhostProfile) <= maxProfileLength;
  return isValid ? { type: 'Localhost', localhostProfile } : undefined;
}

/**
 * Returns a new pod's spec with the AppArmor profiles of its deprecated annotations in the fields of the containers that have none (KEP-24),
 * and warns about the annotations.
 */
export function withAppArmorFields(
  spec: PodSpec,
  annotations: Readonly<Record<string, string>> | undefined,
  warn: (message: string) => void,
): PodSpec {
  if (annotations === undefined || spec.os?.name === 'windows') return spec;
  const ofPod = spec.securityContext?.appArmorProfile;
  const withField = <T extends Container | EphemeralContainer>(container: T): T => {
    const key = `${annotationPrefix}${container.name}`;
    if (!Object.hasOwn(annotations, key) || container.securityContext?.appArmorProfile !== undefined) return container;
    const appArmorProfile = profileOf(annotations[key] ?? '');
    if (appArmorProfile !== undefined && jsonEqual(appArmorProfile, ofPod)) return container;
    warn(`metadata.annotations[${key}]: deprecated since v1.30; use the "appArmorProfile" field instead`);
    return appArmorProfile === undefined ? container : { ...container, securityContext: { ...container.securityContext, appArmorProfile } };
  };
  const { initContainers, ephemeralContainers } = spec;
  return {
    ...spec,
    containers: (spec.containers ?? []).map(withField),
    ...(initContainers && { initContainers: initContainers.map(withField) }),
    ...(ephemeralContainers && { ephemeralContainers: ephemeralContainers.map(withField) }),
  };
}
