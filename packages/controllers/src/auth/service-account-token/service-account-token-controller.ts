import { createPrivateKey, sign } from 'node:crypto';
import { secrets, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Secret, ServiceAccount } from '@oarlock/api/types/core-v1';
import { Informers, type Client } from '@oarlock/spi/client';
import { tokenAlgorithmOf, Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';

const secretType = 'kubernetes.io/service-account-token';
const accountNameAnnotation = 'kubernetes.io/service-account.name';
const accountUidAnnotation = 'kubernetes.io/service-account.uid';
const issuer = 'kubernetes/serviceaccount';
const base64 = (text: string) => Buffer.from(text).toString('base64');

const jwtPart = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/**
 * Returns a service account token without an expiry that is valid as long as its Secret exists, as Kubernetes issued before bound tokens
 * (KEP-1205).
 */
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
  const alg = tokenAlgorithmOf(key);
  const text = `${jwtPart({ alg })}.${jwtPart(claims)}`;
  // RFC 7518, section 3.4: an ECDSA signature is the concatenation of R and S, not DER
  return `${text}.${sign(`sha${alg.slice(2)}`, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

const isToken = ({ type }: Secret): boolean => type === secretType;
const keyOf = ({ metadata }: Secret): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

async function deleteSecret({ metadata }: Secret, client: Client): Promise<void> {
  const { namespace = '', name = '', uid } = metadata ?? {};
  try {
    await client.delete(secrets, { namespace, name }, { preconditions: { ...(uid !== undefined && { uid }) } });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}

/** Adds the token, CA bundle and namespace, and the uid of the service account, to a Secret that lacks any of these. */
async function populateSecret(
  secret: Secret,
  { account, keys, client }: { readonly account: ServiceAccount; readonly keys: ClusterKeys; readonly client: Client },
): Promise<void> {
  const { data = {} } = secret;
  const { namespace = '', annotations = {} } = secret.metadata ?? {};
  const expected = { 'ca.crt': base64(keys.caBundle), namespace: base64(namespace) };
  const isComplete =
    data['token'] &&
    data['ca.crt'] === expected['ca.crt'] &&
    data['namespace'] === expected.namespace &&
    annotations[accountUidAnnotation] !== undefined;
  if (isComplete) return;
  const token = data['token'] || base64(legacyToken(keys, secret, account));
  await client.update(secrets, {
    ...secret,
    metadata: { ...secret.metadata, annotations: { ...annotations, [accountUidAnnotation]: account.metadata?.uid ?? '' } },
    data: { ...data, ...expected, token },
  });
}

/** Populates Secrets of type `kubernetes.io/service-account-token`, and deletes the Secrets of deleted service accounts. */
export default Controllers.plugin({
  id: 'controller-service-account-token',
  declares: { loop: 'serviceaccount-token' },
  config: z.strictObject({}),
  needs: { informers: Informers, keys: Keys },
  create({ informers, keys }) {
    const secretInformer = informers.forResource(secrets);
    const accounts = informers.forResource(serviceAccounts);
    const getAccount = async (client: Client, namespace: string, name: string): Promise<ServiceAccount | undefined> => {
      const cached = accounts.get(`${namespace}/${name}`);
      if (cached !== undefined) return cached;
      return ignoreNotFound(() => client.get(serviceAccounts, { namespace, name }));
    };
    return {
      name: 'serviceaccount-token',
      watches: [
        watch(secretInformer, (secret) => (isToken(secret) ? [keyOf(secret)] : [])),
        watch(accounts, ({ metadata }) =>
          secretInformer
            .list(metadata?.namespace ?? '')
            .filter((secret) => isToken(secret) && secret.metadata?.annotations?.[accountNameAnnotation] === metadata?.name)
            .map(keyOf),
        ),
      ],
      async reconcile(key, { client }) {
        // without the signing key, a process that has the key reconciles the Secret
        if (keys.serviceAccount.signingKey === '') return;
        const secret = secretInformer.get(key);
        if (secret === undefined || !isToken(secret) || secret.metadata?.deletionTimestamp !== undefined) return;
        const { namespace = '', annotations = {} } = secret.metadata ?? {};
        const account = await getAccount(client, namespace, annotations[accountNameAnnotation] ?? '');
        const uid = annotations[accountUidAnnotation];
        if (account === undefined || (uid !== undefined && uid !== account.metadata?.uid)) await deleteSecret(secret, client);
        else await populateSecret(secret, { account, keys, client });
      },
    };
  },
});
