import { randomInt } from 'node:crypto';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Container, Pod, ServiceAccount, Volume } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { ephemeralSecretReferenceError, enforcesMountableSecrets, secretReferenceError } from './mountable-secrets.ts';

const tokenPath = '/var/run/secrets/kubernetes.io/serviceaccount';
const mirror = 'kubernetes.io/config.mirror';
const alphabet = 'bcdfghjklmnpqrstvwxz2456789'; // apimachinery's alphabet of generated names: no vowels, no similar characters

/** The projected volume with the token, the CA certificate and the namespace. The object is frozen and shared by all pods. */
const projected: NonNullable<Volume['projected']> = deepFreeze({
  defaultMode: 0o644,
  sources: [
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    { downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] } },
  ],
});

const mountIn =
  (name: string) =>
  (container: Container): Container =>
    container.volumeMounts?.some(({ mountPath }) => mountPath === tokenPath)
      ? container
      : { ...container, volumeMounts: [...(container.volumeMounts ?? []), { name, readOnly: true, mountPath: tokenPath }] };

/** Returns the pod with its service account name, token volume and imagePullSecrets; the same pod if nothing is missing. */
function withServiceAccount(
  pod: Pod,
  { name, account, suffix }: { readonly name: string; readonly account: ServiceAccount; readonly suffix: () => string },
): Pod {
  const original = pod.spec ?? { containers: [] };
  let spec =
    original.serviceAccountName === name && original.serviceAccount === name
      ? original
      : { ...original, serviceAccountName: name, serviceAccount: name };
  if ((spec.imagePullSecrets?.length ?? 0) === 0 && account.imagePullSecrets !== undefined && account.imagePullSecrets.length > 0)
    spec = { ...spec, imagePullSecrets: account.imagePullSecrets };
  const automount = spec.automountServiceAccountToken ?? account.automountServiceAccountToken ?? true;
  // admission precedes validation: containers may be absent
  const all = [...(spec.containers ?? []), ...(spec.initContainers ?? [])];
  const needsMount = all.some(({ volumeMounts }) => !volumeMounts?.some(({ mountPath }) => mountPath === tokenPath));
  if (automount && needsMount) {
    const present = spec.volumes?.find((volume) => volume.name.startsWith('kube-api-access-'))?.name;
    const volumeName = present ?? `kube-api-access-${suffix()}`;
    const mount = mountIn(volumeName);
    spec = {
      ...spec,
      ...(spec.containers && { containers: spec.containers.map(mount) }),
      ...(spec.initContainers && { initContainers: spec.initContainers.map(mount) }),
      ...(present === undefined && { volumes: [...(spec.volumes ?? []), { name: volumeName, projected }] }),
    };
  }
  return spec === pod.spec ? pod : { ...pod, spec };
}

/** Returns the error of a mirror pod that references API objects; undefined for other pods. Nodes create mirror pods without further checks. */
function mirrorPodError({ spec }: Pod): string | undefined {
  if (spec?.serviceAccountName) return 'a mirror pod may not reference service accounts';
  const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? []), ...(spec?.ephemeralContainers ?? [])];
  const secret =
    (spec?.imagePullSecrets?.length ?? 0) > 0 ||
    spec?.volumes?.some(
      (volume) => volume.secret !== undefined || volume.projected?.sources?.some((source) => source.secret !== undefined),
    ) ||
    containers.some(
      ({ env, envFrom }) =>
        env?.some(({ valueFrom }) => valueFrom?.secretKeyRef !== undefined) || envFrom?.some(({ secretRef }) => secretRef !== undefined),
    );
  if (secret) return 'a mirror pod may not reference secrets';
  return spec?.volumes?.some(({ projected }) => projected?.sources?.some(({ serviceAccountToken }) => serviceAccountToken !== undefined))
    ? 'a mirror pod may not use ServiceAccountToken volume projections'
    : undefined;
}

// randomInt has its own buffer of random bytes, unlike randomBytes
function newSuffix(): string {
  let suffix = '';
  for (let rest = randomInt(alphabet.length ** 5), i = 0; i < 5; i++, rest = Math.floor(rest / alphabet.length))
    suffix += alphabet[rest % alphabet.length];
  return suffix;
}

/** Sets the service account of pods, mounts its token, and rejects pods whose service account does not exist (ServiceAccount). */
export default Admission.plugin({
  id: 'admission-service-account',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const known = informers.forResource(serviceAccounts);
    const find = async (namespace: string, name: string): Promise<ServiceAccount | undefined> => {
      try {
        return await client.get(serviceAccounts, { namespace, name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      }
    };
    const mutate = ({
      object,
      namespace,
      subresource,
    }: AdmissionRequest): KubeObject | AdmissionDecision | Promise<KubeObject | AdmissionDecision> => {
      if (object === undefined || subresource !== '') return object ?? deny('a pod is required', { reason: 'BadRequest' });
      const pod: Pod = object;
      if (pod.metadata?.annotations?.[mirror] !== undefined) {
        const fault = mirrorPodError(pod);
        return fault === undefined ? pod : deny(fault);
      }
      const name = pod.spec?.serviceAccountName || pod.spec?.serviceAccount || 'default';
      return withAccountOf(namespace, name, (account) => withServiceAccount(pod, { name, account, suffix: newSuffix }));
    };
    /** Calls a function with the service account from the cache, or from the API server if the cache does not contain it. */
    function withAccountOf<T>(
      namespace: string,
      name: string,
      use: (account: ServiceAccount) => T,
    ): T | AdmissionDecision | Promise<T | AdmissionDecision> {
      const useAccount = (account: ServiceAccount | undefined) =>
        account === undefined
          ? deny(`error looking up service account ${namespace}/${name}: serviceaccount "${name}" not found`)
          : use(account);
      const cached = known.get(`${namespace}/${name}`);
      return cached === undefined ? find(namespace, name).then(useAccount) : useAccount(cached);
    }
    /** Checks the Secret references of pods whose service account has the annotation enforce-mountable-secrets, after all plugins have mutated the pod. */
    const validate = ({ object, namespace, subresource }: AdmissionRequest): AdmissionDecision | Promise<AdmissionDecision> => {
      const pod: Pod = object ?? {};
      if (pod.metadata?.annotations?.[mirror] !== undefined && subresource === '') return allow;
      const { serviceAccountName = '' } = pod.spec ?? {};
      if (serviceAccountName === '') return deny(`no service account specified for pod ${namespace}/${pod.metadata?.name ?? ''}`);
      return withAccountOf(namespace, serviceAccountName, (account) => {
        const fault = enforcesMountableSecrets(account)
          ? (subresource === '' ? secretReferenceError : ephemeralSecretReferenceError)(pod, account)
          : undefined;
        return fault === undefined ? allow : deny(fault);
      });
    };
    return {
      matches: [
        { resources: ['pods'], operations: ['CREATE'] },
        { resources: ['pods/ephemeralcontainers'], operations: ['UPDATE'] },
      ],
      mutate,
      validate,
    };
  },
});
