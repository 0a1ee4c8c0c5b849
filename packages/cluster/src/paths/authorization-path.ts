import { failure } from '@oarlock/api/status';
import { pluginNameOf } from '@oarlock/kernel/plugin';
import { Authz, type Attributes } from '@oarlock/spi/authz';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';

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
});
export type AuthorizationQuery = z.input<typeof querySchema>;
export interface AuthorizationTrace {
  readonly allowed: boolean;
  /** The decision of each authorizer in order, ending with the authorizer that decides. */
  readonly steps: readonly { readonly plugin: string; readonly decision: 'allow' | 'deny' | 'no-opinion'; readonly because?: string }[];
}

/** `POST /oarlock/v1/authorization`: returns the authorizer that allows or denies a request, and the rule that it applied. */
export const authorizationPath = Paths.plugin({
  id: 'authorization-why',
  config: z.strictObject({}),
  needs: { authz: Authz },
  create: ({ authz }) => ({
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
      const answer: AuthorizationTrace = { allowed: steps.at(-1)?.decision === 'allow', steps };
      return { code: 200, body: answer };
    },
  }),
});
