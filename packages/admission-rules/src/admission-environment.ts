import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { kubernetesEnvironment, storedEnvironment, type EnvironmentOptions, type Environment } from '@oarlock/cel/checker/environment';
import { authorizerType, resourceCheckType } from '@oarlock/cel/libraries/authorizer';
import { mutationLibraries } from '@oarlock/cel/libraries/kubernetes-libraries';
import { bool, dyn, int, list, map, object, string, timestamp, type ObjectType, type Type } from '@oarlock/cel/types/type';

const kind = object('kubernetes.GroupVersionKind', { group: string, version: string, kind: string });
const resource = object('kubernetes.GroupVersionResource', { group: string, version: string, resource: string });
const userInfo = object('kubernetes.UserInfo', { username: string, uid: string, groups: list(string), extra: map(string, list(string)) });

/** The CEL type of the variable `request`. */
export const requestType: ObjectType = object('kubernetes.AdmissionRequest', {
  kind,
  resource,
  subResource: string,
  requestKind: kind,
  requestResource: resource,
  requestSubResource: string,
  name: string,
  namespace: string,
  operation: string,
  userInfo,
  dryRun: bool,
  options: dyn,
});

/** The CEL type of the variable `namespaceObject`. */
export const namespaceType: ObjectType = object('kubernetes.Namespace', {
  metadata: object('kubernetes.NamespaceMetadata', {
    name: string,
    generateName: string,
    namespace: string,
    labels: map(string, string),
    annotations: map(string, string),
    UID: string,
    creationTimestamp: timestamp,
    deletionGracePeriodSeconds: int,
    deletionTimestamp: timestamp,
    generation: int,
    resourceVersion: string,
    finalizers: list(string),
  }),
  spec: object('kubernetes.NamespaceSpec', { finalizers: list(string) }),
  status: object('kubernetes.NamespaceStatus', { phase: string }),
});

export interface ExpressionScope {
  readonly params?: boolean;
  /** The types of the composited variables of the policy. */
  readonly variables?: ObjectType;
  /** The struct types of mutations; their expressions also have `jsonpatch.escapeKey`. */
  readonly struct?: EnvironmentOptions['struct'];
  /** The CEL type of the object in the request, if known; otherwise `dyn`. */
  readonly object?: Type;
  /** False for match conditions of webhooks, which have no `namespaceObject`. */
  readonly namespace?: boolean;
  /** True for expressions that are stored already, which may use everything that any version has offered. */
  readonly stored?: boolean;
}

/** Returns the CEL environment of expressions in admission policies and in match conditions of webhooks. */
export function admissionEnvironment({
  params = false,
  variables,
  struct,
  object: of = dyn,
  namespace = true,
  stored = false,
}: ExpressionScope): Environment {
  const declared = {
    object: of,
    oldObject: of,
    request: requestType,
    authorizer: authorizerType,
    'authorizer.requestResource': resourceCheckType,
    ...(namespace && { namespaceObject: namespaceType }),
    ...(params && { params: dyn }),
    ...(variables && { variables }),
  };
  if (stored) return storedEnvironment({ variables: declared, ...(struct && { struct }) });
  return kubernetesEnvironment({ variables: declared, ...(struct && { struct, libraries: mutationLibraries }) });
}

/**
 * Returns true if an expression is stored already. Stored expressions compile in the environment of stored expressions, which offers everything that any
 * version has offered; others compile in the environment of new expressions.
 */
export type IsStored = (expression: string) => boolean;

/** For objects that are read from storage: all of their expressions are stored. */
export const allStored: IsStored = () => true;

const expressionFields: ReadonlySet<string> = new Set(['expression', 'messageExpression', 'valueExpression']);

function collect(value: unknown, into: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collect(item, into);
  else if (isObject(value))
    for (const [key, each] of Object.entries(value)) {
      if (typeof each !== 'string') collect(each, into);
      else if (expressionFields.has(key)) into.add(each);
    }
}

/** Returns whether a policy or webhook configuration contained an expression before an update; a new object has no stored expressions. */
export function storedIn(old: KubeObject | undefined): IsStored {
  const expressions = new Set<string>();
  const { spec, webhooks } = (old ?? {}) as { readonly spec?: unknown; readonly webhooks?: unknown };
  collect([spec, webhooks], expressions);
  return (expression) => expressions.has(expression);
}
