import { z } from 'zod';
import type { CredentialSource, TrackedAuth } from '../../keyring/docker-keyring.ts';
import { createHash } from 'node:crypto';

const coordinates = { uid: z.string(), namespace: z.string(), name: z.string() };
const pullCredentials = z.strictObject({
  kubernetesSecrets: z.array(z.strictObject({ ...coordinates, credentialHash: z.string() })).optional(),
  kubernetesServiceAccounts: z.array(z.strictObject(coordinates)).optional(),
  nodePodsAccessible: z.boolean().optional(),
});
const apiVersion = z.enum(['kubelet.config.k8s.io/v1beta1', 'kubelet.config.k8s.io/v1alpha1']);

/** A pull that was started (ImagePullIntent upstream). */
export const imagePullIntent = z.strictObject({ kind: z.literal('ImagePullIntent'), apiVersion, image: z.string() });
/** The credentials with which an image was pulled, by repository (ImagePulledRecord upstream). */
export const imagePulledRecord = z.strictObject({
  kind: z.literal('ImagePulledRecord'),
  apiVersion,
  lastUpdatedTime: z.iso.datetime(),
  imageRef: z.string(),
  credentialMapping: z.record(z.string(), pullCredentials).optional(),
});

export type ImagePullIntent = z.output<typeof imagePullIntent>;
export type ImagePulledRecord = z.output<typeof imagePulledRecord>;
export type ImagePullCredentials = z.output<typeof pullCredentials>;
export type ImagePullSecret = NonNullable<ImagePullCredentials['kubernetesSecrets']>[number];

export const recordVersion = 'kubelet.config.k8s.io/v1beta1';

type Coordinates = Omit<CredentialSource, 'kind'>;

export const sameCoordinates = (a: Coordinates, b: Coordinates): boolean =>
  a.uid === b.uid && a.namespace === b.namespace && a.name === b.name;

const byCoordinates = (a: Coordinates, b: Coordinates): number => {
  const [first, second] = [a, b].map(({ namespace, name, uid }) => JSON.stringify([namespace, name, uid]));
  return (first ?? '') < (second ?? '') ? -1 : 1;
};

/** Returns the credentials of a pull as a record contains them. Credentials of the node and anonymous pulls make the image accessible to all pods. */
export function pullCredentialsOf(used: TrackedAuth | undefined): ImagePullCredentials {
  if (used?.source === undefined) return { nodePodsAccessible: true };
  const { kind, ...source } = used.source;
  return kind === 'Secret'
    ? { kubernetesSecrets: [{ ...source, credentialHash: credentialHash(used) }] }
    : { kubernetesServiceAccounts: [source] };
}

const credentialHash = ({ auth }: TrackedAuth): string =>
  createHash('sha256')
    .update(JSON.stringify(Object.entries(auth).sort(([a], [b]) => (a < b ? -1 : 1))))
    .digest('hex');

/** Returns the credentials with those of another pull; the same object if these add nothing. */
export function mergePullCredentials(known: ImagePullCredentials | undefined, added: ImagePullCredentials): ImagePullCredentials {
  if (known === undefined || added.nodePodsAccessible === true) return known?.nodePodsAccessible === true ? known : added;
  if (known.nodePodsAccessible === true) return known;
  const secrets = known.kubernetesSecrets ?? [];
  const newSecrets = (added.kubernetesSecrets ?? []).filter(
    (one) => !secrets.some((other) => sameCoordinates(one, other) && one.credentialHash === other.credentialHash),
  );
  const accounts = known.kubernetesServiceAccounts ?? [];
  const newAccounts = (added.kubernetesServiceAccounts ?? []).filter((one) => !accounts.some((other) => sameCoordinates(one, other)));
  if (newSecrets.length === 0 && newAccounts.length === 0) return known;
  const kept = secrets.filter((one) => !newSecrets.some((other) => sameCoordinates(one, other)));
  return {
    ...(kept.length + newSecrets.length > 0 && { kubernetesSecrets: [...kept, ...newSecrets].sort(byCoordinates) }),
    ...(accounts.length + newAccounts.length > 0 && { kubernetesServiceAccounts: [...accounts, ...newAccounts].sort(byCoordinates) }),
  };
}
