import { randomBytes } from 'node:crypto';
import type { KubeObject } from '@oarlock/api/object';
import { serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Container, Pod, ServiceAccount, Volume } from '@oarlock/api/types/core-v1';
import { Admission, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

const tokenPath = '/var/run/secrets/kubernetes.io/serviceaccount';
const mirror = 'kubernetes.io/config.mirror';
const alphabet = 'bcdfghjklmnpqrstvwxz2456789'; // that of generated names: no vowels, nothing that reads alike

/** `kube-api-access-x7k2p`: token, CA and namespace, as every pod of Kubernetes finds them. */
function accessVolume(name: string): Volume {
  return {
    name,
    projected: {
      defaultMode: 0o644,
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        { downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] } },
      ],
    },
  };
}

const mountIn = (name: string) => (container: Container): Container =>
  container.volumeMounts?.some(({ mountPath }) => mountPath === tokenPath) ? container
    : { ...container, volumeMounts: [...(container.volumeMounts ?? []), { name, readOnly: true, mountPath: tokenPath }] };

function withAccount(pod: Pod, account: ServiceAccount, suffix: string): Pod {
  let spec = pod.spec ?? { containers: [] };
  if (spec.imagePullSecrets === undefined || spec.imagePullSecrets.length === 0) {
    if (account.imagePullSecrets !== undefined && account.imagePullSecrets.length > 0) spec = { ...spec, imagePullSecrets: account.imagePullSecrets };
  }
  const automount = spec.automountServiceAccountToken ?? account.automountServiceAccountToken ?? true;
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const lacking = all.some(({ volumeMounts }) => !volumeMounts?.some(({ mountPath }) => mountPath === tokenPath));
  if (automount && lacking) {
    const present = spec.volumes?.find(({ name }) => name.startsWith('kube-api-access-'))?.name;
    const name = present ?? `kube-api-access-${suffix}`;
    const mount = mountIn(name);
    spec = {
      ...spec, containers: spec.containers.map(mount), ...(spec.initContainers && { initContainers: spec.initContainers.map(mount) }),
      ...(present === undefined && { volumes: [...(spec.volumes ?? []), accessVolume(name)] }),
    };
  }
  return { ...pod, spec };
}

/** Gives every pod a service account and mounts its token, and refuses pods whose account does not exist. */
export default Admission.plugin({
  id: 'admission-service-account',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const known = informers.of(serviceAccounts);
    const find = async (namespace: string, name: string): Promise<ServiceAccount | undefined> => {
      const cached = known.get(`${namespace}/${name}`);
      if (cached !== undefined) return cached;
      try {
        return await client.get(serviceAccounts, { namespace, name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      }
    };
    const mutate = async ({ object, namespace, subresource }: AdmissionRequest): Promise<KubeObject | Verdict> => {
      if (object === undefined || subresource !== '') return object ?? deny('a pod is required', { reason: 'BadRequest' });
      const pod: Pod = object;
      if (pod.metadata?.annotations?.[mirror] !== undefined) {
        return pod.spec?.serviceAccountName ? deny('a mirror pod may not reference service accounts') : pod;
      }
      const name = pod.spec?.serviceAccountName || pod.spec?.serviceAccount || 'default';
      const account = await find(namespace, name);
      if (account === undefined) return deny(`error looking up service account ${namespace}/${name}: serviceaccount "${name}" not found`);
      const suffix = Array.from(randomBytes(5), (byte) => alphabet[byte % alphabet.length]).join('');
      return withAccount({ ...pod, spec: { ...(pod.spec ?? { containers: [] }), serviceAccountName: name, serviceAccount: name } }, account, suffix);
    };
    return { matches: [{ resources: ['pods'], operations: ['CREATE'] }], mutate };
  },
});
