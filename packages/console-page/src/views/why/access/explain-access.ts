import { parseAccessTarget } from '@oarlock/api/rbac/access-target';
import { impliedGroups } from '@oarlock/api/rbac/implied-groups';
import { ruleMismatches, type RuleField, type RuleRequest } from '@oarlock/api/rbac/policy-rules';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { isApiError, type ApiClient, type Impersonation } from '../../../api/client.ts';
import { ruleRequestOf, type AccessRequest } from './access-request.ts';

/** A rule of the user, and the fields in which it does not match the request. */
export interface ComparedRule {
  readonly rule: PolicyRule;
  readonly mismatches: readonly RuleField[];
}
/** The decision of an authorizer or of admission. */
export interface AuthorizationStep {
  readonly plugin: string;
  readonly decision: string;
  readonly because?: string;
}
export interface AccessAnswer {
  readonly allowed: boolean;
  readonly reason: string;
  /** The rules of the user, the nearest first. */
  readonly rules: readonly ComparedRule[];
  /** True if the server cannot list all rules of the user: it has authorizers without rules. */
  readonly incomplete: boolean;
  /** The decisions in order; undefined where the server does not explain them to this user. */
  readonly steps?: readonly AuthorizationStep[];
}

interface AccessReview {
  readonly status: { readonly allowed: boolean; readonly denied?: boolean; readonly reason?: string; readonly evaluationError?: string };
}
interface RulesReview {
  readonly status: {
    readonly resourceRules?: readonly PolicyRule[];
    readonly nonResourceRules?: readonly PolicyRule[];
    readonly incomplete?: boolean;
  };
}

const group = 'authorization.k8s.io';
const apiVersion = `${group}/v1`;
/** A name that no namespace can have, for the rules that apply in all namespaces: a review requires a namespace. */
const noNamespace = '-';

/** Compares each rule with the request. Rules with fewer mismatches are nearer. */
export const compareRules = (rules: readonly PolicyRule[], request: RuleRequest): readonly ComparedRule[] =>
  rules.map((rule) => ({ rule, mismatches: ruleMismatches(rule, request) })).toSorted((a, b) => a.mismatches.length - b.mismatches.length);

export interface ExplainAccessOptions {
  readonly client: ApiClient;
  readonly request: AccessRequest;
  /** The user and groups of the session, for the authorizers. */
  readonly self: Impersonation;
  /** An object that the request writes: admission is explained as well. */
  readonly object?: unknown;
  readonly signal: AbortSignal;
}

/** Explains whether a user may send a request. Another user than that of the session is impersonated, for which the session needs permission. */
export async function explainAccess({ client, request, self, object, signal }: ExplainAccessOptions): Promise<AccessAnswer> {
  const { verb, target, namespace, name, user } = request;
  const parsed = parseAccessTarget(target);
  const groups = request.groups
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  const other: Impersonation | undefined = user === '' ? undefined : { user, groups };
  const review = <T>(resource: string, kind: string, spec: object): Promise<T> =>
    client.json(`/apis/${apiVersion}/${resource}`, {
      method: 'POST',
      body: JSON.stringify({ apiVersion, kind, spec }),
      ...(other && { as: other }),
      signal,
    });
  const attributes =
    'path' in parsed
      ? { nonResourceAttributes: { verb, path: parsed.path } }
      : { resourceAttributes: { verb, ...parsed, namespace, name } };
  const subject = other ?? client.impersonation ?? self;
  const query = 'path' in parsed ? { path: parsed.path } : { ...parsed, namespace, name };
  const [{ status }, rules, steps] = await Promise.all([
    review<AccessReview>('selfsubjectaccessreviews', 'SelfSubjectAccessReview', attributes),
    review<RulesReview>('selfsubjectrulesreviews', 'SelfSubjectRulesReview', { namespace: namespace === '' ? noNamespace : namespace }),
    authorizationSteps(client, signal, {
      ...query,
      ...(object !== undefined && { object }),
      user: subject.user,
      groups: [...new Set([...subject.groups, ...impliedGroups(subject.user)])],
      verb,
    }),
  ]);
  const { resourceRules = [], nonResourceRules = [], incomplete = false } = rules.status;
  const reasons = [status.reason, status.evaluationError].filter((each) => each !== undefined && each !== '');
  return {
    allowed: steps === undefined ? status.allowed : steps.every(({ decision }) => decision !== 'deny') && status.allowed,
    reason: reasons.join('; '),
    rules: compareRules('path' in parsed ? nonResourceRules : resourceRules, ruleRequestOf(request)),
    incomplete,
    ...(steps && { steps }),
  };
}

/** Returns the decisions of the authorizers, and of admission for an object; undefined where the server does not explain them to this user. */
async function authorizationSteps(
  client: ApiClient,
  signal: AbortSignal,
  query: object,
): Promise<readonly AuthorizationStep[] | undefined> {
  try {
    const body = JSON.stringify(query);
    return (
      await client.json<{ readonly steps: readonly AuthorizationStep[] }>('/oarlock/v1/authorization', { method: 'POST', body, signal })
    ).steps;
  } catch (error) {
    if (isApiError(error, 403, 404, 405)) return undefined;
    throw error;
  }
}
