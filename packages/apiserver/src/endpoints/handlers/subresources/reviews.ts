import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { badRequest } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { SelfSubjectReview, TokenReview } from '@oarlock/api/types/authentication-v1';
import type {
  LocalSubjectAccessReview,
  NonResourceAttributes,
  ResourceAttributes,
  SelfSubjectAccessReview,
  SelfSubjectRulesReview,
  SubjectAccessReview,
  SubjectRulesReviewStatus,
} from '@oarlock/api/types/authorization-v1';
import type { Identity } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import { runAuthorizers } from '../../../authorization/authorization.ts';
import { entityTooLarge } from '../../../http/errors.ts';
import { decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { checkWriteOptions, writeOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import type { BodyOptions } from '../../request/body.ts';
import { FieldManager } from '@oarlock/api/managed-fields/field-manager';
import { stripSet } from '@oarlock/api/managed-fields/strip-meta';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema/schema';
import { builtinTypes } from '../managed-fields/managed-kind.ts';
import { fieldManagerName } from '../managed-fields/tracking.ts';
import { withRequestNamespace } from '../create.ts';
import { objectResponse } from './responses.ts';

export interface ReviewResource extends BodyOptions {
  readonly resource: Resource;
}

/** The handlers of the review resources, such as TokenReview and SubjectAccessReview. Reviews are created but not stored. */
export const reviews: Readonly<
  Record<string, (registry: RegistryDependencies, kind: ReviewResource, context: RequestContext) => Promise<PipelineResponse>>
> = {
  'selfsubjectreviews.authentication.k8s.io': async (registry, kind, context) => {
    const body = await admitReview<SelfSubjectReview>(registry, kind, context);
    const userInfo = userOf(context.request.identity);
    return objectResponse({ ...body, metadata: { creationTimestamp: formatTime(context.now) }, ...{ status: { userInfo } } }, context);
  },
  'tokenreviews.authentication.k8s.io': tokenReview,
  'subjectaccessreviews.authorization.k8s.io': async (registry, kind, context) => {
    const body = await admitReview<SubjectAccessReview>(registry, kind, context);
    const { user = '', groups = [], uid, extra, resourceAttributes, nonResourceAttributes } = body.spec ?? {};
    const errors = checkAttributes(resourceAttributes, nonResourceAttributes);
    if (user === '' && groups.length === 0) errors.push(invalid('spec.user', user, 'at least one of user or group must be specified'));
    errors.push(...checkMetadata(body, 'must be empty'));
    throwIfInvalid(kind, errors);
    const identity = { name: user, groups, ...(uid !== undefined && { uid }), ...(extra && { extra }) };
    return authorizationReviewStatus(registry, context, { body, identity });
  },
  'localsubjectaccessreviews.authorization.k8s.io': async (registry, kind, context) => {
    const body = await admitReview<LocalSubjectAccessReview>(registry, kind, context);
    const { user = '', groups = [], uid, extra, resourceAttributes, nonResourceAttributes } = body.spec ?? {};
    const { namespace } = context.request;
    const errors = checkAttributes(resourceAttributes, nonResourceAttributes);
    if (user === '' && groups.length === 0) errors.push(invalid('spec.user', user, 'at least one of user or group must be specified'));
    errors.push(...checkMetadata(body, 'must be empty except for namespace', ['namespace']));
    if (resourceAttributes !== undefined && (resourceAttributes.namespace ?? '') !== namespace)
      errors.push(invalid('spec.resourceAttributes.namespace', resourceAttributes.namespace ?? '', 'must match metadata.namespace'));
    if (nonResourceAttributes !== undefined)
      errors.push(invalid('spec.nonResourceAttributes', nonResourceAttributes, 'disallowed on this kind of request'));
    throwIfInvalid(kind, errors);
    const identity = { name: user, groups, ...(uid !== undefined && { uid }), ...(extra && { extra }) };
    return authorizationReviewStatus(registry, context, { body: { ...body, metadata: { ...body.metadata, namespace } }, identity });
  },
  'selfsubjectaccessreviews.authorization.k8s.io': async (registry, kind, context) => {
    const body = await admitReview<SelfSubjectAccessReview>(registry, kind, context);
    const { resourceAttributes, nonResourceAttributes } = body.spec ?? {};
    throwIfInvalid(kind, [...checkAttributes(resourceAttributes, nonResourceAttributes), ...checkMetadata(body, 'must be empty')]);
    return authorizationReviewStatus(registry, context, { body, identity: context.request.identity });
  },
  'selfsubjectrulesreviews.authorization.k8s.io': async (registry, kind, context) => {
    const body = await admitReview<SelfSubjectRulesReview>(registry, kind, context);
    if ((body.spec?.namespace ?? '') === '') throw badRequest('no namespace on request');
    const status = await rulesReview(registry, context.request.identity, body.spec?.namespace ?? '');
    return objectResponse({ ...body, metadata: {}, ...{ spec: {}, status } } as KubeObject, context);
  },
};

/**
 * Handles SelfSubjectRulesReview: returns the rules that the authorizers list for the user. The result is incomplete if an authorizer cannot list
 * rules.
 */
async function rulesReview({ authz }: RegistryDependencies, identity: Identity, namespace: string): Promise<SubjectRulesReviewStatus> {
  const all = await Promise.all(authz.map((authorizer) => authorizer.rulesFor?.(identity, namespace)));
  const listed = all.filter((rules) => rules !== undefined);
  const reasons = listed.flatMap(({ incomplete }) => (incomplete === undefined ? [] : [incomplete]));
  if (listed.length === 0) reasons.push('the authorizers of this server do not support listing their rules');
  return {
    resourceRules: listed.flatMap(({ resources }) =>
      resources.map(({ verbs, apiGroups = [], resources: names = [], resourceNames }) => ({
        verbs: [...verbs],
        apiGroups: [...apiGroups],
        resources: [...names],
        ...(resourceNames !== undefined && resourceNames.length > 0 && { resourceNames: [...resourceNames] }),
      })),
    ),
    nonResourceRules: listed.flatMap(({ paths }) =>
      paths.map(({ verbs, nonResourceURLs = [] }) => ({ verbs: [...verbs], nonResourceURLs: [...nonResourceURLs] })),
    ),
    incomplete: reasons.length > 0,
    ...(reasons.length > 0 && { evaluationError: reasons.join(', ') }),
  };
}

/** Returns a copy of an identity for a response: responses are frozen, identities belong to the authenticators. */
function userOf({ name, uid, groups, extra }: Identity) {
  return {
    username: name,
    ...(uid !== undefined && { uid }),
    groups: [...groups],
    ...(extra && Object.keys(extra).length > 0 && { extra: structuredClone(extra) }),
  };
}

/**
 * The maximum body size of a review in bytes. Decoding, admitting and answering a review is synchronous: bodies of several MB, which every client
 * that may create reviews could send, blocked the event loop for most of a second. The largest legitimate reviews contain some thousand groups.
 */
const maxReviewBytes = 262_144;

/** Decodes a review and runs admission. @throws StatusError `RequestEntityTooLarge` if the body is too large, before the body is decoded */
async function admitReview<T extends KubeObject>(
  { admission }: RegistryDependencies,
  kind: ReviewResource,
  context: RequestContext,
): Promise<T> {
  if ((context.request.bytes ?? 0) > maxReviewBytes) throw entityTooLarge(maxReviewBytes);
  checkWriteOptions(context.request.query, 'CreateOptions');
  let object = withRequestNamespace(kind.resource, decodeBody(context.request.body, kind), {
    namespace: context.request.namespace,
    name: '',
  });
  const attributes = {
    operation: 'CREATE' as const,
    resource: kind.resource,
    old: undefined,
    options: writeOptions(context.request.query, 'CreateOptions'),
    name: '',
  };
  object = trackReview(kind, context, object);
  if (admission.mutates('CREATE', kind.resource, '')) object = await admission.mutate(context, { ...attributes, object });
  await admission.validate(context, { ...attributes, object });
  return object as T;
}

const fieldManagers = new WeakMap<Schema, FieldManager>();

/** Returns the review with the fields that the client set as managedFields. Reviews are not stored, but the response contains them, as upstream. */
function trackReview({ gvk, schema }: ReviewResource, { request, now }: RequestContext, review: KubeObject): KubeObject {
  if (schema === undefined) return review;
  let manager = fieldManagers.get(schema);
  if (manager === undefined) {
    const type = builtinTypes.of(schema);
    manager = new FieldManager({
      ...gvk,
      apiVersion: apiVersionOf(gvk),
      subresource: '',
      mayChangeAtomicity: false,
      typeOf: () => type,
      convert: (object) => object,
      resetFields: () => stripSet,
      complete: (object) => object,
    });
    fieldManagers.set(schema, manager);
  }
  return manager.update(undefined, review, fieldManagerName(request), now);
}

/** Returns an error if the metadata of a review contains more than managedFields and the fields in `allowed`. */
function checkMetadata({ metadata = {} }: KubeObject, message: string, allowed: readonly string[] = []): readonly FieldError[] {
  const extra = Object.entries(metadata).some(([key, value]) => key !== 'managedFields' && !allowed.includes(key) && !isEmpty(value));
  return extra ? [invalid('metadata', metadata, message)] : [];
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || value === 0 || (typeof value === 'object' && Object.keys(value).length === 0);

/**
 * Throws the validation errors of a review. The error names the group but not the kind, as upstream, whose decoded object has no type metadata.
 * @throws StatusError Invalid if there are errors
 */
function throwIfInvalid({ gvk }: ReviewResource, errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidStatus({ group: gvk.group, kind: '', name: '' }, errors);
}

function checkAttributes(resource: ResourceAttributes | undefined, path: NonResourceAttributes | undefined): FieldError[] {
  if (resource !== undefined && path !== undefined)
    return [invalid('spec.nonResourceAttributes', path, 'cannot be specified in combination with resourceAttributes')];
  return resource === undefined && path === undefined
    ? [invalid('spec.resourceAttributes', null, 'exactly one of nonResourceAttributes or resourceAttributes must be specified')]
    : [];
}

interface ReviewBody extends KubeObject {
  readonly spec?: { readonly resourceAttributes?: ResourceAttributes; readonly nonResourceAttributes?: NonResourceAttributes };
}

async function authorizationReviewStatus(
  { authz }: RegistryDependencies,
  context: RequestContext,
  { body, identity }: { readonly body: ReviewBody; readonly identity: Identity },
): Promise<PipelineResponse> {
  const { resourceAttributes: r, nonResourceAttributes: path } = body.spec ?? {};
  const attributes: Attributes =
    r === undefined
      ? { kind: 'path', identity, verb: path?.verb ?? '', path: path?.path ?? '' }
      : {
          kind: 'resource',
          identity,
          verb: r.verb ?? '',
          group: r.group ?? '',
          version: r.version ?? '',
          resource: r.resource ?? '',
          subresource: r.subresource ?? '',
          namespace: r.namespace ?? '',
          name: r.name ?? '',
        };
  const { decision, reason: because } = await runAuthorizers(authz, attributes);
  const status = {
    allowed: decision === 'allow',
    ...(decision === 'deny' && { denied: true }),
    ...(because !== undefined && because !== '' && { reason: because }),
  };
  return objectResponse({ ...body, ...{ status } } as KubeObject, context);
}

/** The error of a TokenReview, as upstream, for a token that no authenticator accepts or that is not valid for the requested audiences. */
const unknownToken = 'invalid bearer token';

async function tokenReview(registry: RegistryDependencies, kind: ReviewResource, context: RequestContext): Promise<PipelineResponse> {
  const body = await admitReview<TokenReview>(registry, kind, context);
  const { token = '', audiences = [] } = body.spec ?? {};
  if (token === '') throw badRequest('token is required for TokenReview in authentication');
  const answer = (status: TokenReview['status']) => objectResponse({ ...body, ...{ status } } as KubeObject, context);
  const reasons: string[] = [];
  for (const authenticator of registry.authn) {
    const result = await authenticator.authenticate({
      bearerToken: token,
      headers: {},
      path: '',
      ...(audiences.length > 0 && { audiences }),
    });
    if (result.outcome === 'rejected') reasons.push(result.reason);
    if (result.outcome !== 'authenticated') continue;
    // authentication without a token does not prove that the token is valid
    if (result.identity.groups.includes('system:unauthenticated')) continue;
    const valid =
      audiences.length === 0
        ? []
        : audiences.filter((audience) => (result.audiences ?? [registry.clusterKeys.serviceAccount.issuer]).includes(audience));
    if (audiences.length > 0 && valid.length === 0) return answer({ user: {}, error: unknownToken });
    return answer({
      authenticated: true,
      user: userOf(result.identity),
      ...(valid.length > 0 && { audiences: valid }),
    });
  }
  return answer({ user: {}, error: reasons.length === 0 ? unknownToken : `[${reasons.join(', ')}]` });
}
