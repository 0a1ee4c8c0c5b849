import type { Pod, ServiceAccount } from '@oarlock/api/types/core-v1';

const enforced = 'kubernetes.io/enforce-mountable-secrets';
/** The values that Go's strconv.ParseBool parses as true. */
const yes: ReadonlySet<string> = new Set(['1', 't', 'T', 'true', 'TRUE', 'True']);

/** Returns true if pods of the service account may reference only Secrets that the service account lists. */
export const enforcesMountableSecrets = ({ metadata }: ServiceAccount): boolean => yes.has(metadata?.annotations?.[enforced] ?? '');

interface Naming {
  readonly name?: string;
  readonly env?: readonly { readonly name?: string; readonly valueFrom?: { readonly secretKeyRef?: { readonly name?: string } } }[];
  readonly envFrom?: readonly { readonly secretRef?: { readonly name?: string } }[];
}

function containersSecretError(
  kind: string,
  { containers, own, account }: { readonly containers: readonly Naming[]; readonly own: ReadonlySet<string>; readonly account: string },
): string | undefined {
  const because = `is not allowed because service account ${account} does not reference that secret`;
  for (const { name = '', env = [], envFrom = [] } of containers) {
    for (const { name: variable = '', valueFrom } of env) {
      const secret = valueFrom?.secretKeyRef?.name;
      if (secret !== undefined && !own.has(secret))
        return `${kind} ${name} with envVar ${variable} referencing secret.secretName="${secret}" ${because}`;
    }
    for (const { secretRef } of envFrom) {
      const secret = secretRef?.name;
      if (secret !== undefined && !own.has(secret))
        return `${kind} ${name} with envFrom referencing secret.secretName="${secret}" ${because}`;
    }
  }
  return undefined;
}

const namesOf = (references: readonly { readonly name?: string }[] = []) => new Set(references.map(({ name = '' }) => name));

/** Returns the error for the first Secret of a new pod that the service account does not list, in Kubernetes' words; undefined if there is none. */
export function secretReferenceError({ spec }: Pod, { metadata, secrets, imagePullSecrets }: ServiceAccount): string | undefined {
  const account = metadata?.name ?? '';
  const own = namesOf(secrets);
  for (const { secret } of spec?.volumes ?? [])
    if (secret !== undefined && !own.has(secret.secretName ?? ''))
      return `volume with secret.secretName="${secret.secretName ?? ''}" is not allowed because service account ${account} does not reference that secret`;
  const inContainers =
    containersSecretError('init container', { containers: spec?.initContainers ?? [], own, account }) ??
    containersSecretError('container', { containers: spec?.containers ?? [], own, account });
  if (inContainers !== undefined) return inContainers;
  const pull = namesOf(imagePullSecrets);
  for (const [at, { name = '' }] of (spec?.imagePullSecrets ?? []).entries())
    if (!pull.has(name))
      return `imagePullSecrets[${at}].name="${name}" is not allowed because service account ${account} does not reference that imagePullSecret`;
  return undefined;
}

/** Returns the error of `secretReferenceError` for ephemeral containers that are added to a pod. */
export const ephemeralSecretReferenceError = ({ spec }: Pod, { metadata, secrets }: ServiceAccount): string | undefined =>
  containersSecretError('ephemeral container', {
    containers: spec?.ephemeralContainers ?? [],
    own: namesOf(secrets),
    account: metadata?.name ?? '',
  });
