import { createPrivateKey, sign } from 'node:crypto';
import { secrets, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Secret, ServiceAccount } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const secretType = 'kubernetes.io/service-account-token';
const nameOf = 'kubernetes.io/service-account.name';
const uidOf = 'kubernetes.io/service-account.uid';
const issuer = 'kubernetes/serviceaccount';
const encoded = (text: string) => Buffer.from(text).toString('base64');

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token that does not end before its Secret does, as Kubernetes made them before it bound tokens to pods. */
function legacyToken({ serviceAccount }: ClusterKeys, { metadata }: Secret, { metadata: account }: ServiceAccount): string {
  const namespace = metadata?.namespace ?? '';
  const name = account?.name ?? '';
  const key = createPrivateKey(serviceAccount.signingKey);
  const claims = {
    iss: issuer,
    sub: `system:serviceaccount:${namespace}:${name}`,
    'kubernetes.io/serviceaccount/namespace': namespace,
    'kubernetes.io/serviceaccount/secret.name': metadata?.name ?? '',
    'kubernetes.io/serviceaccount/service-account.name': name,
    'kubernetes.io/serviceaccount/service-account.uid': account?.uid ?? '',
  };
  const text = `${part({ alg: key.asymmetricKeyType === 'rsa' ? 'RS256' : 'ES256' })}.${part(claims)}`;
  // RFC 7518: the two numbers of an ECDSA signature stand side by side
  return `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

/** Fills Secrets of type `kubernetes.io/service-account-token`, and takes them away with their account. */
export default Controllers.plugin({
  id: 'controller-service-account-token',
  declares: { loop: 'serviceaccount-token' },
  config: z.strictObject({}),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys }) {
    const all = informers.of(secrets);
    const accounts = informers.of(serviceAccounts);
    const isToken = ({ type }: Secret) => type === secretType;
    const keyOf = ({ metadata }: Secret) => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
    const accountOf = async (client: Client, namespace: string, name: string): Promise<ServiceAccount | undefined> => {
      const cached = accounts.get(`${namespace}/${name}`);
      if (cached !== undefined) return cached;
      try {
        return await client.get(serviceAccounts, { namespace, name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return undefined;
        throw error;
      }
    };
    return {
      name: 'serviceaccount-token',
      watches: [
        watch(all, (secret) => (isToken(secret) ? [keyOf(secret)] : [])),
        watch(accounts, ({ metadata }) =>
          all
            .list(metadata?.namespace ?? '')
            .filter((secret) => isToken(secret) && secret.metadata?.annotations?.[nameOf] === metadata?.name)
            .map(keyOf),
        ),
      ],
      async reconcile(key, { client }) {
        const secret = all.get(key);
        // a process without the key leaves it to one that has it
        if (
          secret === undefined ||
          !isToken(secret) ||
          secret.metadata?.deletionTimestamp !== undefined ||
          keys.serviceAccount.signingKey === ''
        )
          return;
        const { namespace = '', name = '', annotations = {}, uid } = secret.metadata ?? {};
        const account = await accountOf(client, namespace, annotations[nameOf] ?? '');
        const stranger = account === undefined || (annotations[uidOf] !== undefined && annotations[uidOf] !== account.metadata?.uid);
        if (stranger) {
          try {
            await client.delete(secrets, { namespace, name }, { preconditions: { ...(uid !== undefined && { uid }) } });
          } catch (error) {
            if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
          }
          return;
        }
        const { data = {} } = secret;
        const wanted = { 'ca.crt': encoded(keys.caBundle), namespace: encoded(namespace) };
        if (
          data['token'] &&
          data['ca.crt'] === wanted['ca.crt'] &&
          data['namespace'] === wanted.namespace &&
          annotations[uidOf] !== undefined
        )
          return;
        const token = data['token'] || encoded(legacyToken(keys, secret, account));
        await client.update(secrets, {
          ...secret,
          metadata: { ...secret.metadata, annotations: { ...annotations, [uidOf]: account.metadata?.uid ?? '' } },
          data: { ...data, ...wanted, token },
        });
      },
    };
  },
});
