import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest, conflict, isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { BoundObjectReference, TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import { checkWriteOptions, writeOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import type { ServedKind } from '../../registry/served-kind.ts';
import { objectResponse } from './responses.ts';

const gvk = { group: 'authentication.k8s.io', version: 'v1', kind: 'TokenRequest' } as const;
const schema = schemaOf(gvk);
const minExpirationSeconds = 10 * 60;
const maxExpirationSeconds = 2 ** 32;

/** POST of serviceaccounts/token. */
export async function createToken(
  registry: RegistryDependencies,
  accounts: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const { request, now } = context;
  const { admission, reader, clusterKeys: keys } = registry;
  checkWriteOptions(request.query, 'CreateOptions');
  const body = decodeBody<TokenRequest>(request.body, { gvk, schema });
  const { name, namespace } = request;
  const { name: ownName = '', namespace: ownNamespace = '' } = body.metadata ?? {};
  const mismatch = (field: string, value: string, what: string) =>
    invalidStatus({ ...gvk, name: ownName }, [invalid(field, value, `must match the service account ${what} if specified`)]);
  if (ownName !== '' && ownName !== name) throw mismatch('metadata.name', ownName, 'name');
  if (ownNamespace !== '' && ownNamespace !== namespace) throw mismatch('metadata.namespace', ownNamespace, 'namespace');
  const account = (await reader.getLatest(accounts, namespace, name, request.signal)).object;
  const { audiences = [], expirationSeconds = 3600, boundObjectRef } = body.spec ?? {};
  const { issuer } = keys.serviceAccount;
  const wanted = audiences.length === 0 ? [issuer] : audiences;
  let token: TokenRequest = {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace, creationTimestamp: formatTime(now) },
    // admission gets the audiences of the request; the default audiences are filled in after it, as upstream does
    spec: { audiences, expirationSeconds, ...(boundObjectRef && { boundObjectRef }) },
    status: { token: '', expirationTimestamp: '' },
  };
  if (expirationSeconds < minExpirationSeconds)
    throw invalidStatus({ ...gvk, name: '' }, [
      invalid('spec.expirationSeconds', expirationSeconds, 'may not specify a duration less than 10 minutes'),
    ]);
  if (expirationSeconds > maxExpirationSeconds)
    throw invalidStatus({ ...gvk, name: '' }, [
      invalid('spec.expirationSeconds', expirationSeconds, 'may not specify a duration larger than 2^32 seconds'),
    ]);
  const admitted = {
    operation: 'CREATE' as const,
    resource: accounts.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
    name,
  };
  if (admission.mutates('CREATE', accounts.resource, 'token'))
    token = (await admission.mutate(context, { ...admitted, object: token })) as TokenRequest;
  await admission.validate(context, { ...admitted, object: token });
  token = { ...token, spec: { ...token.spec, audiences: wanted } };
  const bound = boundObjectRef === undefined ? undefined : await resolveBoundObjects(registry, context, boundObjectRef, name);
  const seconds = Math.floor(now / 1000);
  const jti = registry.random.uuid();
  context.annotate('authentication.kubernetes.io/issued-credential-id', `JTI=${jti}`);
  const claims = {
    aud: wanted,
    // as kube-apiserver with --service-account-extend-token-expiration=false: tokens of pods are not extended to a year
    exp: seconds + expirationSeconds,
    iat: seconds,
    iss: issuer,
    jti,
    'kubernetes.io': {
      namespace,
      ...bound,
      serviceaccount: { name, uid: account.metadata?.uid ?? '' },
    },
    nbf: seconds,
    sub: `system:serviceaccount:${namespace}:${name}`,
  };
  const status = { token: await sign(keys, claims), expirationTimestamp: formatTime(now + expirationSeconds * 1000) };
  return objectResponse({ ...token, status } as KubeObject, context);
}

interface BoundObject {
  readonly name: string;
  readonly uid: string;
}
interface BoundObjects {
  readonly pod?: BoundObject;
  readonly node?: BoundObject;
  readonly secret?: BoundObject;
}

async function resolveBoundObjects(
  { reader, servedKind: kind }: RegistryDependencies,
  { request }: RequestContext,
  ref: BoundObjectReference,
  account: string,
): Promise<BoundObjects> {
  const { namespace, signal } = request;
  const { apiVersion = '', kind: refKind = '', name = '', uid = '' } = ref;
  const find = async (resource: string): Promise<KubeObject> =>
    (await reader.getLatest(kind('', 'v1', resource), resource === 'nodes' ? '' : namespace, name, signal)).object;
  const refOf = ({ metadata }: KubeObject): BoundObject => {
    const own = metadata?.uid ?? '';
    if (uid !== '' && uid !== own)
      throw conflict(
        { group: '', resource: refKind },
        name,
        `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`,
      );
    return { name, uid: own };
  };
  if (apiVersion === 'v1' && refKind === 'Pod') {
    const pod = (await find('pods')) as Pod;
    if (pod.spec?.serviceAccountName !== account)
      throw badRequest(
        `cannot bind token for serviceaccount ${JSON.stringify(account)} to pod running with different serviceaccount name.`,
      );
    const nodeName = pod.spec.nodeName ?? '';
    const node = nodeName === '' ? undefined : await nodeRef(reader, kind('', 'v1', 'nodes'), nodeName, signal);
    return { ...(node && { node }), pod: refOf(pod) };
  }
  if (apiVersion === 'v1' && refKind === 'Node') return { node: refOf(await find('nodes')) };
  if (apiVersion === 'v1' && refKind === 'Secret') return { secret: refOf(await find('secrets')) };
  const slash = apiVersion.indexOf('/');
  // as Go prints a group, version and kind
  const version = `${apiVersion.slice(0, Math.max(slash, 0))}/${apiVersion.slice(slash + 1)}`;
  throw badRequest(`cannot bind token to object of type ${version}, Kind=${refKind}`);
}

/** A node that is gone by now is named without a uid. */
async function nodeRef(
  reader: RegistryDependencies['reader'],
  nodes: ServedKind,
  name: string,
  signal: AbortSignal | undefined,
): Promise<BoundObject> {
  try {
    const { object } = await reader.getLatest(nodes, '', name, signal);
    return { name, uid: object.metadata?.uid ?? '' };
  } catch (error) {
    if (isStatus(error, 'NotFound')) return { name, uid: '' };
    throw error;
  }
}

interface Signer {
  readonly pem: string;
  readonly key: KeyObject;
  readonly alg: 'ES256' | 'RS256';
  readonly kid: string;
}
const signers = new WeakMap<ClusterKeys, Signer>();

function signerOf(keys: ClusterKeys): Signer {
  const pem = keys.serviceAccount.signingKey; // another one after a rotation
  let signer = signers.get(keys);
  if (signer?.pem !== pem) {
    const key = createPrivateKey(pem);
    const alg = key.asymmetricKeyType === 'ec' ? 'ES256' : 'RS256';
    const kid = createHash('sha256')
      .update(createPublicKey(key).export({ type: 'spki', format: 'der' }))
      .digest('base64url');
    signers.set(keys, (signer = { pem, key, alg, kid }));
  }
  return signer;
}

async function sign(keys: ClusterKeys, claims: Readonly<Record<string, unknown>>): Promise<string> {
  // the first token pays for the library, not the start of the server
  const { SignJWT } = await import('jose');
  const { key, alg, kid } = signerOf(keys);
  return new SignJWT(claims).setProtectedHeader({ alg, kid }).sign(key);
}
