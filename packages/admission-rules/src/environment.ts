import { kubernetesEnvironment, type EnvironmentOptions, type Environment } from '@oarlock/cel/environment';
import { authorizerType, resourceCheckType } from '@oarlock/cel/lib-authorizer';
import { bool, dyn, int, list, map, object, string, timestamp, type ObjectType, type Type } from '@oarlock/cel/type';

const kind = object('kubernetes.GroupVersionKind', { group: string, version: string, kind: string });
const resource = object('kubernetes.GroupVersionResource', { group: string, version: string, resource: string });
const userInfo = object('kubernetes.UserInfo', { username: string, uid: string, groups: list(string), extra: map(string, list(string)) });

/** What expressions see of a request. */
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

/** What expressions see of the request's namespace. */
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
  /** Types of the policy's own variables that may be named. */
  readonly variables?: ObjectType;
  readonly struct?: EnvironmentOptions['struct'];
  /** Of the object, where it is known; `dyn` otherwise. */
  readonly object?: Type;
  /** Match conditions of webhooks see no namespace. */
  readonly namespace?: boolean;
}

/** What the expressions of admission rules may name. */
export function admissionEnvironment({
  params = false,
  variables,
  struct,
  object: of = dyn,
  namespace = true,
}: ExpressionScope): Environment {
  return kubernetesEnvironment({
    variables: {
      object: of,
      oldObject: of,
      request: requestType,
      authorizer: authorizerType,
      'authorizer.requestResource': resourceCheckType,
      ...(namespace && { namespaceObject: namespaceType }),
      ...(params && { params: dyn }),
      ...(variables && { variables }),
    },
    ...(struct && { struct }),
  });
}
