import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest, conflict, isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { BoundObjectReference, TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { conformAdmitted, decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { checkWriteOptions, writeOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import type { ServedKind } from '../../../registry/served-kind.ts';
import type { RequestScope } from '../../../registry/request-scope.ts';
import { objectResponse } from './responses.ts';
import { signServiceAccountToken } from './service-account-token-signer.ts';

const gvk = { group: 'authentication.k8s.io', version: 'v1', kind: 'TokenRequest' } as const;
const schema = schemaOf(gvk);
const defaultExpirationSeconds = 60 * 60;
const minExpirationSeconds = 10 * 60;
const maxExpirationSeconds = 2 ** 32;

/** Handles POST of serviceaccounts/token, which issues a service account token. */
export async function createToken(
  registry: RegistryDependencies,
  accounts: ServedKind,
  context: RequestContext,
): Promise<PipelineResponse> {
  const { request, now } = context;
  const { name, namespace } = request;
  const scope: RequestScope = { registry, kind: accounts, context };
  checkWriteOptions(request.query, 'CreateOptions');
  const body = decodeBody<TokenRequest>(request.body, { gvk, schema });
  checkServiceAccount(body, name, namespace);
  const account = (await registry.reader.getLatest(accounts, request)).object;
  checkServiceAccountUid(body, account);
  const submitted: TokenRequest = {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace, uid: account.metadata?.uid ?? '', creationTimestamp: formatTime(now) },
    // admission sees the audiences of the request; default audiences are set after it, as upstream does
    spec: {
      ...body.spec,
      audiences: body.spec?.audiences ?? [],
      expirationSeconds: body.spec?.expirationSeconds ?? defaultExpirationSeconds,
    },
    status: { token: '', expirationTimestamp: '' },
  };
  const admitted = await admitTokenRequest(scope, submitted);
  // what admission has decided on is signed, not what the client sent
  const { audiences = [], expirationSeconds = defaultExpirationSeconds, boundObjectRef } = admitted.spec ?? {};
  const { issuer } = registry.clusterKeys.serviceAccount;
  const spec = { ...admitted.spec, audiences: audiences.length === 0 ? [issuer] : audiences };
  const bound = boundObjectRef === undefined ? undefined : await resolveBoundObjects(scope, boundObjectRef);
  const claims = claimsOf(scope, { audiences: spec.audiences, expirationSeconds, account, bound });
  const status = {
    token: await signServiceAccountToken(registry.clusterKeys, claims),
    expirationTimestamp: formatTime(now + expirationSeconds * 1000),
  };
  return objectResponse({ ...admitted, spec, status } as KubeObject, context);
}

/** Validates the name in a TokenRequest. @throws StatusError Invalid if the TokenRequest names another service account than the URL */
function checkServiceAccount(body: TokenRequest, name: string, namespace: string): void {
  const { name: ownName = '', namespace: ownNamespace = '' } = body.metadata ?? {};
  const mismatch = (field: string, value: string, property: string) =>
    invalidStatus({ ...gvk, name: ownName }, [invalid(field, value, `must match the service account ${property} if specified`)]);
  if (ownName !== '' && ownName !== name) throw mismatch('metadata.name', ownName, 'name');
  if (ownNamespace !== '' && ownNamespace !== namespace) throw mismatch('metadata.namespace', ownNamespace, 'namespace');
}

/** Validates the uid in a TokenRequest. @throws StatusError Conflict if it is the uid of an earlier service account of the name */
function checkServiceAccountUid(body: TokenRequest, { metadata: { name = '', uid = '' } = {} }: KubeObject): void {
  const requested = body.metadata?.uid ?? '';
  if (requested !== '' && requested !== uid)
    throw conflict(
      { group: gvk.group, resource: gvk.kind },
      name,
      `the UID in the token request (${requested}) does not match the UID of the service account (${uid})`,
    );
}

function checkExpirationSeconds(expirationSeconds: number): void {
  const rejection = (message: string) =>
    invalidStatus({ ...gvk, name: '' }, [invalid('spec.expirationSeconds', expirationSeconds, message)]);
  if (expirationSeconds < minExpirationSeconds) throw rejection('may not specify a duration less than 10 minutes');
  if (expirationSeconds > maxExpirationSeconds) throw rejection('may not specify a duration larger than 2^32 seconds');
}

/** Runs mutating and validating admission, and validates the mutated TokenRequest in between; returns the admitted TokenRequest. */
async function admitTokenRequest({ registry, kind, context }: RequestScope, submitted: TokenRequest): Promise<TokenRequest> {
  const { admission } = registry;
  const { request } = context;
  const attributes = {
    operation: 'CREATE' as const,
    resource: kind.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
    name: request.name,
  };
  const admitted = admission.mutates('CREATE', kind.resource, 'token')
    ? conformAdmitted<TokenRequest>(await admission.mutate(context, { ...attributes, object: submitted }), submitted, { gvk, schema })
    : submitted;
  checkExpirationSeconds(admitted.spec?.expirationSeconds ?? defaultExpirationSeconds);
  await admission.validate(context, { ...attributes, object: admitted });
  return admitted;
}

interface ClaimsInput {
  readonly audiences: readonly string[];
  readonly expirationSeconds: number;
  readonly account: KubeObject;
  readonly bound: BoundObjects | undefined;
}

/** Returns the claims of the new token, and adds the token's ID to the audit event as an annotation. */
function claimsOf(
  { registry, context }: RequestScope,
  { audiences, expirationSeconds, account, bound }: ClaimsInput,
): Readonly<Record<string, unknown>> {
  const { name, namespace } = context.request;
  const { issuer } = registry.clusterKeys.serviceAccount;
  const issuedAt = Math.floor(context.now / 1000);
  const jti = registry.random.uuid();
  context.annotate('authentication.kubernetes.io/issued-credential-id', `JTI=${jti}`);
  return {
    aud: audiences,
    // as kube-apiserver with --service-account-extend-token-expiration=false: tokens of pods are not extended to a year
    exp: issuedAt + expirationSeconds,
    iat: issuedAt,
    iss: issuer,
    jti,
    'kubernetes.io': {
      namespace,
      ...bound,
      serviceaccount: { name, uid: account.metadata?.uid ?? '' },
    },
    nbf: issuedAt,
    sub: `system:serviceaccount:${namespace}:${name}`,
  };
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
  { registry: { reader, servedKind: kind }, context: { request } }: RequestScope,
  ref: BoundObjectReference,
): Promise<BoundObjects> {
  const { namespace, name: account, signal } = request;
  const { apiVersion = '', kind: refKind = '', name = '', uid = '' } = ref;
  const find = async (resource: string): Promise<KubeObject> =>
    (await reader.getLatest(kind('', 'v1', resource), { namespace: resource === 'nodes' ? '' : namespace, name, signal })).object;
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
    const node =
      nodeName === ''
        ? undefined
        : await nodeRef(() => reader.getLatest(kind('', 'v1', 'nodes'), { namespace: '', name: nodeName, signal }), nodeName);
    return { ...(node && { node }), pod: refOf(pod) };
  }
  if (apiVersion === 'v1' && refKind === 'Node') return { node: refOf(await find('nodes')) };
  if (apiVersion === 'v1' && refKind === 'Secret') return { secret: refOf(await find('secrets')) };
  const slash = apiVersion.indexOf('/');
  // the format in which Go prints a GroupVersionKind
  const version = `${apiVersion.slice(0, Math.max(slash, 0))}/${apiVersion.slice(slash + 1)}`;
  throw badRequest(`cannot bind token to object of type ${version}, Kind=${refKind}`);
}

/** Returns the name and UID of a pod's node for the token's claims; only the name if the node no longer exists. */
async function nodeRef(getNode: () => Promise<{ readonly object: KubeObject }>, name: string): Promise<BoundObject> {
  try {
    const { object } = await getNode();
    return { name, uid: object.metadata?.uid ?? '' };
  } catch (error) {
    if (isStatus(error, 'NotFound')) return { name, uid: '' };
    throw error;
  }
}
