import type { KubeObject } from '@oarlock/api/object';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import type { Resource } from '@oarlock/api/resource';
import { failure, isStatus } from '@oarlock/api/status';
import type { LoopbackTransport } from '@oarlock/client/loopback-client';
import { pluginNameOf } from '@oarlock/kernel/plugin';
import { Admission, type AdmissionPlugin, type Operation } from '@oarlock/spi/admission';
import { Authz, type Attributes } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { Loopback, type ApiHandler, type ApiVerb } from '@oarlock/spi/loopback';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';
import { explainAdmission, type AdmissionStep } from './admission-steps.ts';
import { dryRunStep } from './dry-run-step.ts';

const word = z.string().max(4096);
const querySchema = z.strictObject({
  user: word.min(1),
  groups: z.array(word).max(256).default(['system:authenticated']),
  verb: word.min(1),
  /** A non-resource path such as `/metrics`; otherwise the fields below name a resource. */
  path: word.optional(),
  group: word.default(''),
  version: word.default('*'),
  resource: word.default(''),
  subresource: word.default(''),
  namespace: word.default(''),
  name: word.default(''),
  /** The object that the request would write, or its merge patch for the verb `patch`; admission is then explained as well. */
  object: z.looseObject({ apiVersion: word.min(1), kind: word.min(1) }).optional(),
});
export type AuthorizationQuery = z.input<typeof querySchema>;
export interface AuthorizationTrace {
  readonly allowed: boolean;
  /** The decision of each authorizer in order, ending with the authorizer that decides. */
  readonly steps: readonly { readonly plugin: string; readonly decision: 'allow' | 'deny' | 'no-opinion'; readonly because?: string }[];
}

const operations: Readonly<Record<string, Operation>> = { create: 'CREATE', update: 'UPDATE', patch: 'UPDATE', delete: 'DELETE' };

/** Returns the stored object of a request; undefined if there is none. */
async function storedObject(
  client: Client,
  resource: Resource,
  key: { readonly namespace: string; readonly name: string },
): Promise<KubeObject | undefined> {
  try {
    return await client.get(resource, { name: key.name, ...(resource.namespaced && { namespace: key.namespace }) });
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}

interface AdmissionDependencies {
  readonly admission: readonly AdmissionPlugin[];
  readonly client: Client;
  /** Returns the API server of this process. */
  readonly handler: () => ApiHandler | Promise<ApiHandler>;
}

/** Explains admission of a write; undefined for other requests. @throws StatusError if the stored object cannot be read */
async function admissionStep(
  query: z.output<typeof querySchema>,
  { admission, client, handler }: AdmissionDependencies,
): Promise<AdmissionStep | undefined> {
  const { user, groups, verb, group, resource: plural, subresource, namespace, name, object } = query;
  if (subresource === 'proxy' && group === '') return proxyStep(query, await handler());
  const operation = Object.hasOwn(operations, verb) ? operations[verb] : undefined;
  if (object === undefined || operation === undefined) return undefined;
  const { apiVersion, kind } = object;
  const resource: Resource = {
    group,
    version: apiVersion.split('/').at(-1) ?? '',
    resource: plural,
    kind,
    namespaced: namespace !== '',
  };
  const old = operation === 'CREATE' || name === '' ? undefined : await storedObject(client, resource, { namespace, name });
  const identity = { name: user, groups };
  const proposed = (verb === 'patch' && old !== undefined ? applyMergePatch(old, object) : object) as KubeObject;
  const request = { identity, resource, subresource, namespace, name };
  const admitted = await explainAdmission(admission, {
    ...request,
    operation,
    object: operation === 'DELETE' ? undefined : proposed,
    old,
  });
  if (admitted.decision === 'deny') return admitted;
  return (await dryRunStep(await handler(), { ...request, verb: verb as ApiVerb, body: object })) ?? admitted;
}

/** Explains whether the API server proxies a request to the address of the object; undefined if it does. */
function proxyStep(
  { user, groups, verb, resource: plural, subresource, namespace, name }: z.output<typeof querySchema>,
  handler: ApiHandler,
): Promise<AdmissionStep | undefined> {
  const resource: Resource = { group: '', version: 'v1', resource: plural, kind: '', namespaced: namespace !== '' };
  const identity = { name: user, groups };
  return dryRunStep(handler, { identity, resource, subresource, namespace, name, verb: verb as ApiVerb, body: undefined });
}

/**
 * `POST /oarlock/v1/authorization`: returns the authorizer that allows or denies a request, and the rule that it applied; with an object also the admission
 * plugin that denies the request, or the reason for which the API server rejects a dry run of it.
 */
export const authorizationPath = Paths.plugin({
  id: 'authorization-why',
  config: z.strictObject({}),
  needs: { authz: Authz, admission: Admission, client: Client, loopback: Loopback },
  create: ({ authz, admission, client, loopback }) => ({
    path: '/oarlock/v1/authorization',
    methods: ['POST'],
    async handle({ body }) {
      const parsed = querySchema.safeParse(body);
      if (!parsed.success)
        return {
          code: 400,
          body: failure('BadRequest', parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')).status,
        };
      const { user, groups, verb, path, group, version, resource, subresource, namespace, name } = parsed.data;
      const identity = { name: user, groups };
      const attributes: Attributes =
        path === undefined
          ? { kind: 'resource', identity, verb, group, version, resource, subresource, namespace, name }
          : { kind: 'path', identity, verb, path };
      const steps: AuthorizationTrace['steps'][number][] = [];
      for (const authorizer of authz) {
        const { decision, reason: because } = await authorizer.authorize(attributes);
        steps.push({ plugin: pluginNameOf(authorizer), decision, ...(because !== undefined && because !== '' && { because }) });
        if (decision !== 'no-opinion') break;
      }
      if (steps.at(-1)?.decision === 'allow') {
        const admitted = await admissionStep(parsed.data, { admission, client, handler: () => (loopback as LoopbackTransport).handler() });
        if (admitted !== undefined) steps.push(admitted);
      }
      const answer: AuthorizationTrace = { allowed: steps.at(-1)?.decision === 'allow', steps };
      return { code: 200, body: answer };
    },
  }),
});
