import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { durationMs } from '@oarlock/api/values/duration';
import { WiringError } from '@oarlock/kernel/errors';
import { parse } from 'yaml';
import { z } from 'zod';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import type { ClusterFile } from './cluster-file.ts';
import type { PlacementSpec } from './cluster-schema.ts';
import { defaultPlacements } from './sections.ts';

const apiVersion = z.enum(['apiserver.config.k8s.io/v1', 'apiserver.config.k8s.io/v1beta1']);
const seconds = z.string().transform((text) => durationMs(text) / 1000);

/**
 * The schema of `AuthenticationConfiguration` (KEP-3331): token issuers and anonymous access. The plugin authn-oidc validates the entries of `jwt`.
 */
const authentication = z.strictObject({
  apiVersion,
  kind: z.literal('AuthenticationConfiguration'),
  jwt: z.array(z.record(z.string(), z.unknown())).default([]),
  anonymous: z
    .strictObject({ enabled: z.boolean(), conditions: z.array(z.strictObject({ path: z.string().startsWith('/') })).default([]) })
    .optional(),
});

const webhook = z.strictObject({
  timeout: seconds,
  authorizedTTL: seconds.default(300),
  unauthorizedTTL: seconds.default(30),
  cacheAuthorizedRequests: z.boolean().default(true),
  cacheUnauthorizedRequests: z.boolean().default(true),
  subjectAccessReviewVersion: z.literal('v1'),
  matchConditionSubjectAccessReviewVersion: z.literal('v1').optional(),
  failurePolicy: z.enum(['NoOpinion', 'Deny']),
  connectionInfo: z.strictObject({ type: z.literal('KubeConfigFile'), kubeConfigFile: z.string().min(1) }),
  matchConditions: z.array(z.strictObject({ expression: z.string().min(1) })).default([]),
});
/** The schema of `AuthorizationConfiguration` (KEP-3221): the chain of authorizers. */
const authorization = z.strictObject({
  apiVersion,
  kind: z.literal('AuthorizationConfiguration'),
  authorizers: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('Webhook'), name: z.string().min(1), webhook }),
        z.strictObject({ type: z.enum(['Node', 'RBAC', 'AlwaysAllow', 'AlwaysDeny']), name: z.string().min(1) }),
      ]),
    )
    .min(1),
});

const authorizerPlugins = {
  Node: 'authz-node',
  RBAC: 'authz-rbac',
  AlwaysAllow: 'authz-always-allow',
  AlwaysDeny: 'authz-always-deny',
} as const;

/**
 * Returns the cluster file with plugins in place of kube-apiserver's configuration files for authentication and authorization.
 * @throws WiringError if a configuration file is unreadable or invalid
 */
export async function withUpstreamConfigs(file: ClusterFile): Promise<ClusterFile> {
  const { authenticationConfig, authorizationConfig } = file.spec;
  if (authenticationConfig === undefined && authorizationConfig === undefined) return file;
  const resolvePath = (path: string) => resolve(file.file === undefined ? '.' : dirname(file.file), path);
  const read = async <T extends z.ZodType>(
    key: 'authenticationConfig' | 'authorizationConfig',
    path: string,
    schema: T,
  ): Promise<z.output<T>> => {
    const at = file.locate(['spec', key]);
    const fault = (message: string) => new WiringError([{ code: 'ConfigInvalid', path: `spec.${key}`, ...(at && { at }), message }]);
    let content: unknown;
    try {
      content = parse(await readFile(resolvePath(path), 'utf8'));
    } catch (error) {
      throw fault(`${path} cannot be read: ${fileErrorReason(error)}`);
    }
    const parsed = schema.safeParse(content);
    if (parsed.success) return parsed.data;
    throw fault(parsed.error.issues.map((issue) => `${path}: ${issue.path.join('.')}: ${issue.message}`).join('; '));
  };
  const authn =
    authenticationConfig === undefined
      ? undefined
      : authnOf(await read('authenticationConfig', authenticationConfig, authentication), file);
  const authz =
    authorizationConfig === undefined
      ? undefined
      : authzOf(await read('authorizationConfig', authorizationConfig, authorization), resolvePath);
  return { ...file, spec: { ...file.spec, ...(authn && { authn }), ...(authz && { authz }) } };
}

/**
 * Returns the authenticators: those of the cluster file, then token issuers, then anonymous access. An AuthenticationConfiguration with `anonymous`
 * overrides the anonymous access of the cluster file.
 */
function authnOf({ jwt, anonymous }: z.output<typeof authentication>, { spec }: ClusterFile): PlacementSpec[] {
  const listed = spec.authn ?? (defaultPlacements.authn ?? []).map((use): PlacementSpec => ({ use, config: {} }));
  const [last, others] = [listed.filter(({ use }) => use === 'authn-anonymous'), listed.filter(({ use }) => use !== 'authn-anonymous')];
  const oidc = jwt.length === 0 ? [] : [{ use: 'authn-oidc', config: { jwt } }];
  if (anonymous === undefined) return [...others, ...oidc, ...last];
  const config = { paths: anonymous.conditions.map(({ path }) => path) };
  return [...others, ...oidc, ...(anonymous.enabled ? [{ use: 'authn-anonymous', config }] : [])];
}

/**
 * Returns the authorizers of the AuthorizationConfiguration, preceded by the authorizer that allows members of `system:masters`, as in
 * kube-apiserver.
 */
function authzOf({ authorizers }: z.output<typeof authorization>, place: (path: string) => string): PlacementSpec[] {
  return [
    { use: 'authz-masters', config: {} },
    ...authorizers.map((each): PlacementSpec => {
      if (each.type !== 'Webhook') return { use: authorizerPlugins[each.type], config: {} };
      const { timeout, authorizedTTL, unauthorizedTTL, failurePolicy, connectionInfo, matchConditions } = each.webhook;
      return {
        use: 'authz-webhook',
        name: each.name,
        config: {
          kubeconfigFile: place(connectionInfo.kubeConfigFile),
          timeoutSeconds: timeout,
          authorizedCacheSeconds: each.webhook.cacheAuthorizedRequests ? authorizedTTL : 0,
          unauthorizedCacheSeconds: each.webhook.cacheUnauthorizedRequests ? unauthorizedTTL : 0,
          failurePolicy,
          matchConditions,
        },
      };
    }),
  ];
}
