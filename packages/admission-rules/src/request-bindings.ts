import type { KubeObject } from '@oarlock/api/object';
import type { Namespace } from '@oarlock/api/types/core-v1';
import { AuthorizerValue, ResourceCheck, type AccessDecision, type AccessAttributes } from '@oarlock/cel/libraries/authorizer';
import { parseTimestampText } from '@oarlock/cel/values/time-text';
import type { FieldMap, Value } from '@oarlock/cel/values/value';
import type { Identity } from '@oarlock/spi/authn';
import type { Attributes, Authorizer, Decision } from '@oarlock/spi/authz';
import { admissionRequestValue } from './admission-request.ts';
import type { VersionedRequest } from './versioned-request.ts';

/** Variables of an admission request that are evaluated on first use. */
export interface RequestBindingsOptions {
  readonly authz: readonly Authorizer[];
  readonly namespace: Namespace | undefined;
  readonly params: KubeObject | undefined;
  readonly object?: KubeObject | undefined;
}

/** The values of the CEL variables of admission expressions for one request, computed on first use. */
export class RequestBindings {
  readonly #request: VersionedRequest;
  readonly #authz: readonly Authorizer[];
  readonly #object: KubeObject | undefined;
  #value: Value | undefined;
  #authorizer: AuthorizerValue | undefined;
  readonly #namespace: Namespace | undefined;
  readonly namespaceObject: Value;
  readonly params: Value;
  /** The composited variables of the policy. Set after construction, because the variables are evaluated with these bindings. */
  variables: FieldMap | undefined;

  constructor(request: VersionedRequest, { authz, namespace, params, object = request.object }: RequestBindingsOptions) {
    this.#request = request;
    this.#authz = authz;
    this.#object = object;
    this.#namespace = namespace;
    this.namespaceObject = namespace === undefined ? null : namespaceValue(namespace);
    this.params = (params ?? null) as Value;
  }

  /** Returns bindings for the same request with other parameters. Shares the cache of authorizer decisions. */
  with(params: KubeObject | undefined, object = this.#object): RequestBindings {
    const other = new RequestBindings(this.#request, { authz: this.#authz, namespace: this.#namespace, params, object });
    other.#value = this.#value;
    other.#authorizer = this.authorizer;
    return other;
  }

  /** Returns bindings for the same request with its objects converted to another API version. */
  about(request: VersionedRequest, params: KubeObject | undefined): RequestBindings {
    const other = new RequestBindings(request, { authz: this.#authz, namespace: this.#namespace, params });
    other.#authorizer = this.authorizer;
    return other;
  }

  /** Returns bindings for the same request and parameters with the given state of the object. */
  on(object: KubeObject): RequestBindings {
    return this.with((this.params as KubeObject | null) ?? undefined, object);
  }

  get object(): Value {
    return (this.#object ?? null) as Value;
  }
  get oldObject(): Value {
    return (this.#request.old ?? null) as Value;
  }
  get request(): Value {
    this.#value ??= admissionRequestValue(this.#request) as unknown as Value;
    return this.#value;
  }
  get authorizer(): AuthorizerValue {
    const { identity } = this.#request;
    this.#authorizer ??= new AuthorizerValue((question) => authorizeCheck(this.#authz, identity, question));
    return this.#authorizer;
  }
  get 'authorizer.requestResource'(): Value {
    const { subresource, namespace, name, requested = this.#request } = this.#request;
    const { resource } = requested;
    return new ResourceCheck(this.authorizer, { group: resource.group, resource: resource.resource, subresource, namespace, name });
  }
}

function namespaceValue({ metadata, spec, status }: Namespace): Value {
  const { uid, creationTimestamp, deletionTimestamp, ...rest } = metadata ?? {};
  return {
    metadata: {
      ...rest,
      ...(uid !== undefined && { UID: uid }),
      ...(creationTimestamp && { creationTimestamp: parseTimestampText(creationTimestamp) }),
      ...(deletionTimestamp && { deletionTimestamp: parseTimestampText(deletionTimestamp) }),
    },
    ...(spec && { spec }),
    ...(status && { status }),
  } as unknown as Value;
}

function authorizeCheck(
  authz: readonly Authorizer[],
  user: Identity,
  question: AccessAttributes,
): AccessDecision | Promise<AccessDecision> {
  const { verb, account } = question;
  const identity: Identity =
    account === undefined
      ? user
      : {
          name: `system:serviceaccount:${account.namespace}:${account.name}`,
          groups: ['system:serviceaccounts', `system:serviceaccounts:${account.namespace}`, 'system:authenticated'],
        };
  const attributes: Attributes =
    question.path === undefined
      ? {
          kind: 'resource',
          identity,
          verb,
          group: question.group,
          version: '*',
          resource: question.resource,
          subresource: question.subresource,
          namespace: question.namespace,
          name: question.name,
        }
      : { kind: 'path', identity, verb, path: question.path };
  return authorize(authz, attributes);
}

/** Calls the authorizers from index `from` on, and returns the first decision that allows or denies. */
export function authorize(authz: readonly Authorizer[], attributes: Attributes, from = 0): AccessDecision | Promise<AccessDecision> {
  for (let i = from; i < authz.length; i++) {
    const answer = (authz[i] as Authorizer).authorize(attributes);
    if (answer instanceof Promise)
      return answer.then((decision) =>
        decision.decision === 'no-opinion' ? authorize(authz, attributes, i + 1) : toAccessDecision(decision),
      );
    if (answer.decision !== 'no-opinion') return toAccessDecision(answer);
  }
  return { decision: 'no-opinion' };
}
const toAccessDecision = ({ decision, reason: because }: Decision): AccessDecision => ({ decision, reason: because });
